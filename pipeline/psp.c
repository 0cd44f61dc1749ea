/*
 * pipeline/psp.c: see psp.h. The stored form of a request reads like HTTP without the envelope:
 *
 *     POST /v1/payment_intents
 *     content-type: application/x-www-form-urlencoded
 *     version: 2026-10-28.endive
 *
 *     amount=1099&…
 *
 * with absent lines left out and '\n' alone as the line end. It is what the request hash is taken
 * over, so there is one spelling only, and decode refuses every other.
 */
#include "pipeline/psp.h"

struct code_name {
    int code;
    const char *name;
};

static const char *find_name(const struct code_name *names, size_t count, int code)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i].code == code) return names[i].name;
    }
    return NULL;
}

const char *request_kind_name(int code)
{
    static const struct code_name NAMES[] = {
        { REQUEST_CREATE, "create" },     { REQUEST_REPLAY, "replay" },
        { REQUEST_RETRIEVE, "retrieve" }, { REQUEST_SEARCH, "search" },
        { REQUEST_CANCEL, "cancel" },
    };
    return find_name(NAMES, COUNT_OF(NAMES), code);
}

const char *request_phase_name(int code)
{
    static const struct code_name NAMES[] = {
        { PHASE_LOCAL, "local" },       { PHASE_CONNECT, "connect" }, { PHASE_SENT, "sent" },
        { PHASE_ANSWERED, "answered" }, { PHASE_PARSED, "parsed" },
    };
    return find_name(NAMES, COUNT_OF(NAMES), code);
}

const char *decline_class_name(int code)
{
    static const struct code_name NAMES[] = {
        { DECLINE_NONE, "none" },
        { DECLINE_HARD_FRAUD, "hard_fraud" },
        { DECLINE_HARD_DATA, "hard_data" },
        { DECLINE_AUTH_REQUIRED, "auth_required" },
        { DECLINE_FUNDS_LIMIT, "funds_limit" },
        { DECLINE_GENERIC, "generic" },
        { DECLINE_TECHNICAL, "technical" },
        { DECLINE_REQUEST, "request" },
    };
    return find_name(NAMES, COUNT_OF(NAMES), code);
}

const char *observation_kind_name(int code)
{
    static const struct code_name NAMES[] = {
        { OBSERVED_NOTHING, "nothing" },
        { OBSERVED_UNSENT, "unsent" },
        { OBSERVED_TRANSPORT_LOST, "transport_lost" },
        { OBSERVED_SERVER_ERROR, "server_error" },
        { OBSERVED_IN_PROGRESS, "in_progress" },
        { OBSERVED_RATE_LIMITED, "rate_limited" },
        { OBSERVED_AUTH_REJECTED, "auth_rejected" },
        { OBSERVED_REQUEST_REJECTED, "request_rejected" },
        { OBSERVED_KEY_MISMATCH, "key_mismatch" },
        { OBSERVED_NOT_FOUND, "not_found" },
        { OBSERVED_OBJECT_CREATED, "object_created" },
        { OBSERVED_PENDING, "pending" },
        { OBSERVED_SUCCEEDED, "succeeded" },
        { OBSERVED_DECLINED, "declined" },
        { OBSERVED_CANCELED, "canceled" },
    };
    return find_name(NAMES, COUNT_OF(NAMES), code);
}

const char *evidence_source_name(int code)
{
    static const struct code_name NAMES[] = {
        { SOURCE_LOCAL, "local" },       { SOURCE_TRANSPORT, "transport" },
        { SOURCE_ANSWER, "answer" },     { SOURCE_REPLAY, "replay" },
        { SOURCE_RETRIEVE, "retrieve" }, { SOURCE_SEARCH, "search" },
        { SOURCE_WEBHOOK, "webhook" },   { SOURCE_SETTLEMENT, "settlement" },
        { SOURCE_MANUAL, "manual" },
    };
    return find_name(NAMES, COUNT_OF(NAMES), code);
}

static const char CONTENT_TYPE_LINE[] = "content-type: ";
static const char VERSION_LINE[] = "version: ";

static bool is_one_line(const char *text)
{
    return text == NULL || (text[0] != '\0' && strchr(text, '\n') == NULL);
}

struct span psp_request_encode(const struct psp_request *request, struct arena *arena)
{
    INVARIANT(request->method != NULL && strchr(request->method, ' ') == NULL);
    INVARIANT(request->path != NULL && is_one_line(request->method) && is_one_line(request->path));
    INVARIANT(is_one_line(request->content_type) && is_one_line(request->version));
    const bool has_type = request->content_type != NULL;
    const bool has_version = request->version != NULL;
    const char *head =
        arena_format(arena, "%s %s\n%s%s%s%s%s%s\n", request->method, request->path,
                     has_type ? CONTENT_TYPE_LINE : "", has_type ? request->content_type : "",
                     has_type ? "\n" : "", has_version ? VERSION_LINE : "",
                     has_version ? request->version : "", has_version ? "\n" : "");
    const size_t head_length = strlen(head);
    uint8_t *bytes = arena_allocate(arena, head_length + request->body.length);
    memcpy(bytes, head, head_length);
    if (request->body.length > 0) {
        memcpy(bytes + head_length, request->body.data, request->body.length);
    }
    return (struct span){ bytes, head_length + request->body.length };
}

/* Cuts the next line off rest, as text; NULL if there is none or it holds a NUL. */
static char *take_line(struct span *rest, struct arena *arena)
{
    const uint8_t *end = rest->length == 0 ? NULL : memchr(rest->data, '\n', rest->length);
    if (end == NULL) return NULL;
    const size_t length = (size_t)(end - rest->data);
    if (memchr(rest->data, '\0', length) != NULL) return NULL;
    char *line = arena_copy(arena, rest->data, length);
    rest->data += length + 1;
    rest->length -= length + 1;
    return line;
}

/* What follows the prefix, and not empty; NULL if the line is another. */
static const char *value_behind(const char *line, const char *prefix)
{
    const size_t length = strlen(prefix);
    if (strncmp(line, prefix, length) != 0 || line[length] == '\0') return NULL;
    return line + length;
}

enum status psp_request_decode(struct span bytes, struct arena *arena, struct psp_request *out)
{
    struct span rest = bytes;
    char *first = take_line(&rest, arena);
    char *space = first == NULL ? NULL : strchr(first, ' ');
    if (space == NULL || space == first || space[1] == '\0') return STATUS_BAD_DATA;
    *space = '\0';
    struct psp_request request = { .method = first, .path = space + 1 };

    const char *line = take_line(&rest, arena);
    if (line != NULL && (request.content_type = value_behind(line, CONTENT_TYPE_LINE)) != NULL) {
        line = take_line(&rest, arena);
    }
    if (line != NULL && (request.version = value_behind(line, VERSION_LINE)) != NULL) {
        line = take_line(&rest, arena);
    }
    if (line == NULL || line[0] != '\0') return STATUS_BAD_DATA;
    request.body = rest;
    *out = request;
    return STATUS_OK;
}
