/* tests/support/intake_messages.c: see intake_messages.h. */
#include "tests/support/intake_messages.h"

#include "pipeline/clock.h"

void intake_messages_init(struct intake_messages *messages)
{
    *messages = (struct intake_messages){
        .merchants = { { "m-1001", 24 }, { "m-1002", 168 } },
        .config = { .timers = { .start_by_s = 900 } },
    };
    messages->config.merchants = messages->merchants;
    messages->config.merchant_count = COUNT_OF(messages->merchants);
}

void intake_messages_finish(struct intake_messages *messages)
{
    arena_finish(&messages->arena);
}

void intake_messages_clear(struct intake_messages *messages)
{
    messages->count = 0;
}

struct pay_request intake_messages_request(struct intake_messages *messages, int n)
{
    return (struct pay_request){
        .merchant = "m-1001",
        .out_trade_no = arena_format(&messages->arena, "T%d", n),
        .target_kind = "order",
        .target_id = arena_format(&messages->arena, "O%d", n),
        .amount = { 1200, { "EUR" } },
        .method_type = "card",
        .method_token = "pm_card_visa",
        .method_token_realm = "stripe",
        .capture = REQUEST_CAPTURE_AUTOMATIC,
    };
}

struct bus_message *intake_messages_add_raw(struct intake_messages *messages, const char *subject,
                                            struct span body, const struct bus_header *headers,
                                            size_t header_count)
{
    static uint64_t sequence;
    INVARIANT(messages->count < INTAKE_MESSAGES_MAX);
    const size_t index = messages->count++;
    struct bus_header *copy = arena_allocate(&messages->arena, (header_count + 1) * sizeof *copy);
    if (header_count > 0) memcpy(copy, headers, header_count * sizeof *copy);
    messages->messages[index] = (struct bus_message){
        .subject = arena_copy(&messages->arena, subject, strlen(subject)),
        .body = body,
        .headers = copy,
        .header_count = header_count,
        .stream_sequence = ++sequence,
        .deliveries = 1,
        .stored_at_us = clock_real_us(),
    };
    messages->items[index] = (struct stage_item){ .message = &messages->messages[index] };
    messages->pointers[index] = &messages->items[index];
    return &messages->messages[index];
}

struct bus_message *intake_messages_add(struct intake_messages *messages,
                                        const struct pay_request *request, const char *key)
{
    char subject[SUBJECT_SIZE];
    struct bus_header headers[3] = {
        { "content-type", "application/json" },
        { "pay-reply-to", arena_format(&messages->arena, "_INBOX.test.%zu", messages->count) },
        { "idempotency-key", key },
    };
    return intake_messages_add_raw(messages, subject_intake(request->merchant, "pay", subject),
                                   pay_request_encode(request, CONTENT_JSON, &messages->arena),
                                   headers, key == NULL ? 2 : 3);
}

enum status intake_messages_run(struct intake_messages *messages, struct store *store)
{
    messages->batch = (struct intake_batch){
        .config = &messages->config,
        .actor = "intake/test/1",
        .arena = &messages->arena,
        .unseen_now_us = messages->unseen_now_us,
    };
    intake_batch_read(&messages->batch, messages->pointers, messages->count);
    return intake_batch_commit(&messages->batch, store);
}
