/*
 * pipeline/request.c: see request.h. The envelope, and what its parts may look like. The body of
 * a pay request is in pay_request.c.
 */
#include "pipeline/request.h"

#include "pipeline/subject.h"

const char *request_operation_name(int code)
{
    switch (code) {
    case REQUEST_OPERATION_PAY:
        return "pay";
    case REQUEST_OPERATION_CAPTURE:
        return "capture";
    case REQUEST_OPERATION_VOID:
        return "void";
    case REQUEST_OPERATION_REFUND:
        return "refund";
    case REQUEST_OPERATION_CANCEL:
        return "cancel";
    default:
        return NULL;
    }
}

bool request_operation_parse(const char *word, enum request_operation *out)
{
    for (int code = REQUEST_OPERATION_PAY; code <= REQUEST_OPERATION_CANCEL; code++) {
        if (strcmp(word, request_operation_name(code)) == 0) {
            *out = (enum request_operation)code;
            return true;
        }
    }
    return false;
}

const char *request_capture_name(int code)
{
    switch (code) {
    case REQUEST_CAPTURE_AUTOMATIC:
        return "automatic";
    case REQUEST_CAPTURE_MANUAL:
        return "manual";
    default:
        return NULL;
    }
}

static bool refuse(struct problem *out, enum problem_code code, const char *field,
                   const char *detail)
{
    *out = (struct problem){ code, field, detail };
    return false;
}

static bool is_printable(const char *text, size_t length_max)
{
    size_t length = 0;
    for (; text[length] != '\0'; length++) {
        if (text[length] < 0x20 || text[length] > 0x7e) return false;
    }
    return length >= 1 && length <= length_max;
}

/* _INBOX.… or reply.<merchant>.…, so that nobody can make us publish to a subject of ours. */
static bool reply_to_is_valid(const char *reply_to, const char *merchant, struct arena *arena)
{
    const char *own = arena_format(arena, "reply.%s.", merchant);
    const char *prefix = strncmp(reply_to, "_INBOX.", 7) == 0 ? "_INBOX." : own;
    const size_t length = strlen(prefix);
    return strncmp(reply_to, prefix, length) == 0 && reply_to[length] != '\0' &&
           strlen(reply_to) <= REQUEST_REPLY_TO_LENGTH_MAX && bus_subject_is_valid(reply_to);
}

static bool hex_run(const char **cursor, size_t length, bool *out_is_zero)
{
    if (strspn(*cursor, "0123456789abcdef") < length) return false;
    *out_is_zero = strspn(*cursor, "0") >= length;
    *cursor += length;
    return true;
}

/* W3C Trace Context, level 1: version-trace-parent-flags; later versions may append fields. */
static bool traceparent_is_valid(const char *text)
{
    const char *cursor = text;
    bool is_zero;
    if (strlen(text) > 255 || !hex_run(&cursor, 2, &is_zero) || *cursor++ != '-') return false;
    const bool is_first_version = is_zero;
    if (!is_first_version && strncmp(text, "ff", 2) == 0) return false;
    if (!hex_run(&cursor, 32, &is_zero) || is_zero || *cursor++ != '-') return false;
    if (!hex_run(&cursor, 16, &is_zero) || is_zero || *cursor++ != '-') return false;
    if (!hex_run(&cursor, 2, &is_zero)) return false;
    return *cursor == '\0' || (!is_first_version && *cursor == '-');
}

/* A JSON object begins with a byte that is no MessagePack map, so a missing header is no riddle. */
static enum content_type content_of_body(struct span body)
{
    size_t at = 0;
    while (at < body.length && strchr(" \t\r\n", body.data[at]) != NULL && body.data[at] != 0) {
        at++;
    }
    return at < body.length && body.data[at] == '{' ? CONTENT_JSON : CONTENT_MSGPACK;
}

static const char *header_copy(const struct bus_message *message, const char *name,
                               struct arena *arena)
{
    const char *value = bus_message_header(message, name);
    return value == NULL ? NULL : arena_copy(arena, value, strlen(value));
}

bool request_envelope_read(const struct bus_message *message, struct arena *arena,
                           struct request_envelope *out, struct problem *out_problem)
{
    *out = (struct request_envelope){ .content = content_of_body(message->body),
                                      .body = message->body };
    struct subject_intake_tokens tokens;
    if (!subject_intake_parse(message->subject, &tokens)) {
        return refuse(out_problem, PROBLEM_UNKNOWN_OPERATION, "subject",
                      "the subject is pay.intake.<merchant>.<operation>");
    }
    out->merchant = arena_copy(arena, tokens.merchant, strlen(tokens.merchant));
    if (message->headers_malformed) { /* a key may have been among them: never take the default */
        return refuse(out_problem, PROBLEM_FIELD_PATTERN, "headers", "headers that can be read");
    }

    const char *reply_to = header_copy(message, "pay-reply-to", arena);
    if (reply_to != NULL && !reply_to_is_valid(reply_to, out->merchant, arena)) {
        return refuse(out_problem, PROBLEM_FIELD_PATTERN, "Pay-Reply-To",
                      "a subject that begins with _INBOX. or reply.<merchant>.");
    }
    out->reply_to = reply_to;
    const char *traceparent = header_copy(message, "traceparent", arena);
    if (traceparent != NULL && traceparent_is_valid(traceparent)) out->traceparent = traceparent;

    const char *content = bus_message_header(message, "content-type");
    if (content != NULL && !content_type_parse(content, &out->content)) {
        return refuse(out_problem, PROBLEM_UNSUPPORTED_CONTENT_TYPE, "Content-Type",
                      "application/msgpack or application/json");
    }
    if (!request_operation_parse(tokens.operation, &out->operation)) {
        return refuse(out_problem, PROBLEM_UNKNOWN_OPERATION, "subject",
                      "the operation is pay, capture, void, refund or cancel");
    }
    const char *key = header_copy(message, "idempotency-key", arena);
    if (key != NULL && !is_printable(key, REQUEST_KEY_LENGTH_MAX)) {
        return refuse(out_problem, PROBLEM_FIELD_PATTERN, "Idempotency-Key",
                      "1 to 255 printable ASCII characters");
    }
    out->idempotency_key = key;
    if (message->body.length > REQUEST_BODY_BYTES_MAX) {
        return refuse(out_problem, PROBLEM_TOO_LARGE, NULL, "the body is at most 65536 bytes");
    }
    return true;
}
