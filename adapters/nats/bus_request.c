/* adapters/nats/bus_request.c: JetStream's JSON API, request by request, waiting for the answer. */
#include "adapters/nats/bus_internal.h"

#include "pipeline/clock.h"

bool bus_problem_read(const json_t *answer, struct bus_problem *out_problem, struct arena *arena)
{
    const json_t *error = json_object_get(answer, "error");
    if (error == NULL) return false;
    const char *description = json_string_value(json_object_get(error, "description"));
    *out_problem = (struct bus_problem){
        .code = (int)json_integer_value(json_object_get(error, "code")),
        .error_code = (int)json_integer_value(json_object_get(error, "err_code")),
        .text = description == NULL ? "an error without a description"
                                    : arena_copy(arena, description, strlen(description)),
    };
    return true;
}

static enum status status_of_problem(const struct bus_problem *problem)
{
    if (problem->code == 404) return STATUS_NOT_FOUND;
    return problem->code >= 500 ? STATUS_RETRY : STATUS_BAD_DATA;
}

enum status bus_request(struct bus *bus, const char *subject, const char *json, int64_t timeout_ms,
                        struct arena *arena, const char **out_json, struct bus_problem *out_problem)
{
    struct bus_problem problem = { .text = "" };
    natsMsg *reply = NULL;
    enum status status = STATUS_RETRY;
    bus_upkeep(bus);
    const natsStatus nats_status = natsConnection_RequestString(
        &reply, bus_connection(bus, BUS_ROLE_PUBLISH), subject, json, timeout_ms);
    if (nats_status != NATS_OK) {
        problem.text = nats_status == NATS_NO_RESPONDERS ? "JetStream does not answer"
                                                         : natsStatus_GetText(nats_status);
    } else {
        const size_t length = (size_t)natsMsg_GetDataLength(reply);
        json_t *answer = json_loadb(natsMsg_GetData(reply), length, 0, NULL);
        if (answer == NULL) {
            problem.text = "JetStream's answer is no JSON";
        } else if (bus_problem_read(answer, &problem, arena)) {
            status = status_of_problem(&problem);
        } else {
            *out_json = arena_copy(arena, natsMsg_GetData(reply), length);
            status = STATUS_OK;
        }
        json_decref(answer);
    }
    natsMsg_Destroy(reply);
    if (out_problem != NULL) *out_problem = problem;
    return status;
}

static enum status request_json(struct bus *bus, const char *subject, const char *json,
                                struct arena *arena, json_t **out_answer)
{
    const char *text = NULL;
    TRY(bus_request(bus, subject, json, BUS_REQUEST_TIMEOUT_MS, arena, &text, NULL));
    *out_answer = json_loads(text, 0, NULL);
    INVARIANT(*out_answer != NULL); /* bus_request read it before */
    return STATUS_OK;
}

static uint64_t number_at(const json_t *object, const char *section, const char *key)
{
    if (section != NULL) object = json_object_get(object, section);
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static int64_t time_at(const json_t *object, const char *key)
{
    int64_t time_us = 0;
    const char *text = json_string_value(json_object_get(object, key));
    if (text != NULL) (void)clock_parse(text, &time_us);
    return time_us;
}

enum status bus_stream_info(struct bus *bus, const char *stream, struct arena *arena,
                            struct bus_stream_info *out_info)
{
    json_t *answer = NULL;
    TRY(request_json(bus, arena_format(arena, "$JS.API.STREAM.INFO.%s", stream), "", arena,
                     &answer));
    *out_info = (struct bus_stream_info){
        .messages = number_at(answer, "state", "messages"),
        .bytes = number_at(answer, "state", "bytes"),
        .first_sequence = number_at(answer, "state", "first_seq"),
        .last_sequence = number_at(answer, "state", "last_seq"),
        .consumer_count = number_at(answer, "state", "consumer_count"),
        .created_at_us = time_at(answer, "created"),
    };
    json_decref(answer);
    return STATUS_OK;
}

enum status bus_consumer_info(struct bus *bus, const char *stream, const char *durable,
                              struct arena *arena, struct bus_consumer_info *out_info)
{
    json_t *answer = NULL;
    TRY(request_json(bus, arena_format(arena, "$JS.API.CONSUMER.INFO.%s.%s", stream, durable), "",
                     arena, &answer));
    *out_info = (struct bus_consumer_info){
        .pending = number_at(answer, NULL, "num_pending"),
        .ack_pending = number_at(answer, NULL, "num_ack_pending"),
        .redelivered = number_at(answer, NULL, "num_redelivered"),
        .waiting = number_at(answer, NULL, "num_waiting"),
        .delivered_sequence = number_at(answer, "delivered", "stream_seq"),
        .ack_floor_sequence = number_at(answer, "ack_floor", "stream_seq"),
    };
    json_decref(answer);
    return STATUS_OK;
}

static int base64_digit(char digit)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = digit == '\0' ? NULL : strchr(DIGITS, digit);
    return at == NULL ? -1 : (int)(at - DIGITS);
}

static char *base64_decode(const char *text, struct arena *arena)
{
    char *out = arena_allocate(arena, strlen(text) + 1);
    size_t length = 0;
    uint32_t bits = 0;
    int bit_count = 0;
    for (; *text != '\0' && *text != '='; text++) {
        const int digit = base64_digit(*text);
        if (digit < 0) break;
        bits = bits << 6 | (uint32_t)digit;
        bit_count += 6;
        if (bit_count < 8) continue;
        bit_count -= 8;
        out[length++] = (char)(bits >> bit_count & 0xff);
    }
    return out;
}

/* The value of one line of a header block ("NATS/1.0\r\nName: value\r\n…"). */
static const char *header_value(const char *block, const char *name, struct arena *arena)
{
    const char *prefix = arena_format(arena, "\r\n%s:", name);
    const char *line = strstr(block, prefix);
    if (line == NULL) return NULL;
    line += strlen(prefix);
    line += strspn(line, " \t");
    return arena_copy(arena, line, strcspn(line, "\r\n"));
}

enum status bus_stream_find(struct bus *bus, const char *stream, const char *subject,
                            uint64_t from_sequence, struct arena *arena,
                            struct bus_stored *out_stored)
{
    json_t *answer = NULL;
    const char *api = arena_format(arena, "$JS.API.STREAM.MSG.GET.%s", stream);
    INVARIANT(strpbrk(subject, "\"\\") == NULL); /* a subject of ours: needs no escaping */
    const char *query = arena_format(arena, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"%s\"}",
                                     from_sequence, subject);
    TRY(request_json(bus, api, query, arena, &answer));
    const json_t *message = json_object_get(answer, "message");
    const char *found = json_string_value(json_object_get(message, "subject"));
    const char *headers = json_string_value(json_object_get(message, "hdrs"));
    struct bus_stored stored = {
        .sequence = number_at(message, NULL, "seq"),
        .stored_at_us = time_at(message, "time"),
        .subject = found == NULL ? "" : arena_copy(arena, found, strlen(found)),
    };
    if (headers != NULL) {
        stored.message_id = header_value(base64_decode(headers, arena), "Nats-Msg-Id", arena);
    }
    json_decref(answer);
    *out_stored = stored;
    return STATUS_OK;
}
