/*
 * tests/fuzz/request_fuzz.c: a producer's message (pipeline/request.h): a line with the subject,
 * lines "name: value", an empty line, the body. A refusal can be answered. An accepted request has
 * one fingerprint, whatever form it comes in, holds no card number where a token belongs, and asks
 * Stripe for exactly what it says, or is refused by the adapter.
 */
#include "adapters/stripe/stripe.h"
#include "pipeline/answer.h"
#include "pipeline/form.h"
#include "pipeline/mask.h"
#include "pipeline/request.h"
#include "tests/fuzz/fuzz.h"

enum { HEADERS_MAX = 16 };

/* As the NATS adapter hands it over: names in lower case, no line ends in names and values. */
static struct bus_message take_message(struct span rest, struct arena *arena)
{
    struct bus_message message = { .subject = fuzz_line(&rest, arena) };
    struct bus_header *headers = arena_allocate(arena, HEADERS_MAX * sizeof *headers);
    while (rest.length > 0 && message.header_count < HEADERS_MAX) {
        char *line = fuzz_line(&rest, arena);
        char *colon = strchr(line, ':');
        if (colon == NULL) break;
        *colon = '\0';
        for (char *c = line; *c != '\0'; c++) {
            if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
        }
        headers[message.header_count++] =
            (struct bus_header){ line, colon + 1 + strspn(colon + 1, " ") };
    }
    message.headers = headers;
    message.body = rest;
    return message;
}

static void check_problem(const struct problem *problem, enum content_type content,
                          const char *out_trade_no, struct arena *arena)
{
    struct value body;
    INVARIANT(problem->code != PROBLEM_NONE && problem_status(problem->code) >= 400);
    const struct answer answer = answer_problem(problem, NULL, content, arena);
    INVARIANT(value_read(content, answer.body, arena, &body, NULL) == STATUS_OK);
    INVARIANT(value_text(value_find(&body, "code")) != NULL);
    const struct span event = answer_rejected_body(problem, out_trade_no, "pay", content, arena);
    INVARIANT(value_read(content, event, arena, &body, NULL) == STATUS_OK);
}

/* Producers may put numbers into metadata that a float64 cannot carry (value.h). */
static bool has_plain_metadata(const struct pay_request *request, struct arena *arena)
{
    struct value metadata;
    if (request->metadata == NULL) return true;
    const struct span text = span_of_text(request->metadata);
    INVARIANT(value_read_json(text, arena, &metadata, NULL) == STATUS_OK);
    for (size_t i = 0; i < metadata.count; i++) {
        if (metadata.members[i].value.kind == VALUE_DECIMAL) return false;
    }
    return true;
}

static void check_form(const struct request_envelope *envelope, const struct pay_request *request,
                       enum content_type content, struct arena *arena)
{
    struct request_envelope repeated = *envelope;
    struct pay_request again;
    struct problem problem = { PROBLEM_NONE, NULL, NULL };
    repeated.content = content;
    repeated.body = pay_request_encode(request, content, arena);
    INVARIANT(pay_request_decode(&repeated, arena, &again, &problem));
    INVARIANT(memcmp(again.fingerprint, request->fingerprint, sizeof again.fingerprint) == 0);
    INVARIANT(memcmp(again.key_hash, request->key_hash, sizeof again.key_hash) == 0);
    INVARIANT(money_equal(again.amount, request->amount));
    INVARIANT(strcmp(again.out_trade_no, request->out_trade_no) == 0);
    INVARIANT(fuzz_same_text(again.target_id, request->target_id));
    INVARIANT(fuzz_same_text(again.return_url, request->return_url));
    INVARIANT(fuzz_same_text(again.metadata, request->metadata));
    INVARIANT(again.expires_at_us == request->expires_at_us);
}

static void check_stripe(const struct pay_request *request, struct arena *arena)
{
    const struct psp_create create = {
        .provider_key = "op_reference",
        .amount = request->amount,
        .method_type = request->method_type,
        .method_token = request->method_token,
        .capture_automatic = request->capture == REQUEST_CAPTURE_AUTOMATIC,
        .return_url = request->return_url,
    };
    struct psp_request made;
    struct psp_request stored;
    const char *error = NULL;
    const struct form_field *fields;
    size_t count;
    if (stripe_ops.build_create(&create, arena, &made, &error) != STATUS_OK) {
        INVARIANT(error != NULL);
        return;
    }
    const struct span bytes = psp_request_encode(&made, arena);
    INVARIANT(psp_request_decode(bytes, arena, &stored) == STATUS_OK);
    INVARIANT(form_parse(stored.body, arena, &fields, &count) == STATUS_OK);
    INVARIANT(fuzz_same_text(form_find(fields, count, "payment_method"), request->method_token));
    INVARIANT(fuzz_same_text(form_find(fields, count, "return_url"), request->return_url));
}

static void check_request(const struct request_envelope *envelope,
                          const struct pay_request *request, struct arena *arena)
{
    INVARIANT(strcmp(request->merchant, envelope->merchant) == 0 && request->amount.minor > 0);
    INVARIANT(!mask_has_card_number(span_of_text(request->method_token)));
    INVARIANT(strlen(request->out_trade_no) <= REQUEST_OUT_TRADE_NO_LENGTH_MAX);
    INVARIANT(strlen(request->idempotency_key) <= REQUEST_KEY_LENGTH_MAX);
    check_form(envelope, request, CONTENT_JSON, arena);
    if (has_plain_metadata(request, arena)) check_form(envelope, request, CONTENT_MSGPACK, arena);
    check_stripe(request, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    const struct bus_message message = take_message((struct span){ data, size }, &arena);
    struct request_envelope envelope;
    struct pay_request request;
    struct problem problem = { PROBLEM_NONE, NULL, NULL };
    if (!request_envelope_read(&message, &arena, &envelope, &problem)) {
        check_problem(&problem, envelope.content, NULL, &arena);
    } else if (envelope.operation == REQUEST_OPERATION_PAY) {
        if (pay_request_decode(&envelope, &arena, &request, &problem)) {
            check_request(&envelope, &request, &arena);
        } else {
            check_problem(&problem, envelope.content, request.out_trade_no, &arena);
        }
    }
    arena_finish(&arena);
    return 0;
}
