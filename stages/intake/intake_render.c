/* stages/intake/intake_render.c: see intake_render.h. */
#include "stages/intake/intake_render.h"

#include "pipeline/buffer.h"
#include "pipeline/hash.h"
#include "pipeline/log.h"
#include "pipeline/mask.h"
#include "stages/kept_message.h"

/* Events have one form; answers have the form of their request. */
static const enum content_type EVENT_CONTENT = CONTENT_MSGPACK;

static struct intake_answer answer_stored(const struct answer *answer, struct arena *arena)
{
    return (struct intake_answer){
        .status = answer->status,
        .headers = event_headers_encode(answer->content, NULL, arena),
        .body = answer->body,
    };
}

/* A payment as it was accepted. It depends on what never changes only, so it can be said again. */
static struct payment_view view_of_accepted(struct payment_id payment,
                                            const struct pay_request *request)
{
    return (struct payment_view){
        .payment = payment,
        .out_trade_no = request->out_trade_no,
        .status = PAYMENT_CREATED,
        .amount = request->amount,
        .version = 1,
    };
}

static const struct payment_view *view_find(const struct payment_view *views, size_t count,
                                            struct payment_id payment)
{
    for (size_t i = 0; i < count; i++) {
        if (uuid_equal(views[i].payment.uuid, payment.uuid)) return &views[i];
    }
    return NULL;
}

static enum content_type content_of(const char *stored_headers, struct arena *arena)
{
    struct event_headers headers;
    enum content_type content = EVENT_CONTENT;
    if (event_headers_decode(stored_headers, arena, &headers) != STATUS_OK ||
        !content_type_parse(headers.items[0].value, &content)) {
        LOG_ERROR("a stored answer has unreadable headers", LOG_TEXT("headers", stored_headers));
    }
    return content;
}

/* The stored answer again, byte for byte. */
static struct intake_answer answer_again(const struct intake_item *item, struct arena *arena)
{
    struct intake_answer answer = item->found->answer;
    if (uuid_is_nil(item->found->accepted.uuid)) return answer;
    const struct payment_view view = view_of_accepted(item->found->accepted, &item->request);
    answer.body =
        answer_payment(answer.status, &view, content_of(answer.headers, arena), arena).body;
    return answer;
}

static void render_answer(const struct intake_batch *batch, struct intake_item *item,
                          const struct payment_view *views, size_t view_count)
{
    const enum content_type content = item->envelope.content;
    if (item->is_valid && item->decision.verdict == INTAKE_REPLAY) {
        item->answer = answer_again(item, batch->arena);
        return;
    }
    struct answer answer;
    if (item->problem.code != PROBLEM_NONE) {
        const struct payment_view *existing =
            item->is_valid ? view_find(views, view_count, item->decision.existing) : NULL;
        answer = answer_problem(&item->problem, existing, content, batch->arena);
    } else {
        const struct payment_view view = view_of_accepted(item->payment, &item->request);
        answer = answer_payment(ANSWER_ACCEPTED, &view, content, batch->arena);
    }
    item->answer = answer_stored(&answer, batch->arena);
}

static const char *copy_subject(const char *subject, struct arena *arena)
{
    return arena_copy(arena, subject, strlen(subject));
}

static void render_accept(const struct intake_batch *batch, const struct intake_item *item,
                          struct intake_accept *out)
{
    char subject[SUBJECT_SIZE];
    const struct pay_request *request = &item->request;
    const struct payment_view view = view_of_accepted(item->payment, request);
    *out = (struct intake_accept){
        .id = item->payment,
        .request = request,
        .traceparent = item->envelope.traceparent,
        .start_by_us = item->start_by_us,
        .key_lifetime_h = item->merchant->key_lifetime_h,
        .answer = item->answer,
        .event = { uuid_new() },
        .event_body = item->envelope.content == EVENT_CONTENT
                          ? item->answer.body
                          : answer_event_body(&view, EVENT_CONTENT, batch->arena),
        .event_headers =
            event_headers_encode(EVENT_CONTENT, item->envelope.traceparent, batch->arena),
        .command = item->command,
        .key_is_expired = item->found->has_key && item->found->key_is_expired,
    };
    out->event_subject = copy_subject(
        subject_event(request->merchant, event_type_name(EVENT_PAYMENT_ACCEPTED), subject),
        batch->arena);
    out->command_subject = copy_subject(subject_route(item->payment, subject), batch->arena);
    if (pay_request_has_target(request)) {
        out->pointer_payment = item->found->active;
        out->pointer_version = item->found->active_version;
    }
}

struct uuid intake_render_id(const struct bus_message *message)
{
    static const struct uuid whole_message;
    return kept_message_id(message, whole_message);
}

static void render_rejection(const struct intake_batch *batch, const struct intake_item *item,
                             struct intake_rejection *out)
{
    char subject[SUBJECT_SIZE];
    *out = (struct intake_rejection){
        .id = { intake_render_id(item->stage_item->message) },
        .body = answer_rejected_body(&item->problem, item->request.out_trade_no,
                                     request_operation_name((int)item->envelope.operation),
                                     EVENT_CONTENT, batch->arena),
        .headers = event_headers_encode(EVENT_CONTENT, item->envelope.traceparent, batch->arena),
    };
    out->subject = copy_subject(
        subject_event(item->envelope.merchant, event_type_name(EVENT_REQUEST_REJECTED), subject),
        batch->arena);
}

static void render_letter(const struct intake_batch *batch, const struct intake_item *item,
                          struct intake_letter *out)
{
    const struct bus_message *message = item->stage_item->message;
    const struct value problem = problem_value(&item->problem, 0, batch->arena);
    struct kept_message kept;
    kept_message_of_request(message, item->envelope.content, batch->arena, &kept);
    *out = (struct intake_letter){
        .id = intake_render_id(message),
        .subject = kept.subject,
        .sequence = message->stream_sequence,
        .deliveries = message->deliveries,
        .headers = kept.headers,
        .body = kept.body,
        .method_token = kept.method_token,
        .code = problem_word(item->problem.code),
        .field = item->problem.field,
        .problem = (const char *)value_write_json(&problem, batch->arena).data,
        .stored_at_us = message->stored_at_us,
    };
}

static void make_room(struct intake_batch *batch, struct intake_writes *out)
{
    const size_t count = batch->count;
    *out = (struct intake_writes){
        .actor = batch->actor,
        .accepts = arena_allocate(batch->arena, count * sizeof *out->accepts),
        .stored = arena_allocate(batch->arena, count * sizeof *out->stored),
        .rejections = arena_allocate(batch->arena, count * sizeof *out->rejections),
        .letters = arena_allocate(batch->arena, count * sizeof *out->letters),
    };
}

static void render_writes(const struct intake_batch *batch, struct intake_item *item,
                          struct intake_writes *out)
{
    if (item->is_valid && item->decision.verdict == INTAKE_NEW) {
        render_accept(batch, item, &out->accepts[out->accept_count++]);
    } else if (item->is_valid && item->decision.writes_key) {
        out->stored[out->stored_count++] = (struct intake_stored){
            .request = &item->request,
            .payment = item->problem.code == PROBLEM_NONE ? item->payment : item->decision.existing,
            .key_lifetime_h = item->merchant->key_lifetime_h,
            .answer = item->answer,
        };
    }
    if (item->problem.code == PROBLEM_NONE) return;
    if (item->envelope.merchant != NULL)
        render_rejection(batch, item, &out->rejections[out->rejection_count++]);
    /* What is only not built yet is no fault of the message: nobody would replay it. */
    if (!item->is_valid && item->problem.code != PROBLEM_NOT_SUPPORTED) {
        render_letter(batch, item, &out->letters[out->letter_count++]);
    }
}

void intake_render(struct intake_batch *batch, const struct payment_view *views, size_t view_count,
                   struct intake_writes *out_writes)
{
    make_room(batch, out_writes);
    for (size_t i = 0; i < batch->count; i++) {
        struct intake_item *item = &batch->items[i];
        if (!intake_item_is_answered(item)) continue;
        if (item->is_valid && item->decision.verdict == INTAKE_NEW) {
            item->payment.uuid = uuid_new();
            item->command.uuid = uuid_new();
        } else if (item->is_valid && item->decision.verdict == INTAKE_SAME_PAYMENT) {
            item->payment = item->found->payment;
        }
        render_answer(batch, item, views, view_count);
        render_writes(batch, item, out_writes);
    }
}
