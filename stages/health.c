/*
 * stages/health.c: see health.h. Two threads beside the process's own: libmicrohttpd's, which
 * answers, and one that reads the gauges when a scrape asks for them. A scrape waits for fresh
 * gauges only so long, so that a database that hangs never makes a process look dead.
 */
#include "stages/health.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/http_server.h"
#include "store/gauges.h"

#ifndef ONCEPAY_VERSION
#define ONCEPAY_VERSION "0.1.0"
#endif

enum {
    PART_COUNT_MAX = 32,
    PART_SIZE = 48,
    PROBLEM_SIZE = 240,
    CONNECTIONS_MAX = 64,
    IDLE_S = 15,
};

#define GAUGES_FRESH_US (5 * CLOCK_SECOND_US)
#define GAUGES_WAIT_US CLOCK_SECOND_US

struct part {
    char name[PART_SIZE];
    char problem[PROBLEM_SIZE]; /* "": well */
};

struct health {
    struct MHD_Daemon *daemon;
    struct store *gauges;
    int64_t stuck_after_s;

    pthread_mutex_t lock; /* guards all below */
    struct part parts[PART_COUNT_MAX];
    size_t part_count;
    bool is_stopping;
    bool is_asked;    /* somebody wants fresh gauges */
    int64_t fresh_us; /* when they were last read, monotonic; 0: never */
    int64_t rounds;   /* how often they were tried */
    pthread_cond_t asked;
    pthread_cond_t tried;
    pthread_t thread;
    bool has_thread;
};

/* --- parts -------------------------------------------------------------------------------- */

static struct part *find_part(struct health *health, const char *name)
{
    for (size_t i = 0; i < health->part_count; i++) {
        if (strcmp(health->parts[i].name, name) == 0) return &health->parts[i];
    }
    if (health->part_count == PART_COUNT_MAX) return NULL;
    struct part *part = &health->parts[health->part_count++];
    (void)snprintf(part->name, sizeof part->name, "%s", name);
    return part;
}

void health_set(struct health *health, const char *part, const char *problem)
{
    const char *now = problem == NULL ? "" : problem;
    bool is_news = false;
    pthread_mutex_lock(&health->lock);
    struct part *found = find_part(health, part);
    INVARIANT(found != NULL);
    const bool was_well = found->problem[0] == '\0';
    is_news = was_well != (now[0] == '\0');
    (void)snprintf(found->problem, sizeof found->problem, "%s", now);
    pthread_mutex_unlock(&health->lock);
    if (!is_news) return;
    if (was_well) {
        LOG_WARNING("waiting", LOG_TEXT("part", part), LOG_TEXT("problem", now));
    } else {
        LOG_INFO("well again", LOG_TEXT("part", part));
    }
}

bool health_is_ready(struct health *health)
{
    bool is_ready = true;
    pthread_mutex_lock(&health->lock);
    for (size_t i = 0; i < health->part_count; i++) {
        is_ready = is_ready && health->parts[i].problem[0] == '\0';
    }
    pthread_mutex_unlock(&health->lock);
    return is_ready;
}

int health_port(struct health *health)
{
    return http_server_port(health->daemon);
}

/* --- gauges ------------------------------------------------------------------------------- */

static void show_recovery(const struct gauges *gauges)
{
    metrics_zero(METRIC_UNKNOWN_OPEN);
    metrics_zero(METRIC_UNKNOWN_AMOUNT);
    metrics_zero(METRIC_RECOVERY_OLDEST_AGE);
    int64_t oldest_us = 0;
    for (size_t i = 0; i < gauges->recovery_count; i++) {
        const struct gauge_recovery *row = &gauges->recovery[i];
        const char *const *by_method = METRICS_LABELS(row->account, row->method);
        const char *const *by_currency = METRICS_LABELS(row->account, row->currency);
        metrics_set(METRIC_UNKNOWN_OPEN,
                    metrics_value(METRIC_UNKNOWN_OPEN, by_method) + row->unknown, by_method);
        const int64_t sum = metrics_value(METRIC_UNKNOWN_AMOUNT, by_currency);
        const int64_t room = INT64_MAX - sum;
        metrics_set(METRIC_UNKNOWN_AMOUNT,
                    row->unknown_amount_minor < room ? sum + row->unknown_amount_minor : INT64_MAX,
                    by_currency);
        if (row->oldest_us > metrics_value(METRIC_RECOVERY_OLDEST_AGE, by_method)) {
            metrics_set(METRIC_RECOVERY_OLDEST_AGE, row->oldest_us, by_method);
        }
        if (row->unknown_oldest_us > oldest_us) oldest_us = row->unknown_oldest_us;
    }
    metrics_set(METRIC_UNKNOWN_OLDEST, oldest_us, NULL);
}

static void show_stuck(const struct gauges *gauges)
{
    metrics_zero(METRIC_PAYMENT_STUCK);
    for (size_t i = 0; i < gauges->stuck_count; i++) {
        metrics_set(METRIC_PAYMENT_STUCK, gauges->stuck[i].count,
                    METRICS_LABELS(gauges->stuck[i].state));
    }
}

/* Without the lock while it reads; what it read is shown under it, so no scrape sees half. */
static void refresh(struct health *health)
{
    struct arena arena = { NULL };
    struct gauges gauges;
    pthread_mutex_unlock(&health->lock);
    const enum status status = gauges_read(health->gauges, health->stuck_after_s, &arena, &gauges);
    pthread_mutex_lock(&health->lock);
    if (status == STATUS_OK) {
        show_recovery(&gauges);
        show_stuck(&gauges);
        health->fresh_us = clock_monotonic_us();
    } else {
        LOG_DEBUG("gauges not read, showing the last ones",
                  LOG_TEXT("status", status_name(status)));
    }
    arena_finish(&arena);
    health->rounds++;
    (void)pthread_cond_broadcast(&health->tried);
}

static void *run_gauges(void *self)
{
    struct health *health = self;
    pthread_mutex_lock(&health->lock);
    while (!health->is_stopping) {
        if (health->is_asked) {
            health->is_asked = false;
            refresh(health);
        } else {
            (void)pthread_cond_wait(&health->asked, &health->lock);
        }
    }
    pthread_mutex_unlock(&health->lock);
    return NULL;
}

static struct timespec monotonic_in(int64_t wait_us)
{
    const int64_t at_us = clock_monotonic_us() + wait_us;
    return (struct timespec){ .tv_sec = at_us / CLOCK_SECOND_US,
                              .tv_nsec = at_us % CLOCK_SECOND_US * 1000 };
}

/* With the lock. Leaves when a round ended that began after the call, or the time is up. */
static void want_fresh(struct health *health)
{
    if (!health->has_thread) return;
    if (health->fresh_us != 0 && clock_monotonic_us() - health->fresh_us < GAUGES_FRESH_US) return;
    const int64_t round = health->rounds;
    const struct timespec until = monotonic_in(GAUGES_WAIT_US);
    health->is_asked = true;
    (void)pthread_cond_signal(&health->asked);
    while (health->rounds == round && !health->is_stopping) {
        if (pthread_cond_timedwait(&health->tried, &health->lock, &until) == ETIMEDOUT) return;
    }
}

/* --- answers ------------------------------------------------------------------------------ */

static void answer_ready(struct health *health, struct health_answer *out)
{
    char *text = memory_allocate(PART_COUNT_MAX * (PART_SIZE + PROBLEM_SIZE + 4) + 8);
    size_t length = 0;
    pthread_mutex_lock(&health->lock);
    for (size_t i = 0; i < health->part_count; i++) {
        const struct part *part = &health->parts[i];
        if (part->problem[0] == '\0') continue;
        length += (size_t)snprintf(text + length, PART_SIZE + PROBLEM_SIZE + 4, "%s: %s\n",
                                   part->name, part->problem);
    }
    pthread_mutex_unlock(&health->lock);
    out->status = length == 0 ? 200 : 503;
    if (length == 0) length = (size_t)snprintf(text, 8, "ok\n");
    out->body = text;
    out->length = length;
}

static void answer_metrics(struct health *health, struct health_answer *out)
{
    pthread_mutex_lock(&health->lock);
    want_fresh(health);
    out->body = metrics_render(&out->length);
    pthread_mutex_unlock(&health->lock);
    out->status = 200;
    out->content_type = METRICS_CONTENT_TYPE;
}

bool health_answer_make(struct health *health, const char *path, struct health_answer *out)
{
    struct health_answer answer = { .status = 200, .content_type = "text/plain; charset=utf-8" };
    if (strcmp(path, "/livez") == 0) {
        answer.body = memory_copy_text("ok\n");
        answer.length = strlen(answer.body);
    } else if (strcmp(path, "/readyz") == 0) {
        answer_ready(health, &answer);
    } else if (strcmp(path, "/metrics") == 0) {
        answer_metrics(health, &answer);
    } else {
        return false;
    }
    *out = answer;
    return true;
}

static enum MHD_Result handle(void *self, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request)
{
    (void)version;
    (void)upload;
    (void)request;
    *upload_size = 0;
    struct http_server_answer answer = { .status = 404,
                                         .content_type = "text/plain",
                                         .body = span_of_text("not found\n") };
    struct health_answer made = { .body = NULL };
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        answer.status = 405;
        answer.body = span_of_text("only GET\n");
        answer.allow = "GET, HEAD";
    } else if (health_answer_make(self, path, &made)) {
        answer.status = (unsigned)made.status;
        answer.content_type = made.content_type;
        answer.body = (struct span){ (const uint8_t *)made.body, made.length };
    }
    const enum MHD_Result result = http_server_respond(connection, &answer);
    free(made.body);
    return result;
}

/* --- life --------------------------------------------------------------------------------- */

static void start_thread(struct health *health)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    health->has_thread = pthread_create(&health->thread, NULL, run_gauges, health) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    INVARIANT(health->has_thread);
}

static void stop_thread(struct health *health)
{
    pthread_mutex_lock(&health->lock);
    health->is_stopping = true;
    (void)pthread_cond_broadcast(&health->asked);
    (void)pthread_cond_broadcast(&health->tried);
    pthread_mutex_unlock(&health->lock);
    if (health->has_thread) (void)pthread_join(health->thread, NULL);
}

struct health *health_open(const struct health_options *options)
{
    struct health *health = memory_allocate(sizeof *health);
    health->gauges = options->gauges;
    health->stuck_after_s = options->stuck_after_s;
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&health->lock, NULL);
    (void)pthread_cond_init(&health->asked, NULL);
    (void)pthread_cond_init(&health->tried, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    metrics_set(METRIC_BUILD_INFO, 1, METRICS_LABELS(ONCEPAY_VERSION, options->program));
    if (health->gauges != NULL) start_thread(health);
    const struct http_server_options server = {
        .address = options->address,
        .port = options->port,
        .port_file = options->port_file,
        .connections_max = CONNECTIONS_MAX,
        .idle_s = IDLE_S,
        .handle = handle,
        .self = health,
    };
    health->daemon = http_server_start(&server);
    if (health->daemon != NULL) return health;
    health_close(health);
    return NULL;
}

void health_close(struct health *health)
{
    if (health == NULL) return;
    stop_thread(health); /* also ends a scrape's wait, so that the server can stop */
    if (health->daemon != NULL) MHD_stop_daemon(health->daemon);
    store_destroy(health->gauges);
    (void)pthread_cond_destroy(&health->asked);
    (void)pthread_cond_destroy(&health->tried);
    (void)pthread_mutex_destroy(&health->lock);
    free(health);
}
