/* stages/stage.c: see stage.h: opening and closing a process, and what it announces after a commit.
 */
#include "stages/stage.h"

#include <getopt.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"

volatile sig_atomic_t stage_stop;

struct announcement {
    char subject[SUBJECT_SIZE];
    struct command command;
    bool is_sent;
};

struct stage_announcements {
    struct arena arena;
    struct announcement *commands;
    size_t command_count;
    size_t command_size;
    struct bus_outgoing *replies;
    size_t reply_count;
    size_t reply_size;
    bool has_events;
};

static void on_signal(int signal_number)
{
    (void)signal_number;
    if (stage_stop) _exit(130); /* the second one means it: redelivery does the rest */
    stage_stop = 1;
}

static void install_signals(void)
{
    struct sigaction action = { 0 };
    action.sa_handler = on_signal;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
}

struct options {
    const char *config_path;
    int64_t metrics_port; /* -1: as configured */
};

static void print_usage(const char *program, FILE *out)
{
    fprintf(out,
            "usage: %s [--config FILE] [--metrics-port N]\n"
            "  --config FILE       configuration; default: $ONCEPAY_CONFIG or config/oncepay.yaml\n"
            "  --metrics-port N    port of /metrics, /livez, /readyz; 0 takes any\n",
            program);
}

/* False: leave with *out_exit_code. */
static bool read_options(int argc, char **argv, struct options *out, int *out_exit_code)
{
    static const struct option LONG[] = {
        { "config", required_argument, NULL, 'c' },
        { "metrics-port", required_argument, NULL, 'm' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    *out = (struct options){ .metrics_port = -1 };
    int option;
    while ((option = getopt_long(argc, argv, "c:m:h", LONG, NULL)) != -1) {
        char *end = NULL;
        switch (option) {
        case 'c':
            out->config_path = optarg;
            break;
        case 'm':
            out->metrics_port = strtol(optarg, &end, 10);
            if (*end != '\0' || out->metrics_port < 0 || out->metrics_port > 65535) {
                fprintf(stderr, "%s: --metrics-port: a number from 0 to 65535\n", argv[0]);
                *out_exit_code = 2;
                return false;
            }
            break;
        case 'h':
            print_usage(argv[0], stdout);
            *out_exit_code = 0;
            return false;
        default:
            print_usage(argv[0], stderr);
            *out_exit_code = 2;
            return false;
        }
    }
    if (optind != argc) {
        print_usage(argv[0], stderr);
        *out_exit_code = 2;
        return false;
    }
    return true;
}

static void name_actor(struct stage *stage, const char *name)
{
    char host[40] = "";
    (void)gethostname(host, sizeof host - 1);
    stage->name = name;
    (void)snprintf(stage->actor, sizeof stage->actor, "%s/%s/%ld", name, host, (long)getpid());
}

struct store *stage_store_create(const struct stage *stage, const char *purpose)
{
    char application[64];
    (void)snprintf(application, sizeof application, "oncepay-%s%s%s", stage->name,
                   purpose[0] == '\0' ? "" : "-", purpose);
    const struct store_options options = {
        .url = stage->config.postgres.url,
        .application = application,
        .statement_timeout_ms = (int)stage->config.postgres.statement_timeout_ms,
        .lock_timeout_ms = (int)stage->config.postgres.lock_timeout_ms,
    };
    return store_create(&options);
}

static bool open_health(struct stage *stage, const struct options *options)
{
    char program[40];
    (void)snprintf(program, sizeof program, "oncepay-%s", stage->name);
    const int64_t port =
        options->metrics_port >= 0 ? options->metrics_port : stage->config.metrics.port;
    stage->health = health_open(&(struct health_options){
        .program = program,
        .address = stage->config.metrics.address,
        .port = (int)port,
        .port_file = getenv("ONCEPAY_METRICS_PORT_FILE"),
        .gauges = stage_store_create(stage, "gauges"),
        .stuck_after_s = stage->config.timers.stuck_after_s,
    });
    return stage->health != NULL;
}

/*
 * Ids carry the time of the process that draws them, and what finds, keeps and prunes rows goes by
 * it. Hours apart all of that holds; days apart events would be looked for where they are not.
 */
#define CLOCKS_APART_MAX_US (6 * 3600 * CLOCK_SECOND_US)

static bool agrees_with_our_clock(int64_t database_us)
{
    const int64_t ahead_us = clock_real_us() - database_us;
    if (ahead_us <= CLOCKS_APART_MAX_US && ahead_us >= -CLOCKS_APART_MAX_US) return true;
    LOG_ERROR("this machine's clock is too far from the database's",
              LOG_NUMBER("ahead_s", ahead_us / CLOCK_SECOND_US));
    return false;
}

/* False: not with this clock. PostgreSQL away: the loop says so. */
static bool has_right_time(struct stage *stage)
{
    struct arena arena = { 0 };
    struct sql_call call;
    struct store_result result = { 0 };
    bool is_right = true;
    sql_call_begin(&call, STMT_STANDBY_NAMES, &arena);
    if (store_run(stage->store, &call, &result) == STATUS_OK) {
        const char *names = result_text(&result, 0, 0);
        /* Without one a lost disk loses commits (protocol H10): fine for development. */
        if (names == NULL || names[0] == '\0') LOG_WARNING("no synchronous standby");
        is_right = agrees_with_our_clock(result_time_us(&result, 0, 1));
    }
    store_result_clear(&result);
    arena_finish(&arena);
    return is_right;
}

/* False: `oncepay migrate` has not been there. PostgreSQL away: the loop says so. */
static bool has_schema(struct stage *stage)
{
    struct arena arena = { 0 };
    struct sql_call call;
    struct store_result result = { 0 };
    size_t last = 0;
    while (migration_texts[last + 1].name != NULL) last++;
    sql_call_begin(&call, STMT_MIGRATION_FIND, &arena);
    sql_bind_text(&call, migration_texts[last].name);
    const enum status status = store_run(stage->store, &call, &result);
    const bool is_missing =
        status == STATUS_STOP || (status == STATUS_OK && result_rows(&result) == 0);
    if (is_missing) {
        LOG_ERROR("the database's schema is older than this program: run oncepay migrate",
                  LOG_TEXT("missing", migration_texts[last].name));
    }
    store_result_clear(&result);
    arena_finish(&arena);
    return !is_missing;
}

static bool open_connections(struct stage *stage, int *out_exit_code)
{
    const char *error = NULL;
    health_set(stage->health, "nats", "connecting");
    const struct bus_options bus_options = {
        .url = stage->config.nats.url,
        .name = stage->actor,
        .ca_file = stage->config.nats.ca_file[0] == '\0' ? NULL : stage->config.nats.ca_file,
        .stop = &stage_stop,
    };
    const enum status status = bus_connect(&bus_options, &stage->bus, &error);
    if (status != STATUS_OK) {
        if (!stage_stop) LOG_ERROR("cannot connect to NATS", LOG_TEXT("why", error));
        *out_exit_code = stage_stop ? 0 : 2;
        return false;
    }
    health_set(stage->health, "nats", NULL);
    const struct cache_options cache_options = {
        .url = stage->config.redis.url,
        .hmac_key = stage->config.redis.hmac_key,
        .connect_timeout_ms = stage->config.redis.connect_timeout_ms,
        .command_timeout_ms = stage->config.redis.command_timeout_ms,
        .placeholder_ms = stage->config.redis.placeholder_ms,
        .lease_ms = stage->config.timers.lease_s * 1000,
    };
    if (cache_open(&cache_options, &stage->cache, &error) != STATUS_OK) {
        LOG_ERROR("redis options are wrong", LOG_TEXT("why", error));
        *out_exit_code = 2;
        return false;
    }
    stage->store = stage_store_create(stage, "");
    if (!has_right_time(stage) || !has_schema(stage)) {
        *out_exit_code = 3;
        return false;
    }
    return true;
}

bool stage_open(struct stage *stage, const char *name, int argc, char **argv, int *out_exit_code)
{
    *stage = (struct stage){ 0 };
    struct options options;
    if (!read_options(argc, argv, &options, out_exit_code)) return false;
    char program[40];
    (void)snprintf(program, sizeof program, "oncepay-%s", name);
    log_open(program);
    name_actor(stage, name);
    struct config_error error;
    if (config_load(options.config_path, &stage->config, &error) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", program, error.text);
        *out_exit_code = 2;
        return false;
    }
    config_topology(&stage->config, &stage->topology_arena, &stage->topology);
    install_signals();
    stage->announcements = memory_allocate(sizeof *stage->announcements);
    if (!open_health(stage, &options)) {
        *out_exit_code = 2;
        stage_close(stage);
        return false;
    }
    if (!open_connections(stage, out_exit_code)) {
        stage_close(stage);
        return false;
    }
    LOG_INFO("started", LOG_TEXT("actor", stage->actor));
    return true;
}

void stage_close(struct stage *stage)
{
    if (stage->bus != NULL) bus_close(stage->bus);
    cache_close(stage->cache);
    store_destroy(stage->store);
    health_close(stage->health);
    if (stage->announcements != NULL) {
        arena_finish(&stage->announcements->arena);
        free(stage->announcements->commands);
        free(stage->announcements->replies);
        free(stage->announcements);
    }
    arena_finish(&stage->topology_arena);
    config_finish(&stage->config);
    *stage = (struct stage){ 0 };
}

struct bus_consumer *stage_consumer_open(struct stage *stage, const char *stream,
                                         const char *durable, int *out_exit_code)
{
    struct arena arena = { 0 };
    struct bus_consumer *consumer = NULL;
    int64_t wait_ms = 100;
    while (!stage_stop) {
        const char *error = NULL;
        const enum status status = bus_consumer_open(stage->bus, &stage->topology, stream, durable,
                                                     &arena, &consumer, &error);
        if (status == STATUS_OK) {
            health_set(stage->health, durable, NULL);
            break;
        }
        health_set(stage->health, durable, error != NULL ? error : "not there yet");
        if (status == STATUS_STOP) {
            LOG_ERROR("topology mismatch: run `oncepay topology apply`", LOG_TEXT("stream", stream),
                      LOG_TEXT("consumer", durable), LOG_TEXT("why", error));
            *out_exit_code = 3;
            break;
        }
        LOG_WARNING("waiting for a consumer", LOG_TEXT("stream", stream),
                    LOG_TEXT("consumer", durable), LOG_TEXT("why", error),
                    LOG_NUMBER("retry_ms", wait_ms));
        (void)poll(NULL, 0, (int)stage_jitter_ms(wait_ms));
        wait_ms = wait_ms * 2 > 2000 ? 2000 : wait_ms * 2;
        arena_reset(&arena);
    }
    arena_finish(&arena);
    return consumer;
}

/* 0 … range, both included. */
static int64_t random_up_to(int64_t range)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint32_t)clock_monotonic_us();
    return (int64_t)(random % (uint64_t)(range + 1));
}

int64_t stage_jitter_ms(int64_t ms)
{
    return ms <= 1 ? ms : ms / 2 + random_up_to(ms - ms / 2);
}

bool stage_newer_is_too_old(const struct stage *stage, const struct bus_message *message)
{
    return clock_real_us() - message->stored_at_us >
           stage->config.timers.start_by_s * CLOCK_SECOND_US;
}

int64_t stage_spread_ms(int64_t ms)
{
    const int64_t fifth = ms / 5;
    return ms <= 1 ? ms : ms - fifth + random_up_to(2 * fifth);
}

/* Announcements ------------------------------------------------------------------------------ */

void stage_announce(struct stage *stage, const char *subject, struct command command)
{
    struct stage_announcements *kept = stage->announcements;
    if (kept->command_count == kept->command_size) {
        kept->command_size = kept->command_size == 0 ? 64 : kept->command_size * 2;
        kept->commands = memory_resize(kept->commands, kept->command_size * sizeof *kept->commands);
    }
    struct announcement *announcement = &kept->commands[kept->command_count++];
    (void)snprintf(announcement->subject, sizeof announcement->subject, "%s", subject);
    announcement->command = command;
    announcement->is_sent = false;
}

void stage_announce_events(struct stage *stage)
{
    stage->announcements->has_events = true;
}

void stage_announce_reply(struct stage *stage, const struct bus_outgoing *reply)
{
    struct stage_announcements *kept = stage->announcements;
    if (kept->reply_count == kept->reply_size) {
        kept->reply_size = kept->reply_size == 0 ? 64 : kept->reply_size * 2;
        kept->replies = memory_resize(kept->replies, kept->reply_size * sizeof *kept->replies);
    }
    struct bus_header *headers =
        arena_allocate(&kept->arena, (reply->header_count + 1) * sizeof *headers);
    for (size_t i = 0; i < reply->header_count; i++) {
        headers[i].name =
            arena_copy(&kept->arena, reply->headers[i].name, strlen(reply->headers[i].name));
        headers[i].value =
            arena_copy(&kept->arena, reply->headers[i].value, strlen(reply->headers[i].value));
    }
    kept->replies[kept->reply_count++] = (struct bus_outgoing){
        .subject = arena_copy(&kept->arena, reply->subject, strlen(reply->subject)),
        .body = arena_copy_span(&kept->arena, reply->body),
        .headers = headers,
        .header_count = reply->header_count,
    };
}

void stage_announce_forget(struct stage *stage)
{
    struct stage_announcements *kept = stage->announcements;
    kept->command_count = 0;
    kept->reply_count = 0;
    kept->has_events = false;
    arena_reset(&kept->arena);
}

/* One message for the subject of the first unsent command, with all that go there too. */
static void send_commands_of(struct stage *stage, size_t first)
{
    struct stage_announcements *kept = stage->announcements;
    const char *subject = kept->commands[first].subject;
    struct command commands[COMMAND_BATCH_MAX];
    size_t count = 0;
    for (size_t i = first; i < kept->command_count && count < COMMAND_BATCH_MAX; i++) {
        struct announcement *announcement = &kept->commands[i];
        if (announcement->is_sent || strcmp(announcement->subject, subject) != 0) continue;
        announcement->is_sent = true;
        commands[count++] = announcement->command;
    }
    char message_id[COMMAND_MESSAGE_ID_SIZE];
    const struct bus_header headers[] = { { "content-type", "application/msgpack" } };
    const struct bus_outgoing message = {
        .subject = subject,
        .body = command_batch_encode(commands, count, &kept->arena),
        .headers = headers,
        .header_count = COUNT_OF(headers),
        .message_id = command_message_id(commands[0].outbox, 0, message_id),
    };
    bus_publish(stage->bus, &message, NULL);
}

void stage_announce_send(struct stage *stage)
{
    struct stage_announcements *kept = stage->announcements;
    for (size_t i = 0; i < kept->command_count; i++) {
        if (!kept->commands[i].is_sent) send_commands_of(stage, i);
    }
    if (kept->has_events) {
        const struct bus_outgoing poke = { .subject = SUBJECT_WAKE_RELAY };
        if (bus_publish_core(stage->bus, &poke) != STATUS_OK)
            LOG_DEBUG("poke not sent, ignoring: the relay polls");
    }
    for (size_t i = 0; i < kept->reply_count; i++) {
        const enum status status = bus_publish_core(stage->bus, &kept->replies[i]);
        if (status != STATUS_OK)
            LOG_INFO("reply not sent, ignoring", LOG_TEXT("why", status_name(status)));
    }
    stage_announce_forget(stage);
}
