/*
 * adapters/nats/bus_message.c: a libnats message as a struct bus_message, and its disposal. All
 * that a stage needs to know about a delivery stands in its reply subject.
 */
#include "adapters/nats/bus_internal.h"

#include <ctype.h>

enum { HEADER_VALUES_MAX = 256 };

struct bus_delivery *bus_delivery_new(struct bus *bus, natsMsg *message, bool is_core)
{
    struct bus_delivery *delivery = memory_allocate(sizeof *delivery);
    delivery->bus = bus;
    delivery->message = message;
    delivery->is_core = is_core;
    return delivery;
}

void bus_delivery_free(struct bus_delivery *delivery)
{
    natsMsg_Destroy(delivery->message);
    free(delivery->headers);
    free(delivery);
}

void bus_queue_init(struct bus_delivery_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    queue->count = 0;
}

void bus_queue_push(struct bus_delivery_queue *queue, struct bus_delivery *delivery)
{
    delivery->next = NULL;
    *queue->end = delivery;
    queue->end = &delivery->next;
    queue->count++;
}

struct bus_delivery *bus_queue_pop(struct bus_delivery_queue *queue)
{
    struct bus_delivery *delivery = queue->first;
    if (delivery == NULL) return NULL;
    queue->first = delivery->next;
    if (queue->first == NULL) queue->end = &queue->first;
    queue->count--;
    return delivery;
}

int bus_message_status(natsMsg *message)
{
    const char *status = NULL;
    if (natsMsgHeader_Get(message, "Status", &status) != NATS_OK) return 0;
    return (int)strtol(status, NULL, 10);
}

/* What one message's headers need; values stay libnats' own. */
struct header_list {
    const char **keys;
    int key_count;
    size_t value_count;
    size_t name_bytes;
};

static bool headers_measure(natsMsg *message, struct header_list *list)
{
    const natsStatus status = natsMsgHeader_Keys(message, &list->keys, &list->key_count);
    if (status == NATS_NOT_FOUND) return true;
    if (status != NATS_OK) return false;
    for (int i = 0; i < list->key_count; i++) {
        const char **values = NULL;
        int count = 0;
        if (natsMsgHeader_Values(message, list->keys[i], &values, &count) != NATS_OK) return false;
        free(values);
        list->value_count += (size_t)count;
        list->name_bytes += strlen(list->keys[i]) + 1;
    }
    return list->value_count <= HEADER_VALUES_MAX;
}

static char *copy_lower(char *to, const char *name)
{
    size_t length = 0;
    for (; name[length] != '\0'; length++) {
        to[length] = (char)tolower((unsigned char)name[length]);
    }
    to[length] = '\0';
    return to + length + 1;
}

static void headers_fill(struct bus_delivery *delivery, const struct header_list *list,
                         struct bus_message *out)
{
    const size_t array_bytes = list->value_count * sizeof(struct bus_header);
    delivery->headers = memory_allocate(array_bytes + list->name_bytes);
    struct bus_header *headers = delivery->headers;
    char *names = (char *)delivery->headers + array_bytes;
    size_t filled = 0;
    for (int i = 0; i < list->key_count; i++) {
        const char *name = names;
        names = copy_lower(names, list->keys[i]);
        const char **values = NULL;
        int count = 0;
        if (natsMsgHeader_Values(delivery->message, list->keys[i], &values, &count) != NATS_OK) {
            continue;
        }
        for (int j = 0; j < count && filled < list->value_count; j++) {
            headers[filled++] = (struct bus_header){ name, values[j] };
        }
        free(values);
    }
    out->headers = headers;
    out->header_count = filled;
}

/*
 * $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time ns>.<pending>, or with
 * <domain>.<account hash> before the stream (and possibly a token more at the end).
 */
static void read_metadata(const char *reply, struct bus_message *out)
{
    enum { PLAIN_TOKENS = 9, LONG_TOKENS = 11, TOKENS_MAX = 16 };
    const char *tokens[TOKENS_MAX];
    size_t count = 0;
    const char *dot = reply;
    tokens[count++] = reply;
    while (count < TOKENS_MAX && (dot = strchr(dot, '.')) != NULL) tokens[count++] = ++dot;
    if (count < PLAIN_TOKENS) return;
    const size_t first = count >= LONG_TOKENS ? 6 : 4;
    out->deliveries = strtoull(tokens[first], NULL, 10);
    out->stream_sequence = strtoull(tokens[first + 1], NULL, 10);
    out->stored_at_us = strtoll(tokens[first + 3], NULL, 10) / 1000;
}

void bus_delivery_open(struct bus_delivery *delivery, struct bus_message *out_message)
{
    natsMsg *message = delivery->message;
    struct bus_message out = {
        .subject = natsMsg_GetSubject(message),
        .body = { (const uint8_t *)natsMsg_GetData(message),
                  (size_t)natsMsg_GetDataLength(message) },
        .handle = delivery,
    };
    struct header_list list = { 0 };
    if (headers_measure(message, &list)) {
        if (list.value_count > 0) headers_fill(delivery, &list, &out);
    } else {
        out.headers_malformed = true;
    }
    free(list.keys);
    if (delivery->is_core) {
        out.reply = natsMsg_GetReply(message);
    } else {
        read_metadata(natsMsg_GetReply(message), &out);
    }
    *out_message = out;
}

static void delivery_dispose(struct bus_message *message, const char *text)
{
    struct bus_delivery *delivery = message->handle;
    INVARIANT(delivery != NULL && !delivery->is_core); /* exactly once, and only from a consumer */
    bus_dispose(delivery->bus, natsMsg_GetReply(delivery->message), text);
    bus_delivery_free(delivery);
    *message = (struct bus_message){ 0 };
}

void bus_ack(struct bus_message *message)
{
    delivery_dispose(message, "+ACK");
}

void bus_nak(struct bus_message *message, int64_t delay_ms)
{
    if (delay_ms < BUS_NAK_DELAY_MIN_MS) delay_ms = BUS_NAK_DELAY_MIN_MS;
    if (delay_ms > BUS_NAK_DELAY_MAX_MS) delay_ms = BUS_NAK_DELAY_MAX_MS;
    char text[64];
    (void)snprintf(text, sizeof text, "-NAK {\"delay\":%" PRId64 "}", delay_ms * 1000000);
    delivery_dispose(message, text);
}

void bus_term(struct bus_message *message)
{
    delivery_dispose(message, "+TERM"); /* exact: 2.9 keeps a message whose +TERM has a reason */
}

void bus_in_progress(const struct bus_message *message)
{
    struct bus_delivery *delivery = message->handle;
    INVARIANT(delivery != NULL && !delivery->is_core);
    bus_dispose(delivery->bus, natsMsg_GetReply(delivery->message), "+WPI");
}

void bus_release(struct bus_message *message)
{
    struct bus_delivery *delivery = message->handle;
    INVARIANT(delivery != NULL && delivery->is_core);
    bus_delivery_free(delivery);
    *message = (struct bus_message){ 0 };
}
