/* ops/feed/feed_wire.c: see feed_wire.h. */
#include "ops/feed/feed_wire.h"

#include "pipeline/answer.h"
#include "pipeline/request.h"
#include "pipeline/subject.h"

/* What ends a payment, and what must never come: nothing else is asked for. */
static const struct {
    const char *word;
    enum feed_end end; /* FEED_END_NONE: an alarm */
} EVENTS[FEED_EVENTS] = {
    { "succeeded", FEED_END_SUCCEEDED }, { "failed", FEED_END_FAILED },
    { "canceled", FEED_END_CANCELED },   { "late_success", FEED_END_NONE },
    { "double_success", FEED_END_NONE }, { "amount_mismatch", FEED_END_NONE },
};

enum { TAKE_MAX = 256, QUEUE_MAX = 65536, LATER_US = 500000, FULL_US = 250000 };

enum status feed_wire_open(struct feed_wire *wire, const struct feed_options *options,
                           const volatile sig_atomic_t *stop, const char **out_error)
{
    *wire = (struct feed_wire){ 0 };
    const struct bus_options connect = { .url = options->nats_url,
                                         .name = "oncepay-feed",
                                         .stop = stop };
    TRY(bus_connect(&connect, &wire->bus, out_error));
    char subject[SUBJECT_SIZE];
    (void)snprintf(subject, sizeof subject, "%s.*", bus_inbox_new(wire->inbox));
    *out_error = "the server refuses the subscriptions";
    TRY(bus_subscription_open(wire->bus, subject, QUEUE_MAX, &wire->answers));
    if (options->until_answered) return STATUS_OK;
    for (size_t i = 0; i < COUNT_OF(EVENTS); i++) {
        (void)snprintf(subject, sizeof subject, "pay.event.*.payment.%s", EVENTS[i].word);
        TRY(bus_subscription_open(wire->bus, subject, QUEUE_MAX, &wire->events[i]));
    }
    return STATUS_OK;
}

void feed_wire_close(struct feed_wire *wire)
{
    if (wire->answers != NULL) bus_subscription_close(wire->answers);
    for (size_t i = 0; i < COUNT_OF(wire->events); i++) {
        if (wire->events[i] != NULL) bus_subscription_close(wire->events[i]);
    }
    bus_close(wire->bus);
    arena_finish(&wire->arena);
}

static const char *choose(const struct feed_choices *choices, size_t index)
{
    return choices->items[index % choices->count];
}

void feed_wire_send(struct feed_wire *wire, struct feed_book *book, size_t index, int64_t now_us)
{
    const struct feed_options *options = book->options;
    const enum content_type content = options->json ? CONTENT_JSON : CONTENT_MSGPACK;
    const char *merchant = choose(&options->merchants, index);
    char name[FEED_NAME_SIZE];
    char reply_to[BUS_INBOX_SIZE + 24];
    char subject[SUBJECT_SIZE];
    struct pay_request request = {
        .merchant = merchant,
        .out_trade_no = feed_book_name(book, index, name),
        .target_kind = "order",
        .target_id = name,
        .amount = { feed_book_amount_minor(book, index), options->currency },
        .method_type = "card",
        .method_token = choose(&options->tokens, index),
        .method_token_realm = "stripe",
        .capture = REQUEST_CAPTURE_AUTOMATIC,
    };
    (void)snprintf(reply_to, sizeof reply_to, "%s.%zu", wire->inbox, index);
    const struct bus_header headers[] = {
        { "content-type", content_type_name(content) },
        { "idempotency-key", name },
        { "pay-reply-to", reply_to },
    };
    const struct bus_outgoing message = {
        .subject = subject_intake(merchant, "pay", subject),
        .body = pay_request_encode(&request, content, &wire->arena),
        .headers = headers,
        .header_count = COUNT_OF(headers),
    };
    bus_publish(wire->bus, &message, &book->payments[index]);
    feed_book_sent(book, index, now_us);
}

/* What the stream said to the publish itself; "stored" is no acceptance. */
static void take_result(struct feed_book *book, const struct bus_result *result, int64_t now_us)
{
    const struct feed_payment *payment = result->cookie;
    const size_t index = (size_t)(payment - book->payments);
    switch (result->outcome) {
    case BUS_STORED:
    case BUS_OUTCOME_UNKNOWN:
        return;
    case BUS_NOT_SENT:
        feed_book_postpone(book, index, now_us, FULL_US);
        return;
    case BUS_REFUSED_FULL:
    case BUS_REFUSED_NO_STREAM:
        book->queue_refusals++;
        feed_book_postpone(book, index, now_us, FULL_US);
        return;
    case BUS_REFUSED_TOO_BIG:
    case BUS_REFUSED:
        feed_book_refused(book, index, now_us);
        return;
    }
    UNREACHABLE("bus outcome out of range");
}

/* False if the body makes no sense. */
static bool read_body(struct feed_wire *wire, const struct bus_message *message, struct value *out)
{
    enum content_type content;
    const char *header = bus_message_header(message, "content-type");
    if (header != NULL && content_type_parse(header, &content) &&
        value_read(content, message->body, &wire->arena, out, NULL) == STATUS_OK) {
        return true;
    }
    wire->unreadable++;
    return false;
}

/* Answers that are no answer yet: the same request may be taken in a moment. */
static bool is_postponed(long status, const char *code)
{
    if (status == 429 || status >= 500) return code == NULL || strcmp(code, "not_supported") != 0;
    return status == 409 && code != NULL && strcmp(code, "in_progress") == 0;
}

static void take_answer(struct feed_wire *wire, struct feed_book *book,
                        const struct bus_message *message, int64_t now_us)
{
    struct value body;
    if (!read_body(wire, message, &body)) return;
    const char *last_token = strrchr(message->subject, '.');
    char *end = NULL;
    const unsigned long long index = last_token == NULL ? 0 : strtoull(last_token + 1, &end, 10);
    if (end == NULL || *end != '\0' || index >= book->sent_count) return;
    const char *header = bus_message_header(message, ANSWER_STATUS_HEADER);
    const long status = header == NULL ? 0 : strtol(header, NULL, 10);
    const char *payment = value_text(value_find(&body, "payment"));
    const char *code = value_text(value_find(&body, "code"));
    if ((status == ANSWER_ACCEPTED || status == ANSWER_CURRENT) && payment != NULL) {
        feed_book_accepted(book, (size_t)index, payment, now_us);
    } else if (is_postponed(status, code)) {
        book->postponed++;
        feed_book_postpone(book, (size_t)index, now_us, LATER_US);
    } else {
        (void)snprintf(wire->last_refusal, sizeof wire->last_refusal, "%s",
                       code == NULL ? "answer without code" : code);
        feed_book_refused(book, (size_t)index, now_us);
    }
}

static void take_event(struct feed_wire *wire, struct feed_book *book,
                       const struct bus_message *message, int64_t now_us)
{
    const char *word = strrchr(message->subject, '.');
    size_t event = 0;
    while (event < COUNT_OF(EVENTS) && (word == NULL || strcmp(word + 1, EVENTS[event].word) != 0))
        event++;
    if (event == COUNT_OF(EVENTS)) return;
    struct value body;
    size_t index = 0;
    if (!read_body(wire, message, &body)) return;
    const char *name = value_text(value_find(&body, "out_trade_no"));
    if (name == NULL || !feed_book_find(book, name, &index)) return;
    if (EVENTS[event].end == FEED_END_NONE) {
        wire->alarms++;
    } else {
        feed_book_ended(book, index, EVENTS[event].end, now_us);
    }
}

static void drain(struct feed_wire *wire, struct feed_book *book, struct bus_subscription *from,
                  void (*take)(struct feed_wire *, struct feed_book *, const struct bus_message *,
                               int64_t),
                  int64_t now_us)
{
    struct bus_message messages[TAKE_MAX];
    for (size_t count; (count = bus_subscription_take(from, TAKE_MAX, messages)) > 0;) {
        for (size_t i = 0; i < count; i++) {
            take(wire, book, &messages[i], now_us);
            bus_release(&messages[i]);
        }
        arena_reset(&wire->arena);
    }
}

void feed_wire_receive(struct feed_wire *wire, struct feed_book *book, int64_t now_us)
{
    arena_reset(&wire->arena);
    struct bus_result results[TAKE_MAX];
    for (size_t count; (count = bus_publish_results(wire->bus, TAKE_MAX, results)) > 0;) {
        for (size_t i = 0; i < count; i++) take_result(book, &results[i], now_us);
    }
    drain(wire, book, wire->answers, take_answer, now_us);
    for (size_t i = 0; i < COUNT_OF(wire->events); i++) {
        if (wire->events[i] != NULL) drain(wire, book, wire->events[i], take_event, now_us);
    }
}
