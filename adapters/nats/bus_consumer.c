/*
 * adapters/nats/bus_consumer.c: our own pull loop. Requests go out from the owner's thread when
 * half of what it wants is drained; messages, heartbeats and statuses come in on libnats' thread.
 * Data carries its stream's subject and a $JS.ACK reply, so a status is whatever has no such reply:
 * a producer cannot forge one with a header. What is outstanding is counted over all open requests,
 * because the server serves them in turn; a status that does not say how much it calls off, silence
 * or a lost connection sets the count to 0, and late messages beyond what is wanted go back.
 */
#include "adapters/nats/bus_internal.h"

#define INFO_REPLY "info"

static void set_trouble(struct bus_consumer *consumer, const char *trouble)
{
    free(consumer->trouble);
    consumer->trouble = trouble == NULL ? NULL : memory_copy_text(trouble);
}

/* Forgets all open requests; their statuses mean nothing any more. With the lock. */
static void forget_requests(struct bus_consumer *consumer)
{
    consumer->outstanding = 0;
    consumer->request_valid_from = consumer->request_number + 1;
}

static void back_off(struct bus_consumer *consumer, int64_t now_ms)
{
    const int64_t doubled_ms = consumer->backoff_ms * 2;
    consumer->backoff_ms = doubled_ms < BUS_PULL_BACKOFF_MIN_MS   ? BUS_PULL_BACKOFF_MIN_MS
                           : doubled_ms > BUS_PULL_BACKOFF_MAX_MS ? BUS_PULL_BACKOFF_MAX_MS
                                                                  : doubled_ms;
    consumer->not_before_ms = now_ms + consumer->backoff_ms;
}

static void is_well(struct bus_consumer *consumer, int64_t now_ms)
{
    consumer->heard_ms = now_ms;
    consumer->silent_rounds = 0;
    consumer->backoff_ms = 0;
    consumer->not_before_ms = 0;
}

void bus_consumer_disconnected(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    for (struct bus_consumer *consumer = bus->consumers; consumer != NULL;
         consumer = consumer->next) {
        forget_requests(consumer);
    }
    pthread_mutex_unlock(&bus->lock);
}

void bus_consumer_reconnected(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    for (struct bus_consumer *consumer = bus->consumers; consumer != NULL;
         consumer = consumer->next) {
        forget_requests(consumer); /* the server forgot them with the old connection */
        is_well(consumer, bus_now_ms());
        consumer->info_asked_ms = 0;
    }
    pthread_mutex_unlock(&bus->lock);
}

/* --- libnats' thread ------------------------------------------------------------------------- */

static void on_data(struct bus_consumer *consumer, natsMsg *message)
{
    struct bus *bus = consumer->bus;
    pthread_mutex_lock(&bus->lock);
    is_well(consumer, bus_now_ms());
    consumer->is_missing = false;
    if (!consumer->is_mismatched) set_trouble(consumer, NULL);
    bus->stats.received++;
    const bool was_asked = consumer->outstanding > 0;
    if (was_asked) consumer->outstanding--;
    const bool is_welcome = !consumer->is_paused && !consumer->is_draining &&
                            (was_asked || consumer->queue.count < consumer->want);
    const int64_t delay_ms =
        consumer->is_draining ? BUS_HAND_BACK_DRAIN_MS : BUS_HAND_BACK_PAUSED_MS;
    if (is_welcome) bus_queue_push(&consumer->queue, bus_delivery_new(bus, message, false));
    pthread_mutex_unlock(&bus->lock);
    if (is_welcome) {
        bus_wake(bus);
    } else {
        bus_hand_back(bus, message, delay_ms);
        natsMsg_Destroy(message);
    }
}

/* "<inbox>.17" -> 17; 0 if it is no request of ours. */
static uint64_t request_of(const struct bus_consumer *consumer, const natsMsg *message)
{
    const char *subject = natsMsg_GetSubject(message);
    const size_t length = strlen(consumer->inbox);
    if (strncmp(subject, consumer->inbox, length) != 0 || subject[length] != '.') return 0;
    return strtoull(subject + length + 1, NULL, 10);
}

static size_t called_off(natsMsg *message, size_t outstanding)
{
    const char *pending = NULL;
    if (natsMsgHeader_Get(message, "Nats-Pending-Messages", &pending) != NATS_OK) {
        return outstanding;
    }
    const uint64_t count = strtoull(pending, NULL, 10);
    return count < outstanding ? (size_t)count : outstanding;
}

/* 100 heartbeat, 404 nothing there, 408 expired, 409 consumer gone, too many pulls, 503 nobody. */
static void on_status(struct bus_consumer *consumer, natsMsg *message)
{
    const int status = bus_message_status(message);
    const uint64_t request = request_of(consumer, message);
    const char *description = NULL;
    (void)natsMsgHeader_Get(message, "Description", &description);
    const int64_t now_ms = bus_now_ms();
    struct bus *bus = consumer->bus;

    pthread_mutex_lock(&bus->lock);
    consumer->heard_ms = now_ms;
    if (status != 100 && request >= consumer->request_valid_from) {
        const size_t off = called_off(message, consumer->outstanding);
        if (off == consumer->outstanding) forget_requests(consumer);
        if (off < consumer->outstanding) consumer->outstanding -= off;
        if (status == 408 || status == 404) {
            consumer->silent_rounds = 0;
        } else {
            back_off(consumer, now_ms);
            set_trouble(consumer, description != NULL ? description : "JetStream does not answer");
            consumer->info_asked_ms = 0;
        }
    }
    pthread_mutex_unlock(&bus->lock);
    if (status != 100) bus_wake(bus);
}

/* With the lock. NULL: the consumer is what this program expects. */
static const char *info_problem(struct bus_consumer *consumer, const json_t *answer,
                                struct arena *arena)
{
    struct bus_problem problem;
    if (answer == NULL) return "JetStream does not answer";
    if (bus_problem_read(answer, &problem, arena)) {
        consumer->is_missing = problem.error_code == JS_CONSUMER_NOT_FOUND ||
                               problem.error_code == JS_STREAM_NOT_FOUND;
        return problem.text;
    }
    const struct bus_difference *differences;
    const size_t count = bus_spec_compare(consumer->expected, consumer->must_be_absent,
                                          json_object_get(answer, "config"), arena, &differences);
    if (count == 0) return NULL;
    consumer->is_mismatched = true;
    return bus_spec_sentence("consumer", consumer->durable, differences, count, arena);
}

static uint64_t number_of(const json_t *answer, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(answer, key));
}

static void on_info(struct bus_consumer *consumer, const natsMsg *message)
{
    struct arena arena = { 0 };
    json_t *answer =
        json_loadb(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message), 0, NULL);
    struct bus *bus = consumer->bus;
    pthread_mutex_lock(&bus->lock);
    const bool was_missing = consumer->is_missing;
    const char *problem = info_problem(consumer, answer, &arena);
    if (problem == NULL) {
        consumer->is_missing = false;
        consumer->info_answered_ms = bus_now_ms();
        consumer->lag = (struct bus_lag){ .pending = number_of(answer, "num_pending"),
                                          .ack_pending = number_of(answer, "num_ack_pending"),
                                          .redelivered = number_of(answer, "num_redelivered") };
    }
    set_trouble(consumer, problem);
    if (was_missing && !consumer->is_missing) { /* it is another one: it knows no request of ours */
        forget_requests(consumer);
        is_well(consumer, bus_now_ms());
    }
    pthread_mutex_unlock(&bus->lock);
    json_decref(answer);
    arena_finish(&arena);
    if (problem != NULL || was_missing) bus_wake(bus);
}

static void on_message(void *owner, natsMsg *message)
{
    struct bus_consumer *consumer = owner;
    const char *reply = natsMsg_GetReply(message);
    if (reply != NULL && strncmp(reply, "$JS.ACK.", 8) == 0) {
        on_data(consumer, message);
        return;
    }
    const char *subject = natsMsg_GetSubject(message);
    const size_t length = strlen(consumer->inbox);
    const bool is_info = strncmp(subject, consumer->inbox, length) == 0 &&
                         strcmp(subject + length, "." INFO_REPLY) == 0;
    if (is_info) {
        on_info(consumer, message);
    } else {
        on_status(consumer, message);
    }
    natsMsg_Destroy(message);
}

/* --- the owner's thread ---------------------------------------------------------------------- */

static enum status compare_config(struct bus *bus, const char *what, const char *name,
                                  const char *api, const json_t *expected, const json_t *absent,
                                  struct arena *arena, const char **out_error)
{
    const char *text = NULL;
    struct bus_problem problem = { .text = "" };
    const enum status status =
        bus_request(bus, api, "", BUS_REQUEST_TIMEOUT_MS, arena, &text, &problem);
    if (status != STATUS_OK) {
        *out_error = arena_format(arena, "%s %s is not ready: %s", what, name, problem.text);
        return STATUS_RETRY;
    }
    json_t *answer = json_loads(text, 0, NULL);
    const struct bus_difference *differences;
    const size_t count =
        bus_spec_compare(expected, absent, json_object_get(answer, "config"), arena, &differences);
    json_decref(answer);
    if (count == 0) return STATUS_OK;
    *out_error = bus_spec_sentence(what, name, differences, count, arena);
    return STATUS_STOP;
}

static enum status compare_stream(struct bus *bus, const struct bus_stream_spec *spec,
                                  struct arena *arena, const char **out_error)
{
    json_t *expected = bus_spec_stream(spec);
    json_t *absent = bus_spec_stream_absent();
    const char *api = arena_format(arena, "$JS.API.STREAM.INFO.%s", spec->name);
    const enum status status =
        compare_config(bus, "stream", spec->name, api, expected, absent, arena, out_error);
    json_decref(expected);
    json_decref(absent);
    return status;
}

static struct bus_consumer *consumer_new(struct bus *bus, const struct bus_consumer_spec *spec)
{
    struct bus_consumer *consumer = memory_allocate(sizeof *consumer);
    char inbox[BUS_INBOX_SIZE];
    char subject[BUS_INBOX_SIZE + 2];
    consumer->bus = bus;
    consumer->stream = memory_copy_text(spec->stream);
    consumer->durable = memory_copy_text(spec->durable);
    consumer->inbox = memory_copy_text(bus_own_inbox_new(inbox));
    consumer->expected = bus_spec_consumer(spec);
    consumer->must_be_absent = bus_spec_consumer_absent(spec);
    consumer->problem = memory_copy_text("");
    consumer->request_valid_from = 1;
    bus_queue_init(&consumer->queue);
    (void)snprintf(subject, sizeof subject, "%s.*", inbox);
    consumer->feed = bus_feed_open(bus, BUS_ROLE_PULL, subject, on_message, consumer);
    pthread_mutex_lock(&bus->lock);
    consumer->next = bus->consumers;
    bus->consumers = consumer;
    pthread_mutex_unlock(&bus->lock);
    return consumer;
}

enum status bus_consumer_open(struct bus *bus, const struct bus_topology *topology,
                              const char *stream, const char *durable, struct arena *arena,
                              struct bus_consumer **out_consumer, const char **out_error)
{
    const struct bus_stream_spec *stream_spec = bus_topology_stream(topology, stream);
    const struct bus_consumer_spec *spec = bus_topology_consumer(topology, stream, durable);
    if (stream_spec == NULL || spec == NULL) {
        *out_error = arena_format(arena, "the topology has no consumer %s on %s", durable, stream);
        return STATUS_STOP;
    }
    TRY(compare_stream(bus, stream_spec, arena, out_error));
    struct bus_consumer *consumer = consumer_new(bus, spec);
    const char *api = arena_format(arena, "$JS.API.CONSUMER.INFO.%s.%s", stream, durable);
    enum status status = compare_config(bus, "consumer", durable, api, consumer->expected,
                                        consumer->must_be_absent, arena, out_error);
    if (status == STATUS_OK) {
        status = bus_feed_subscribe(consumer->feed);
        if (status != STATUS_OK) *out_error = "the connection to NATS broke";
    }
    if (status == STATUS_OK) {
        *out_consumer = consumer;
    } else {
        bus_consumer_close(consumer);
    }
    return status;
}

/* What the upkeep of one round has to send, decided under the lock and sent without it. */
struct round {
    size_t ask;
    uint64_t request_number;
    bool ask_info;
};

static void notice_silence(struct bus_consumer *consumer, int64_t now_ms)
{
    if (consumer->outstanding == 0 || now_ms - consumer->heard_ms <= BUS_PULL_SILENCE_MS) return;
    forget_requests(consumer);
    consumer->heard_ms = now_ms;
    consumer->silent_rounds++;
    if (consumer->silent_rounds >= BUS_PULL_SILENT_ROUNDS_MAX) {
        back_off(consumer, now_ms);
        consumer->info_asked_ms = 0;
        if (consumer->trouble == NULL) set_trouble(consumer, "JetStream is silent");
    }
}

static void plan_round(struct bus_consumer *consumer, struct round *round)
{
    const int64_t now_ms = bus_now_ms();
    notice_silence(consumer, now_ms);
    const size_t taken = consumer->queue.count + consumer->outstanding;
    const size_t room = consumer->want > taken ? consumer->want - taken : 0;
    const bool is_drained = consumer->outstanding == 0 || 2 * room >= consumer->want;
    if (room > 0 && is_drained && now_ms >= consumer->not_before_ms && !consumer->is_paused &&
        !consumer->is_draining) {
        if (consumer->outstanding == 0) consumer->heard_ms = now_ms;
        round->ask = room;
        round->request_number = ++consumer->request_number;
        consumer->outstanding += room;
    }
    const int64_t interval_ms = consumer->trouble != NULL || consumer->is_missing
                                    ? BUS_INFO_MISSING_INTERVAL_MS
                                    : BUS_INFO_INTERVAL_MS;
    if (consumer->info_asked_ms == 0 || now_ms - consumer->info_asked_ms >= interval_ms) {
        round->ask_info = true;
        consumer->info_asked_ms = now_ms;
    }
}

static void send_round(struct bus_consumer *consumer, const struct round *round)
{
    natsConnection *connection = bus_connection(consumer->bus, BUS_ROLE_PULL);
    char api[BUS_SUBJECT_LENGTH_MAX + 1];
    char reply[BUS_INBOX_SIZE + 24];
    if (round->ask > 0) {
        char body[128];
        (void)snprintf(api, sizeof api, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", consumer->stream,
                       consumer->durable);
        (void)snprintf(reply, sizeof reply, "%s.%" PRIu64, consumer->inbox, round->request_number);
        (void)snprintf(body, sizeof body,
                       "{\"batch\":%zu,\"expires\":%" PRId64 ",\"idle_heartbeat\":%" PRId64 "}",
                       round->ask, BUS_PULL_EXPIRES_MS * INT64_C(1000000),
                       BUS_PULL_HEARTBEAT_MS * INT64_C(1000000));
        if (natsConnection_PublishRequestString(connection, api, reply, body) != NATS_OK) {
            pthread_mutex_lock(&consumer->bus->lock);
            forget_requests(consumer);
            pthread_mutex_unlock(&consumer->bus->lock);
        }
    }
    if (round->ask_info) {
        (void)snprintf(api, sizeof api, "$JS.API.CONSUMER.INFO.%s.%s", consumer->stream,
                       consumer->durable);
        (void)snprintf(reply, sizeof reply, "%s." INFO_REPLY, consumer->inbox);
        (void)natsConnection_PublishRequestString(connection, api, reply, "");
    }
}

enum status bus_consumer_want(struct bus_consumer *consumer, size_t count)
{
    struct bus *bus = consumer->bus;
    bus_upkeep(bus);
    const bool is_connected = atomic_load(&bus_link(bus, BUS_ROLE_PULL)->connected);
    struct round round = { 0 };
    pthread_mutex_lock(&bus->lock);
    consumer->want = count;
    const bool is_mismatched = consumer->is_mismatched;
    if (is_connected && !is_mismatched) plan_round(consumer, &round);
    const bool is_in_trouble = consumer->trouble != NULL;
    pthread_mutex_unlock(&bus->lock);
    send_round(consumer, &round);
    if (is_mismatched) return STATUS_STOP;
    return is_connected && !is_in_trouble ? STATUS_OK : STATUS_RETRY;
}

size_t bus_consumer_take(struct bus_consumer *consumer, size_t max,
                         struct bus_message *out_messages)
{
    struct bus_delivery_queue taken;
    bus_queue_init(&taken);
    pthread_mutex_lock(&consumer->bus->lock);
    while (taken.count < max && consumer->queue.count > 0) {
        bus_queue_push(&taken, bus_queue_pop(&consumer->queue));
    }
    pthread_mutex_unlock(&consumer->bus->lock);
    size_t count = 0;
    struct bus_delivery *delivery;
    while ((delivery = bus_queue_pop(&taken)) != NULL) {
        bus_delivery_open(delivery, &out_messages[count++]);
    }
    return count;
}

size_t bus_consumer_queued(struct bus_consumer *consumer)
{
    pthread_mutex_lock(&consumer->bus->lock);
    const size_t count = consumer->queue.count;
    pthread_mutex_unlock(&consumer->bus->lock);
    return count;
}

static void hand_back_queue(struct bus_consumer *consumer, int64_t delay_ms)
{
    struct bus *bus = consumer->bus;
    for (;;) {
        pthread_mutex_lock(&bus->lock);
        struct bus_delivery *delivery = bus_queue_pop(&consumer->queue);
        pthread_mutex_unlock(&bus->lock);
        if (delivery == NULL) return;
        bus_hand_back(bus, delivery->message, delay_ms);
        bus_delivery_free(delivery);
    }
}

void bus_consumer_pause(struct bus_consumer *consumer, bool paused)
{
    pthread_mutex_lock(&consumer->bus->lock);
    consumer->is_paused = paused;
    pthread_mutex_unlock(&consumer->bus->lock);
    if (paused) hand_back_queue(consumer, BUS_HAND_BACK_PAUSED_MS);
}

const char *bus_consumer_problem(struct bus_consumer *consumer)
{
    struct bus *bus = consumer->bus;
    const bool is_connected = atomic_load(&bus_link(bus, BUS_ROLE_PULL)->connected);
    pthread_mutex_lock(&bus->lock);
    const char *trouble = consumer->trouble;
    if (!is_connected && !consumer->is_mismatched) trouble = "not connected to NATS";
    free(consumer->problem);
    consumer->problem = memory_copy_text(trouble == NULL ? "" : trouble);
    pthread_mutex_unlock(&bus->lock);
    return consumer->problem;
}

void bus_consumer_lag(struct bus_consumer *consumer, struct bus_lag *out_lag)
{
    pthread_mutex_lock(&consumer->bus->lock);
    *out_lag = consumer->lag;
    out_lag->asked_ms_ago =
        consumer->info_answered_ms == 0 ? -1 : bus_now_ms() - consumer->info_answered_ms;
    pthread_mutex_unlock(&consumer->bus->lock);
}

void bus_consumer_drain(struct bus_consumer *consumer, int64_t timeout_ms)
{
    struct bus *bus = consumer->bus;
    pthread_mutex_lock(&bus->lock);
    consumer->is_draining = true;
    pthread_mutex_unlock(&bus->lock);
    hand_back_queue(consumer, BUS_HAND_BACK_DRAIN_MS);
    const int64_t until_ms = bus_now_ms() + timeout_ms;
    bus_feed_drain(consumer->feed, timeout_ms);
    const int64_t left_ms = until_ms - bus_now_ms();
    natsConnection *connection = bus_connection(bus, BUS_ROLE_PULL);
    if (left_ms > 0 && atomic_load(&bus_link(bus, BUS_ROLE_PULL)->connected)) {
        (void)natsConnection_FlushTimeout(connection, left_ms);
    }
}

void bus_consumer_close(struct bus_consumer *consumer)
{
    if (consumer == NULL) return;
    struct bus *bus = consumer->bus;
    if (!consumer->feed->is_closed) bus_consumer_drain(consumer, 1000);
    pthread_mutex_lock(&bus->lock);
    struct bus_consumer **at = &bus->consumers;
    while (*at != consumer) at = &(*at)->next;
    *at = consumer->next;
    const bool is_quiet = bus_wait_for_zero(bus, &consumer->feed->completions_due, 1000);
    pthread_mutex_unlock(&bus->lock);
    if (!is_quiet) return; /* a callback may still look at it: leaked rather than pulled away */
    bus_feed_close(consumer->feed, 0);
    free(consumer->stream);
    free(consumer->durable);
    free(consumer->inbox);
    free(consumer->problem);
    free(consumer->trouble);
    json_decref(consumer->expected);
    json_decref(consumer->must_be_absent);
    free(consumer);
}
