/* pipeline/crash_point.c: see crash_point.h. Empty unless ONCEPAY_CRASH_POINTS is defined. */
#include "pipeline/crash_point.h"

#ifdef ONCEPAY_CRASH_POINTS

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct trap {
    const char *variable;
    int signal;
    char name[64];
    long hits_left; /* 0: not set, or gone off */
};

static struct trap traps[] = {
    { .variable = "ONCEPAY_CRASH_AT", .signal = SIGKILL },
    { .variable = "ONCEPAY_STOP_AT", .signal = SIGSTOP },
};
static pthread_once_t traps_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t traps_lock = PTHREAD_MUTEX_INITIALIZER;

static void trap_read(struct trap *trap)
{
    const char *setting = getenv(trap->variable);
    if (setting == NULL || setting[0] == '\0') return;
    const char *colon = strchr(setting, ':');
    const size_t length = colon == NULL ? strlen(setting) : (size_t)(colon - setting);
    INVARIANT(length < sizeof trap->name);
    memcpy(trap->name, setting, length);
    trap->hits_left = colon == NULL ? 1 : strtol(colon + 1, NULL, 10);
    INVARIANT(trap->hits_left > 0);
}

static void traps_read(void)
{
    for (size_t i = 0; i < COUNT_OF(traps); i++) trap_read(&traps[i]);
}

void crash_point(const char *name)
{
    INVARIANT(pthread_once(&traps_once, traps_read) == 0);
    for (size_t i = 0; i < COUNT_OF(traps); i++) {
        struct trap *trap = &traps[i];
        INVARIANT(pthread_mutex_lock(&traps_lock) == 0);
        const bool goes_off =
            trap->hits_left > 0 && strcmp(trap->name, name) == 0 && --trap->hits_left == 0;
        INVARIANT(pthread_mutex_unlock(&traps_lock) == 0);
        if (goes_off) (void)kill(getpid(), trap->signal);
    }
}

#else

/* ISO C wants one declaration in a file. */
typedef int crash_points_are_off;

#endif
