/* tests/contract/bus_fixture.c: see bus_fixture.h. */
#include "tests/contract/bus_fixture.h"

#include "pipeline/clock.h"

static const char *const WORK_SUBJECTS[] = { "work.a.*", "work.b.*" };
static const char *const LOG_SUBJECTS[] = { "log.>" };

static void check(bool condition, const char *what)
{
    if (condition) return;
    (void)fprintf(stderr, "bus_fixture: %s\n", what);
    abort();
}

int64_t bus_fixture_now_ms(void)
{
    return clock_monotonic_us() / 1000;
}

static void fill_topology(struct bus_fixture *fixture)
{
    const struct bus_stream_spec stream = {
        .messages_max = 10000,
        .bytes_max = 16 * 1024 * 1024,
        .message_bytes_max = 65536,
        .replicas = 1,
        .duplicate_window_s = 120,
    };
    fixture->streams[0] = fixture->streams[1] = stream;
    fixture->streams[0].name = "WORK";
    fixture->streams[0].subjects = WORK_SUBJECTS;
    fixture->streams[0].subject_count = COUNT_OF(WORK_SUBJECTS);
    fixture->streams[1].name = "LOG";
    fixture->streams[1].subjects = LOG_SUBJECTS;
    fixture->streams[1].subject_count = COUNT_OF(LOG_SUBJECTS);
    fixture->streams[1].retention = BUS_LIMITS;
    fixture->streams[1].age_max_s = 3600;
    static const char *const FILTERS[] = { "work.a.*", "work.b.*", NULL };
    static const char *const DURABLES[] = { "a", "b", "log" };
    for (size_t i = 0; i < COUNT_OF(fixture->consumers); i++) {
        fixture->consumers[i] = (struct bus_consumer_spec){ .stream = i < 2 ? "WORK" : "LOG",
                                                            .durable = DURABLES[i],
                                                            .filter_subject = FILTERS[i],
                                                            .ack_wait_s = 30,
                                                            .ack_pending_max = 5000 };
    }
    fixture->topology = (struct bus_topology){ fixture->streams, COUNT_OF(fixture->streams),
                                               fixture->consumers, COUNT_OF(fixture->consumers) };
}

void bus_fixture_password(struct bus_fixture *fixture, const char *password)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "listen: \"127.0.0.1:%d\"\n"
                   "jetstream { store_dir: \"%s/store\", max_file_store: 1073741824 }\n"
                   "accounts { PAY { jetstream: enabled, users: [\n"
                   "    { user: oncepay, password: \"%s\" },\n"
                   "    { user: m-1, password: m-1, permissions: { publish: [\"work.a.>\"],\n"
                   "      subscribe: [\"_INBOX.m-1.>\", \"reply.m-1.>\"] } } ] } }\n",
                   fixture->server.port, fixture->server.folder, password);
    server_fixture_write(&fixture->server, "nats.conf", text);
}

struct bus *bus_fixture_connect(struct bus_fixture *fixture)
{
    char url[128];
    (void)snprintf(url, sizeof url, "nats://oncepay:right@127.0.0.1:%d", fixture->server.port);
    const struct bus_options options = { .url = url, .name = "bus-contract" };
    struct bus *bus = NULL;
    const char *error = NULL;
    check(bus_connect(&options, &bus, &error) == STATUS_OK, "no connection");
    return bus;
}

void bus_fixture_start(struct bus_fixture *fixture)
{
    *fixture = (struct bus_fixture){ 0 };
    server_fixture_init(&fixture->server);
    fill_topology(fixture);
    bus_fixture_password(fixture, "right");
    server_fixture_argument(&fixture->server, "nats-server");
    server_fixture_argument(&fixture->server, "-c");
    server_fixture_argument(&fixture->server, "%s/nats.conf", fixture->server.folder);
    server_fixture_start(&fixture->server);
    fixture->bus = bus_fixture_connect(fixture);
}

void bus_fixture_finish(struct bus_fixture *fixture)
{
    server_fixture_thaw(&fixture->server);
    bus_close(fixture->bus);
    server_fixture_finish(&fixture->server);
    arena_finish(&fixture->arena);
}

void bus_fixture_apply(struct bus_fixture *fixture)
{
    struct bus_report report;
    enum status status = STATUS_RETRY;
    for (int i = 0; status == STATUS_RETRY && i < 50; i++) { /* JetStream starts after the port */
        status = bus_topology_apply(fixture->bus, &fixture->topology, BUS_APPLY_ALL,
                                    &fixture->arena, &report);
        if (status == STATUS_RETRY) server_fixture_sleep_ms(100);
    }
    check(status == STATUS_OK, "the topology cannot be applied");
}

struct bus_consumer *bus_fixture_consumer(struct bus_fixture *fixture, const char *durable)
{
    const char *error = "";
    const char *stream = strcmp(durable, "log") == 0 ? "LOG" : "WORK";
    struct bus_consumer *consumer = NULL;
    const enum status status = bus_consumer_open(fixture->bus, &fixture->topology, stream, durable,
                                                 &fixture->arena, &consumer, &error);
    check(status == STATUS_OK, error);
    return consumer;
}

void bus_fixture_request(struct bus_fixture *fixture, const char *subject, const char *json)
{
    const char *answer;
    struct bus_problem problem = { .text = "" };
    const enum status status =
        bus_request(fixture->bus, subject, json, 2000, &fixture->arena, &answer, &problem);
    check(status == STATUS_OK, problem.text);
}

void bus_fixture_publish(struct bus_fixture *fixture, const char *subject, const char *prefix,
                         size_t count)
{
    struct bus_stats before;
    struct bus_stats after;
    bus_stats(fixture->bus, &before);
    for (size_t i = 0; i < count; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s%zu", prefix, i);
        const struct bus_outgoing message = { .subject = subject,
                                              .body = span_of_text(text),
                                              .message_id = text };
        bus_publish(fixture->bus, &message, NULL);
    }
    check(bus_publish_flush(fixture->bus, 10000) == STATUS_OK, "publishes are not answered");
    bus_stats(fixture->bus, &after);
    check(after.published - before.published == count, "publishes are not stored");
}

size_t bus_fixture_take(struct bus_fixture *fixture, struct bus_consumer *consumer, size_t want,
                        size_t max, struct bus_message *out_messages, int64_t timeout_ms)
{
    const int64_t until_ms = bus_fixture_now_ms() + timeout_ms;
    size_t count = 0;
    while (count < max && bus_fixture_now_ms() < until_ms) {
        (void)!bus_consumer_want(consumer, want);
        count += bus_consumer_take(consumer, max - count, &out_messages[count]);
        if (count < max) bus_wait(fixture->bus, 50);
    }
    return count;
}

bool bus_fixture_wait_stored(struct bus_fixture *fixture, const char *stream, uint64_t count,
                             int64_t timeout_ms)
{
    const int64_t until_ms = bus_fixture_now_ms() + timeout_ms;
    struct bus_stream_info info = { 0 };
    do {
        if (bus_stream_info(fixture->bus, stream, &fixture->arena, &info) == STATUS_OK &&
            info.messages == count) {
            return true;
        }
        server_fixture_sleep_ms(20);
    } while (bus_fixture_now_ms() < until_ms);
    return false;
}

bool bus_fixture_wait_connected(struct bus_fixture *fixture, int64_t timeout_ms)
{
    const int64_t until_ms = bus_fixture_now_ms() + timeout_ms;
    while (!bus_is_connected(fixture->bus) && bus_fixture_now_ms() < until_ms) {
        bus_wait(fixture->bus, 50);
    }
    return bus_is_connected(fixture->bus);
}
