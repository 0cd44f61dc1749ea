/*
 * adapters/stripe/stripe_answer.c: see stripe_answer.h. Errors are told by status, type and code,
 * never by their message. An answer that is not Stripe's JSON (a proxy's page, half a body) decides
 * nothing, whatever its status: before execution is only what Stripe itself says.
 */
#include "adapters/stripe/stripe_answer.h"

#include "adapters/stripe/stripe_decline.h"
#include "adapters/stripe/stripe_intent.h"
#include "pipeline/hash.h"

#include <strings.h>

static bool is_send(enum request_kind kind)
{
    return kind == REQUEST_CREATE || kind == REQUEST_REPLAY;
}

static enum evidence_source source_of(enum request_kind kind)
{
    switch (kind) {
    case REQUEST_CREATE:
    case REQUEST_CANCEL:
        return SOURCE_ANSWER;
    case REQUEST_REPLAY:
        return SOURCE_REPLAY;
    case REQUEST_RETRIEVE:
        return SOURCE_RETRIEVE;
    case REQUEST_SEARCH:
        return SOURCE_SEARCH;
    }
    UNREACHABLE("request kind out of range");
}

static void observe_no_answer(const struct http_answer *answer, struct arena *arena,
                              struct observation *out)
{
    const bool is_unsent = answer->phase < PHASE_SENT;
    out->kind = is_unsent ? OBSERVED_UNSENT : OBSERVED_TRANSPORT_LOST;
    out->source = answer->phase == PHASE_LOCAL ? SOURCE_LOCAL : SOURCE_TRANSPORT;
    const char *code = answer->error_code == NULL ? "transport_failed" : answer->error_code;
    out->error_code = arena_copy(arena, code, strlen(code));
}

/* --- headers ---------------------------------------------------------------------------------- */

static const char *find_header(const struct http_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->header_count; i++) {
        if (strcasecmp(answer->headers[i].name, name) == 0) return answer->headers[i].value;
    }
    return NULL;
}

/* Seconds only; a date would need a clock, and Stripe sends none. */
static int read_retry_after(const struct http_answer *answer)
{
    const char *text = find_header(answer, "Retry-After");
    if (text == NULL || text[0] == '\0' || strlen(text) > 5) return 0;
    if (strspn(text, "0123456789") != strlen(text)) return 0;
    return (int)strtol(text, NULL, 10);
}

static void read_headers(const struct http_answer *answer, struct observation *out)
{
    const char *replayed = find_header(answer, "Idempotent-Replayed");
    out->replayed = replayed != NULL && strcasecmp(replayed, "true") == 0;
    out->retry_after_s = read_retry_after(answer);
}

/* --- errors ----------------------------------------------------------------------------------- */

struct error {
    const char *type;
    const char *code;
    const char *decline_code;
};

static bool word_is(const char *text, const char *word)
{
    return text != NULL && strcmp(text, word) == 0;
}

/* Codes of a 400 that tell of an object that has moved on: not a failure, the retrieve decides. */
static bool tells_of_moved_object(const char *code)
{
    return word_is(code, "payment_intent_unexpected_state") ||
           word_is(code, "charge_already_captured") || word_is(code, "charge_already_refunded");
}

/* The statuses of an error that came without an object. */
static enum observation_kind kind_of_error(int status, enum request_kind kind,
                                           const struct error *error)
{
    switch (status) {
    case 400:
        if (word_is(error->type, "idempotency_error")) return OBSERVED_KEY_MISMATCH;
        if (!word_is(error->type, "invalid_request_error")) return OBSERVED_SERVER_ERROR;
        if (tells_of_moved_object(error->code)) return OBSERVED_SERVER_ERROR;
        return OBSERVED_REQUEST_REJECTED;
    case 401:
    case 403:
        return OBSERVED_AUTH_REJECTED;
    case 402:
        return is_send(kind) && word_is(error->type, "card_error") ? OBSERVED_DECLINED
                                                                   : OBSERVED_SERVER_ERROR;
    case 404:
        return !is_send(kind) && word_is(error->code, "resource_missing")
                   ? OBSERVED_NOT_FOUND
                   : OBSERVED_REQUEST_REJECTED;
    case 409:
        return OBSERVED_IN_PROGRESS;
    case 429:
        /* lock_timeout: another request holds an object of this one; the limiter is not meant. */
        return word_is(error->code, "lock_timeout") ? OBSERVED_IN_PROGRESS : OBSERVED_RATE_LIMITED;
    }
    return OBSERVED_SERVER_ERROR;
}

/*
 * An error that carries the object came out of the execution: the object tells, if it is settled.
 */
static enum observation_kind kind_of_error_with_intent(int status, const struct error *error,
                                                       enum observation_kind intent_kind)
{
    if (status == 409) return OBSERVED_IN_PROGRESS;
    if (status == 424 || status == 429 || status >= 500) return OBSERVED_SERVER_ERROR;
    const bool was_refused = status == 402 && word_is(error->type, "card_error");
    if (was_refused && intent_kind == OBSERVED_OBJECT_CREATED) return OBSERVED_DECLINED;
    return intent_kind;
}

static void observe_error(const struct value *node, enum request_kind kind, struct arena *arena,
                          struct observation *out)
{
    const struct error error = {
        .type = stripe_token(node, "type", STRIPE_WORD_LENGTH_MAX, arena),
        .code = stripe_token(node, "code", STRIPE_WORD_LENGTH_MAX, arena),
        .decline_code = stripe_token(node, "decline_code", STRIPE_WORD_LENGTH_MAX, arena),
    };
    if (stripe_intent_read(value_find(node, "payment_intent"), arena, out)) {
        out->kind = kind_of_error_with_intent(out->http_status, &error, out->kind);
    } else {
        out->kind = kind_of_error(out->http_status, kind, &error);
    }
    if (error.decline_code != NULL) {
        out->error_code = error.decline_code;
    } else if (error.code != NULL || out->error_code == NULL) {
        out->error_code = error.code != NULL ? error.code : error.type;
    }
    if (out->kind == OBSERVED_DECLINED) {
        out->decline = stripe_decline_class(error.decline_code, error.code);
    }
    if (out->kind == OBSERVED_REQUEST_REJECTED || out->kind == OBSERVED_AUTH_REJECTED ||
        out->kind == OBSERVED_KEY_MISMATCH) {
        out->decline = DECLINE_REQUEST;
    }
}

/* --- the answer ------------------------------------------------------------------------------- */

static bool observe_body(const struct value *body, enum request_kind kind, struct arena *arena,
                         struct observation *out)
{
    const bool is_success = out->http_status >= 200 && out->http_status < 300;
    if (is_success) return stripe_intent_read(body, arena, out);
    const struct value *error = value_find(body, "error");
    if (error == NULL || error->kind != VALUE_MAP) return false;
    observe_error(error, kind, arena, out);
    return true;
}

static struct value excerpt_of(const struct value *body, struct arena *arena)
{
    const struct value *error = value_find(body, "error");
    if (error == NULL) return stripe_excerpt_intent(body, arena);
    struct value outer = value_map_make(arena, 1);
    struct value inner = stripe_excerpt_error(error, arena);
    if (inner.kind == VALUE_NULL) return outer;
    const struct value intent = stripe_excerpt_intent(value_find(error, "payment_intent"), arena);
    if (intent.kind != VALUE_NULL) value_map_add(&inner, "payment_intent", intent);
    value_map_add(&outer, "error", inner);
    return outer;
}

void stripe_parse(enum operation operation, enum request_kind kind,
                  const struct http_answer *answer, struct arena *arena, struct observation *out)
{
    (void)operation; /* every operation of Stripe's that is built answers with the intent */
    *out = (struct observation){
        .source = source_of(kind),
        .phase = answer->phase,
        .http_status = answer->status,
        .excerpt = "{}",
    };
    hash_sha256(answer->body, out->digest);
    if (answer->phase < PHASE_ANSWERED) {
        observe_no_answer(answer, arena, out);
        return;
    }
    read_headers(answer, out);
    struct arena scratch = { NULL }; /* out keeps little of what was read */
    const struct value *body = stripe_document(answer->body, &scratch);
    if (observe_body(body, kind, arena, out)) {
        out->phase = PHASE_PARSED;
    } else {
        out->kind = OBSERVED_SERVER_ERROR;
    }
    if (out->error_code == NULL && out->kind == OBSERVED_SERVER_ERROR) {
        out->error_code = arena_format(arena, "http_%d", answer->status);
    }
    if (body != NULL) {
        const struct value excerpt = excerpt_of(body, &scratch);
        out->excerpt = stripe_excerpt_text(&excerpt, arena);
    }
    arena_finish(&scratch);
}
