/*
 * adapters/nats/bus_publish.c: tracked publishes. Each has a slot whose number stands in the reply
 * subject; JetStream's answer, the deadline or a lost connection ends it, whichever is first, and a
 * generation tells a late answer from one for the slot's next use.
 */
#include "adapters/nats/bus_internal.h"

#include "pipeline/clock.h"
#include "pipeline/value.h"

#include <time.h>

static void on_answer(void *owner, natsMsg *message);

void bus_publisher_init(struct bus *bus)
{
    struct bus_publisher *publisher = &bus->publisher;
    for (size_t i = 0; i < BUS_OUTSTANDING_MAX; i++) {
        publisher->free_slots[i] = (uint32_t)(BUS_OUTSTANDING_MAX - 1 - i);
    }
    publisher->free_count = BUS_OUTSTANDING_MAX;
    publisher->next_expiry_ms = INT64_MAX;
    char subject[BUS_INBOX_SIZE + 2];
    (void)snprintf(subject, sizeof subject, "%s.*", bus_own_inbox_new(publisher->inbox));
    publisher->feed = bus_feed_open(bus, BUS_ROLE_PUBLISH, subject, on_answer, bus);
}

void bus_publisher_finish(struct bus *bus)
{
    free(bus->publisher.results);
}

/* With the lock. */
static void result_push(struct bus_publisher *publisher, const struct bus_result *result)
{
    if (publisher->result_count == publisher->result_capacity) {
        const size_t capacity =
            publisher->result_capacity == 0 ? 64 : publisher->result_capacity * 2;
        struct bus_result *results = memory_allocate(capacity * sizeof *results);
        for (size_t i = 0; i < publisher->result_count; i++) {
            results[i] =
                publisher->results[(publisher->result_first + i) % publisher->result_capacity];
        }
        free(publisher->results);
        publisher->results = results;
        publisher->result_capacity = capacity;
        publisher->result_first = 0;
    }
    const size_t at =
        (publisher->result_first + publisher->result_count) % publisher->result_capacity;
    publisher->results[at] = *result;
    publisher->result_count++;
}

static void count_outcome(struct bus_stats *stats, enum bus_outcome outcome)
{
    switch (outcome) {
    case BUS_STORED:
        stats->published++;
        return;
    case BUS_NOT_SENT:
        stats->publish_unsent++;
        return;
    case BUS_OUTCOME_UNKNOWN:
        stats->publish_unknown++;
        return;
    case BUS_REFUSED_FULL:
    case BUS_REFUSED_NO_STREAM:
    case BUS_REFUSED_TOO_BIG:
    case BUS_REFUSED:
        stats->publish_refused++;
        return;
    }
    UNREACHABLE("outcome out of range");
}

/* With the lock: one publish has its end. */
static void conclude(struct bus *bus, const struct bus_result *result)
{
    count_outcome(&bus->stats, result->outcome);
    if (result->cookie != NULL) result_push(&bus->publisher, result);
}

/* With the lock. */
static void slot_free(struct bus_publisher *publisher, uint32_t index)
{
    publisher->slots[index].is_used = false;
    publisher->slots[index].generation++;
    publisher->free_slots[publisher->free_count++] = index;
}

/* With the lock. The slot's publish ends with result; its cookie is filled in. */
static void slot_conclude(struct bus *bus, uint32_t index, struct bus_result result)
{
    result.cookie = bus->publisher.slots[index].cookie;
    conclude(bus, &result);
    slot_free(&bus->publisher, index);
    if (bus->publisher.free_count == BUS_OUTSTANDING_MAX) {
        bus->publisher.next_expiry_ms = INT64_MAX;
        pthread_cond_broadcast(&bus->changed);
    }
}

/* With the lock: those whose deadline is at or before limit_ms. */
static void expire_until(struct bus *bus, int64_t limit_ms)
{
    struct bus_publisher *publisher = &bus->publisher;
    int64_t next_ms = INT64_MAX;
    for (uint32_t i = 0; i < BUS_OUTSTANDING_MAX; i++) {
        const struct bus_slot *slot = &publisher->slots[i];
        if (!slot->is_used) continue;
        if (slot->deadline_ms <= limit_ms) {
            slot_conclude(bus, i, (struct bus_result){ .outcome = BUS_OUTCOME_UNKNOWN });
        } else if (slot->deadline_ms < next_ms) {
            next_ms = slot->deadline_ms;
        }
    }
    publisher->next_expiry_ms = next_ms;
}

void bus_publisher_expire(struct bus *bus)
{
    const int64_t now_ms = bus_now_ms();
    pthread_mutex_lock(&bus->lock);
    if (now_ms >= bus->publisher.next_expiry_ms) expire_until(bus, now_ms);
    pthread_mutex_unlock(&bus->lock);
}

void bus_publisher_disconnected(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    expire_until(bus, INT64_MAX - 1);
    pthread_mutex_unlock(&bus->lock);
}

static enum bus_outcome outcome_of(const struct bus_problem *problem)
{
    switch (problem->error_code) {
    case JS_STORE_FAILED:
    case JS_STORAGE_EXCEEDED:
    case JS_MEMORY_EXCEEDED:
    case JS_INSUFFICIENT_RESOURCES:
        return BUS_REFUSED_FULL;
    case JS_MESSAGE_TOO_BIG:
        return BUS_REFUSED_TOO_BIG;
    case JS_STREAM_NOT_FOUND:
        return BUS_REFUSED_NO_STREAM;
    }
    return problem->code == 503 ? BUS_REFUSED_NO_STREAM : BUS_REFUSED;
}

/* What is no "stored": an error, or nothing that can be read. */
static struct bus_result result_of_other(struct span body, struct arena *arena)
{
    struct bus_result result = { .outcome = BUS_OUTCOME_UNKNOWN };
    struct bus_problem problem;
    json_t *answer = json_loadb((const char *)body.data, body.length, 0, NULL);
    if (answer != NULL && bus_problem_read(answer, &problem, arena)) {
        result.outcome = outcome_of(&problem);
        result.error_code = problem.error_code;
    }
    json_decref(answer);
    return result;
}

static struct bus_result result_of(natsMsg *message)
{
    struct bus_result result = { .outcome = BUS_REFUSED_NO_STREAM };
    if (bus_message_status(message) == 503) return result;
    const struct span body = { (const uint8_t *)natsMsg_GetData(message),
                               (size_t)natsMsg_GetDataLength(message) };
    struct arena arena = { NULL };
    struct value answer;
    const bool is_read = value_read_json(body, &arena, &answer, NULL) == STATUS_OK;
    const struct value *sequence = is_read ? value_find(&answer, "seq") : NULL;
    if (sequence != NULL && value_find(&answer, "error") == NULL) {
        const struct value *duplicate = value_find(&answer, "duplicate");
        result.outcome = BUS_STORED;
        result.duplicate = duplicate != NULL && duplicate->boolean;
        result.sequence = (uint64_t)sequence->integer;
    } else {
        result = result_of_other(body, &arena);
    }
    arena_finish(&arena);
    return result;
}

/* Reply subjects end in "<slot>-<generation>". */
static void on_answer(void *owner, natsMsg *message)
{
    struct bus *bus = owner;
    const char *token = strrchr(natsMsg_GetSubject(message), '.');
    char *end = NULL;
    const uint64_t index = token == NULL ? UINT64_MAX : strtoull(token + 1, &end, 16);
    if (index < BUS_OUTSTANDING_MAX && *end == '-') {
        const uint64_t generation = strtoull(end + 1, NULL, 16);
        const struct bus_result result = result_of(message);
        pthread_mutex_lock(&bus->lock);
        const struct bus_slot *slot = &bus->publisher.slots[index];
        if (slot->is_used && slot->generation == generation) {
            slot_conclude(bus, (uint32_t)index, result);
        }
        pthread_mutex_unlock(&bus->lock);
        bus_wake(bus);
    }
    natsMsg_Destroy(message);
}

/* --- sending --------------------------------------------------------------------------------- */

/* No line end may reach the wire in a name or value: it would begin a header of its own. */
static bool header_is_valid(const struct bus_header *header)
{
    if (header->name[0] == '\0' || strpbrk(header->name, ": \t\r\n") != NULL) return false;
    return strpbrk(header->value, "\r\n") == NULL;
}

static bool is_sendable(const struct bus_outgoing *message)
{
    if (!bus_subject_is_valid(message->subject)) return false;
    if (message->reply != NULL && !bus_subject_is_valid(message->reply)) return false;
    const struct bus_header id = { "id", message->message_id == NULL ? "" : message->message_id };
    if (!header_is_valid(&id) || message->body.length > INT32_MAX) return false;
    for (size_t i = 0; i < message->header_count; i++) {
        if (!header_is_valid(&message->headers[i])) return false;
    }
    return true;
}

static natsStatus send(natsConnection *connection, const struct bus_outgoing *message,
                       const char *reply)
{
    natsMsg *wire = NULL;
    natsStatus status = natsMsg_Create(&wire, message->subject, reply,
                                       (const char *)message->body.data, (int)message->body.length);
    if (status == NATS_OK && message->message_id != NULL) {
        status = natsMsgHeader_Set(wire, "Nats-Msg-Id", message->message_id);
    }
    if (status == NATS_OK && message->expected_stream != NULL) {
        status = natsMsgHeader_Set(wire, "Nats-Expected-Stream", message->expected_stream);
    }
    for (size_t i = 0; status == NATS_OK && i < message->header_count; i++) {
        status = natsMsgHeader_Add(wire, message->headers[i].name, message->headers[i].value);
    }
    if (status == NATS_OK) status = natsConnection_PublishMsg(connection, wire);
    natsMsg_Destroy(wire);
    return status;
}

static enum bus_outcome outcome_of_send(natsStatus status)
{
    if (status == NATS_MAX_PAYLOAD) return BUS_REFUSED_TOO_BIG;
    if (status == NATS_TIMEOUT)
        return BUS_OUTCOME_UNKNOWN; /* the write deadline: part of it left */
    return BUS_NOT_SENT;
}

/* False: nothing can be sent now. */
static bool slot_take(struct bus *bus, void *cookie, uint32_t *out_index, uint32_t *out_generation)
{
    struct bus_publisher *publisher = &bus->publisher;
    const int64_t now_ms = bus_now_ms();
    bool is_taken = false;
    pthread_mutex_lock(&bus->lock);
    if (publisher->free_count == 0 && now_ms >= publisher->next_expiry_ms) {
        expire_until(bus, now_ms);
    }
    if (publisher->free_count > 0 && atomic_load(&bus->links[BUS_ROLE_PUBLISH].connected)) {
        const uint32_t index = publisher->free_slots[--publisher->free_count];
        struct bus_slot *slot = &publisher->slots[index];
        slot->cookie = cookie;
        slot->deadline_ms = now_ms + BUS_PUBLISH_WAIT_MS;
        slot->is_used = true;
        if (slot->deadline_ms < publisher->next_expiry_ms) {
            publisher->next_expiry_ms = slot->deadline_ms;
        }
        *out_index = index;
        *out_generation = slot->generation;
        is_taken = true;
    }
    pthread_mutex_unlock(&bus->lock);
    return is_taken;
}

static void conclude_at_once(struct bus *bus, void *cookie, enum bus_outcome outcome)
{
    const struct bus_result result = { .cookie = cookie, .outcome = outcome };
    pthread_mutex_lock(&bus->lock);
    conclude(bus, &result);
    pthread_mutex_unlock(&bus->lock);
    if (cookie != NULL) bus_wake(bus);
}

void bus_publish(struct bus *bus, const struct bus_outgoing *message, void *cookie)
{
    uint32_t index;
    uint32_t generation;
    if (!is_sendable(message)) {
        conclude_at_once(bus, cookie, BUS_REFUSED);
        return;
    }
    if (!slot_take(bus, cookie, &index, &generation)) {
        conclude_at_once(bus, cookie, BUS_NOT_SENT);
        return;
    }
    char reply[BUS_INBOX_SIZE + 24];
    (void)snprintf(reply, sizeof reply, "%s.%" PRIx32 "-%" PRIx32, bus->publisher.inbox, index,
                   generation);
    const natsStatus status = send(bus_sender(bus, BUS_ROLE_PUBLISH), message, reply);
    if (status == NATS_OK) return;
    pthread_mutex_lock(&bus->lock);
    const struct bus_slot *slot = &bus->publisher.slots[index];
    if (slot->is_used && slot->generation == generation) {
        slot_conclude(bus, index, (struct bus_result){ .outcome = outcome_of_send(status) });
    }
    pthread_mutex_unlock(&bus->lock);
    bus_wake(bus);
}

size_t bus_publish_results(struct bus *bus, size_t max, struct bus_result *out_results)
{
    struct bus_publisher *publisher = &bus->publisher;
    bus_upkeep(bus);
    size_t count = 0;
    pthread_mutex_lock(&bus->lock);
    while (count < max && publisher->result_count > 0) {
        out_results[count++] = publisher->results[publisher->result_first];
        publisher->result_first = (publisher->result_first + 1) % publisher->result_capacity;
        publisher->result_count--;
    }
    pthread_mutex_unlock(&bus->lock);
    return count;
}

size_t bus_publish_outstanding(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    const size_t count = BUS_OUTSTANDING_MAX - bus->publisher.free_count;
    pthread_mutex_unlock(&bus->lock);
    return count;
}

/* Sleeps until results came or a deadline is due, but not beyond until_ms. With the lock. */
static void sleep_until(struct bus *bus, int64_t until_ms)
{
    const int64_t expiry_ms = bus->publisher.next_expiry_ms;
    const int64_t wake_ms = expiry_ms < until_ms ? expiry_ms : until_ms;
    const struct timespec wake = { .tv_sec = wake_ms / 1000,
                                   .tv_nsec = (wake_ms % 1000) * 1000000 };
    (void)pthread_cond_timedwait(&bus->changed, &bus->lock, &wake);
}

enum status bus_publish_flush(struct bus *bus, int64_t timeout_ms)
{
    const int64_t until_ms = bus_now_ms() + timeout_ms;
    pthread_mutex_lock(&bus->lock);
    for (;;) {
        const int64_t now_ms = bus_now_ms();
        if (now_ms >= bus->publisher.next_expiry_ms) expire_until(bus, now_ms);
        const bool is_done = bus->publisher.free_count == BUS_OUTSTANDING_MAX;
        if (is_done || now_ms >= until_ms) {
            pthread_mutex_unlock(&bus->lock);
            return is_done ? STATUS_OK : STATUS_RETRY;
        }
        sleep_until(bus, until_ms);
    }
}

enum status bus_publish_core(struct bus *bus, const struct bus_outgoing *message)
{
    if (!is_sendable(message)) return STATUS_BAD_DATA;
    if (!atomic_load(&bus->links[BUS_ROLE_PUBLISH].connected)) return STATUS_RETRY;
    const natsStatus status = send(bus_sender(bus, BUS_ROLE_PUBLISH), message, message->reply);
    if (status == NATS_OK) return STATUS_OK;
    return status == NATS_MAX_PAYLOAD ? STATUS_BAD_DATA : STATUS_RETRY;
}
