/*
 * ops/shim/slow_fsync.c: a preload library that makes fsync slow. It delays fsync and fdatasync by
 * what the file named in ONCEPAY_SLOW_FSYNC says, and counts there what it delayed: two
 * little-endian 64-bit numbers, milliseconds and count. Without the variable it does nothing.
 * Programs that make system calls of their own (nats-server) never get here.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct control {
    uint64_t delay_ms;
    uint64_t delayed;
};

static struct control *control_map(void)
{
    static struct control *mapped;
    static int is_tried;
    const char *path = getenv("ONCEPAY_SLOW_FSYNC");
    if (mapped != NULL || is_tried || path == NULL) return mapped;
    is_tried = 1;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    void *memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (memory != MAP_FAILED) mapped = memory;
    return mapped;
}

static void delay(void)
{
    struct control *control = control_map();
    if (control == NULL) return;
    const uint64_t delay_ms = __atomic_load_n(&control->delay_ms, __ATOMIC_RELAXED);
    if (delay_ms == 0) return;
    const struct timespec wait = { .tv_sec = (time_t)(delay_ms / 1000),
                                   .tv_nsec = (long)(delay_ms % 1000) * 1000000 };
    (void)nanosleep(&wait, NULL);
    (void)__atomic_fetch_add(&control->delayed, 1, __ATOMIC_RELAXED);
}

int fsync(int fd)
{
    delay();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fildes)
{
    delay();
    return (int)syscall(SYS_fdatasync, fildes);
}
