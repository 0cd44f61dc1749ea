/*
 * ops/sim/faults.c: see faults.h. The table below is the whole list of faults: name, slot, the
 * parameters that a rule may give. Reading, drawing and printing all go by it.
 */
#include "ops/sim/faults.h"

#include "ops/sim/ident.h"
#include "ops/sim/table.h"

enum parameter {
    PARAMETER_MS = 1 << 0,
    PARAMETER_TIMES = 1 << 1,
    PARAMETER_STATUS = 1 << 2,
    PARAMETER_STORED = 1 << 3,
    PARAMETER_CODE = 1 << 4,
    PARAMETER_RESULT = 1 << 5,
    PARAMETER_ECHO = 1 << 6,
    PARAMETER_MS_REQUIRED = 1 << 7,
};

struct fault_row {
    enum fault_kind kind;
    const char *name;
    enum fault_slot slot;
    unsigned parameters;
    int64_t times_default; /* 0: no bound */
    int64_t ms_default;
};

static const struct fault_row ROWS[] = {
    { FAULT_LOST_AFTER_COMMIT, "lost_after_commit", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_DROP_BEFORE, "drop_before", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_ERROR_5XX_BEFORE, "error_5xx_before", FAULT_SLOT_ANSWER,
      PARAMETER_TIMES | PARAMETER_STATUS | PARAMETER_STORED, 1, 0 },
    { FAULT_ERROR_5XX_AFTER, "error_5xx_after", FAULT_SLOT_ANSWER,
      PARAMETER_TIMES | PARAMETER_STATUS | PARAMETER_STORED, 1, 0 },
    { FAULT_HALF_BODY, "half_body", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_RESET, "reset", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_RATE_LIMIT_429, "rate_limit_429", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_IN_PROGRESS_409, "in_progress_409", FAULT_SLOT_ANSWER, PARAMETER_TIMES, 1, 0 },
    { FAULT_DELAY_MS, "delay_ms", FAULT_SLOT_DELAY, PARAMETER_MS | PARAMETER_MS_REQUIRED, 1, 0 },
    { FAULT_ANSWER_DELAY_MS, "answer_delay_ms", FAULT_SLOT_ANSWER_DELAY,
      PARAMETER_MS | PARAMETER_MS_REQUIRED | PARAMETER_TIMES, 1, 0 },
    { FAULT_DECLINE, "decline", FAULT_SLOT_OUTCOME, PARAMETER_CODE, 1, 0 },
    { FAULT_PENDING_THEN, "pending_then", FAULT_SLOT_OUTCOME,
      PARAMETER_MS | PARAMETER_MS_REQUIRED | PARAMETER_RESULT, 1, 0 },
    { FAULT_WRONG_ECHO, "wrong_echo", FAULT_SLOT_ECHO, PARAMETER_ECHO, 1, 0 },
    { FAULT_ANSWER_DECLINED, "answer_declined", FAULT_SLOT_CONTRADICTION,
      PARAMETER_TIMES | PARAMETER_CODE, 1, 0 },
    { FAULT_GET_404, "get_404", FAULT_SLOT_GET, PARAMETER_TIMES, 0, 0 },
    { FAULT_GET_403, "get_403", FAULT_SLOT_GET, PARAMETER_TIMES, 0, 0 },
    { FAULT_GET_429, "get_429", FAULT_SLOT_GET, PARAMETER_TIMES, 0, 0 },
    { FAULT_GET_5XX, "get_5xx", FAULT_SLOT_GET, PARAMETER_TIMES | PARAMETER_STATUS, 0, 0 },
    { FAULT_GET_DROP, "get_drop", FAULT_SLOT_GET, PARAMETER_TIMES, 0, 0 },
    { FAULT_GET_DECLINED, "get_declined", FAULT_SLOT_GET, PARAMETER_TIMES | PARAMETER_CODE, 0, 0 },
    { FAULT_GET_PROCESSING, "get_processing", FAULT_SLOT_GET, PARAMETER_TIMES, 0, 0 },
    { FAULT_GET_DELAY_MS, "get_delay_ms", FAULT_SLOT_GET_DELAY,
      PARAMETER_MS | PARAMETER_MS_REQUIRED, 0, 0 },
    { FAULT_DUPLICATE_WEBHOOKS, "duplicate_webhooks", FAULT_SLOT_WEBHOOK_DUPLICATE, PARAMETER_TIMES,
      1, 0 },
    { FAULT_REORDER_WEBHOOKS, "reorder_webhooks", FAULT_SLOT_WEBHOOK_REORDER, PARAMETER_MS, 1,
      300 },
    { FAULT_FORGE_WEBHOOKS, "forge_webhooks", FAULT_SLOT_WEBHOOK_FORGE, PARAMETER_TIMES, 1, 0 },
    { FAULT_WEBHOOK_DELAY_MS, "webhook_delay_ms", FAULT_SLOT_WEBHOOK_DELAY,
      PARAMETER_MS | PARAMETER_MS_REQUIRED, 1, 0 },
    { FAULT_NO_WEBHOOKS, "no_webhooks", FAULT_SLOT_WEBHOOK_NONE, 0, 1, 0 },
    { FAULT_KEEP_SUCCESSES_ONLY, "keep_successes_only", FAULT_SLOT_KEEPING, 0, 1, 0 },
    { FAULT_DECLINED_STAYS_PAYABLE, "declined_stays_payable", FAULT_SLOT_PAYABLE, PARAMETER_MS, 1,
      0 },
};

enum { MILLION = 1000000 };

static const struct fault_row *row_by_name(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        if (strcmp(ROWS[i].name, name) == 0) return &ROWS[i];
    }
    return NULL;
}

static const struct fault_row *row_by_kind(enum fault_kind kind)
{
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        if (ROWS[i].kind == kind) return &ROWS[i];
    }
    UNREACHABLE("fault kind out of range");
}

const char *faults_preset(const char *name)
{
    if (strcmp(name, "none") == 0) return "[]";
    if (strcmp(name, "lost") == 0) {
        return "[{\"match\":{\"probability\":0.20},\"action\":\"lost_after_commit\"},"
               "{\"match\":{\"probability\":0.05},\"action\":\"drop_before\"},"
               "{\"match\":{\"probability\":0.05},\"action\":\"error_5xx_after\"},"
               "{\"match\":{\"probability\":0.02},\"action\":\"in_progress_409\"},"
               "{\"match\":{\"probability\":0.20},\"action\":\"duplicate_webhooks\"},"
               "{\"match\":{\"probability\":0.20},\"action\":\"reorder_webhooks\"}]";
    }
    return NULL;
}

/* Reading. Each reader returns NULL, or what is wrong with the value. */

static const char *read_text(const json_t *value, char *out, size_t size)
{
    if (!json_is_string(value)) return "must be a string";
    const size_t length = json_string_length(value);
    if (length == 0 || length >= size) return "is empty or too long";
    if (strlen(json_string_value(value)) != length) return "contains NUL";
    memcpy(out, json_string_value(value), length + 1);
    return NULL;
}

static const char *read_integer(const json_t *value, int64_t min, int64_t max, int64_t *out)
{
    if (!json_is_integer(value)) return "must be an integer";
    const int64_t number = json_integer_value(value);
    if (number < min || number > max) return "is out of range";
    *out = number;
    return NULL;
}

static const char *read_match_field(const char *name, const json_t *value, struct fault_rule *out)
{
    if (strcmp(name, "account") == 0) return read_text(value, out->account, sizeof out->account);
    if (strcmp(name, "method") == 0) return read_text(value, out->method, sizeof out->method);
    if (strcmp(name, "key_prefix") == 0) {
        return read_text(value, out->key_prefix, sizeof out->key_prefix);
    }
    if (strcmp(name, "amount") == 0) return read_integer(value, 1, INT64_MAX, &out->amount_minor);
    if (strcmp(name, "probability") == 0) {
        if (!json_is_number(value)) return "must be a number";
        const double probability = json_number_value(value);
        if (!(probability >= 0.0 && probability <= 1.0)) return "must be from 0 to 1";
        out->probability_millionths = (uint32_t)(probability * MILLION + 0.5);
        return NULL;
    }
    return "is not a known field of match";
}

static const char *read_result(const json_t *value, struct fault *out)
{
    const char *error = read_text(value, out->code, sizeof out->code);
    if (error != NULL) return error;
    const bool known = strcmp(out->code, "succeeded") == 0 || strcmp(out->code, "failed") == 0 ||
                       strcmp(out->code, "canceled") == 0;
    return known ? NULL : "must be succeeded, failed or canceled";
}

static const char *read_currency(const json_t *value, char out[4])
{
    const char *error = read_text(value, out, 4);
    if (error != NULL || strlen(out) != 3) return "must be a code of three letters";
    for (size_t i = 0; i < 3; i++) {
        if (out[i] >= 'a' && out[i] <= 'z') out[i] = (char)(out[i] - 'a' + 'A');
    }
    return NULL;
}

static const char *read_parameter(const struct fault_row *row, const char *name,
                                  const json_t *value, struct fault *out)
{
    const unsigned allowed = row->parameters;
    int64_t number = 0;
    if (strcmp(name, "ms") == 0 && (allowed & PARAMETER_MS) != 0) {
        return read_integer(value, 0, 86400000, &out->ms);
    }
    if (strcmp(name, "times") == 0 && (allowed & PARAMETER_TIMES) != 0) {
        return read_integer(value, 1, MILLION, &out->times);
    }
    if (strcmp(name, "status") == 0 && (allowed & PARAMETER_STATUS) != 0) {
        const char *error = read_integer(value, 500, 599, &number);
        if (error == NULL) out->status = (int)number;
        return error;
    }
    if (strcmp(name, "stored") == 0 && (allowed & PARAMETER_STORED) != 0) {
        out->stored = json_is_true(value);
        return json_is_boolean(value) ? NULL : "must be true or false";
    }
    if (strcmp(name, "code") == 0 && (allowed & PARAMETER_CODE) != 0) {
        const char *error = read_text(value, out->code, sizeof out->code);
        if (error != NULL) return error;
        return ident_is_token(out->code, strlen(out->code)) ? NULL
                                                            : "must be letters, digits and _";
    }
    if (strcmp(name, "result") == 0 && (allowed & PARAMETER_RESULT) != 0) {
        return read_result(value, out);
    }
    if ((allowed & PARAMETER_ECHO) != 0) {
        if (strcmp(name, "amount") == 0) {
            return read_integer(value, 1, INT64_MAX, &out->amount_minor);
        }
        if (strcmp(name, "currency") == 0) return read_currency(value, out->currency);
        if (strcmp(name, "reference") == 0) {
            return read_text(value, out->reference, sizeof out->reference);
        }
    }
    return "is not a parameter of this action";
}

static const char *read_match(const json_t *match, struct fault_rule *out, const char **out_field)
{
    *out_field = "match";
    if (!json_is_object(match)) return "must be an object";
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)match, name, value)
    {
        *out_field = name;
        const char *error = read_match_field(name, value, out);
        if (error != NULL) return error;
    }
    return NULL;
}

static struct fault fault_default(const struct fault_row *row)
{
    struct fault fault = { .kind = row->kind,
                           .ms = row->ms_default,
                           .times = row->times_default,
                           .status = (row->parameters & PARAMETER_STATUS) != 0 ? 500 : 0,
                           .stored = true };
    const char *code = row->kind == FAULT_PENDING_THEN           ? "succeeded"
                       : (row->parameters & PARAMETER_CODE) != 0 ? "generic_decline"
                                                                 : "";
    (void)snprintf(fault.code, sizeof fault.code, "%s", code);
    return fault;
}

/* NULL, or what is wrong with the field named by out_field. */
static const char *read_rule(const json_t *json, struct fault_rule *out, const char **out_field)
{
    *out_field = "rule";
    if (!json_is_object(json)) return "must be an object";
    *out_field = "action";
    const json_t *action = json_object_get(json, "action");
    if (!json_is_string(action)) return "is missing";
    const struct fault_row *row = row_by_name(json_string_value(action));
    if (row == NULL) return "is not a known action";
    *out = (struct fault_rule){ .probability_millionths = MILLION, .fault = fault_default(row) };
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        *out_field = name;
        const char *error = NULL;
        if (strcmp(name, "action") == 0 || strcmp(name, "applied") == 0) continue;
        if (strcmp(name, "match") == 0) {
            error = read_match(value, out, out_field);
        } else if (strcmp(name, "limit") == 0) {
            error = read_integer(value, 1, INT64_MAX, &out->limit);
        } else {
            error = read_parameter(row, name, value, &out->fault);
        }
        if (error != NULL) return error;
    }
    *out_field = "ms";
    const bool needs_ms = (row->parameters & PARAMETER_MS_REQUIRED) != 0;
    return needs_ms && json_object_get(json, "ms") == NULL ? "is missing" : NULL;
}

bool faults_append(struct fault_set *set, const json_t *rule, char error[FAULTS_ERROR_SIZE])
{
    struct fault_rule parsed;
    const char *field = NULL;
    const char *problem =
        set->count >= FAULT_RULES_MAX ? "is one too many" : read_rule(rule, &parsed, &field);
    if (problem != NULL) {
        (void)snprintf(error, FAULTS_ERROR_SIZE, "rule %zu: %s %s", set->count,
                       field == NULL ? "it" : field, problem);
        return false;
    }
    set->rules = memory_resize(set->rules, (set->count + 1) * sizeof *set->rules);
    set->rules[set->count++] = parsed;
    return true;
}

bool faults_replace(struct fault_set *set, const json_t *array, char error[FAULTS_ERROR_SIZE])
{
    if (!json_is_array(array)) {
        (void)snprintf(error, FAULTS_ERROR_SIZE, "the rules must be a JSON array");
        return false;
    }
    struct fault_set fresh = { .seed = set->seed, .generation = set->generation + 1 };
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!faults_append(&fresh, json_array_get(array, i), error)) {
            free(fresh.rules);
            return false;
        }
    }
    free(set->rules);
    *set = fresh;
    return true;
}

/* Drawing. */

static bool rule_matches(const struct fault_rule *rule, const struct fault_subject *subject)
{
    if (rule->limit > 0 && rule->applied >= rule->limit) return false;
    if (rule->account[0] != '\0' && strcmp(rule->account, subject->account) != 0) return false;
    if (rule->method[0] != '\0' &&
        (subject->method == NULL || strcmp(rule->method, subject->method) != 0)) {
        return false;
    }
    if (rule->amount_minor != 0 && rule->amount_minor != subject->amount_minor) return false;
    const size_t prefix_length = strlen(rule->key_prefix);
    if (prefix_length == 0) return true;
    return subject->key != NULL && strncmp(rule->key_prefix, subject->key, prefix_length) == 0;
}

/* From 0 to 999999, the same for the same seed, slot, account and draw. */
static uint32_t draw_millionths(uint64_t seed, enum fault_slot slot,
                                const struct fault_subject *subject)
{
    uint64_t hash = table_hash(TABLE_HASH_START, subject->account);
    hash = table_hash(hash, subject->draw);
    hash += (seed + 1) * 0x9e3779b97f4a7c15ULL + (uint64_t)slot * 0xd1b54a32d192ed03ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    return (uint32_t)((hash ^ (hash >> 31)) % MILLION);
}

bool faults_draw(struct fault_set *set, enum fault_slot slot, const struct fault_subject *subject,
                 struct fault *out)
{
    uint32_t drawn = MILLION;
    uint32_t below = 0; /* the rules that match share the range: their probabilities add up */
    for (size_t i = 0; i < set->count; i++) {
        struct fault_rule *rule = &set->rules[i];
        if (row_by_kind(rule->fault.kind)->slot != slot || !rule_matches(rule, subject)) continue;
        if (drawn == MILLION) drawn = draw_millionths(set->seed, slot, subject);
        below += rule->probability_millionths;
        if (drawn >= below) continue;
        rule->applied++;
        *out = rule->fault;
        return true;
    }
    return false;
}

/* Printing. */

static void render_match(const struct fault_rule *rule, struct textbuf *out)
{
    textbuf_format(out, "{\"probability\":%" PRIu32 ".%06" PRIu32,
                   rule->probability_millionths / MILLION, rule->probability_millionths % MILLION);
    if (rule->account[0] != '\0') {
        textbuf_text(out, ",\"account\":");
        textbuf_json(out, rule->account);
    }
    if (rule->method[0] != '\0') {
        textbuf_text(out, ",\"method\":");
        textbuf_json(out, rule->method);
    }
    if (rule->key_prefix[0] != '\0') {
        textbuf_text(out, ",\"key_prefix\":");
        textbuf_json(out, rule->key_prefix);
    }
    if (rule->amount_minor != 0) {
        textbuf_format(out, ",\"amount\":%" PRId64, rule->amount_minor);
    }
    textbuf_text(out, "}");
}

static void render_echo(const struct fault *fault, struct textbuf *out)
{
    if (fault->amount_minor != 0) {
        textbuf_format(out, ",\"amount\":%" PRId64, fault->amount_minor);
    }
    if (fault->currency[0] != '\0') textbuf_format(out, ",\"currency\":\"%s\"", fault->currency);
    if (fault->reference[0] != '\0') {
        textbuf_text(out, ",\"reference\":");
        textbuf_json(out, fault->reference);
    }
}

static void render_rule(const struct fault_rule *rule, struct textbuf *out)
{
    const struct fault_row *row = row_by_kind(rule->fault.kind);
    const struct fault *fault = &rule->fault;
    textbuf_format(out, "{\"action\":\"%s\",\"match\":", row->name);
    render_match(rule, out);
    if ((row->parameters & PARAMETER_MS) != 0) textbuf_format(out, ",\"ms\":%" PRId64, fault->ms);
    if ((row->parameters & PARAMETER_TIMES) != 0 && fault->times > 0) {
        textbuf_format(out, ",\"times\":%" PRId64, fault->times);
    }
    if ((row->parameters & PARAMETER_STATUS) != 0) {
        textbuf_format(out, ",\"status\":%d", fault->status);
    }
    if ((row->parameters & PARAMETER_STORED) != 0) {
        textbuf_format(out, ",\"stored\":%s", fault->stored ? "true" : "false");
    }
    if ((row->parameters & PARAMETER_CODE) != 0) {
        textbuf_format(out, ",\"code\":\"%s\"", fault->code);
    }
    if ((row->parameters & PARAMETER_RESULT) != 0) {
        textbuf_format(out, ",\"result\":\"%s\"", fault->code);
    }
    if ((row->parameters & PARAMETER_ECHO) != 0) render_echo(fault, out);
    if (rule->limit > 0) textbuf_format(out, ",\"limit\":%" PRId64, rule->limit);
    textbuf_format(out, ",\"applied\":%" PRId64 "}", rule->applied);
}

void faults_render(const struct fault_set *set, struct textbuf *out)
{
    textbuf_text(out, "[");
    for (size_t i = 0; i < set->count; i++) {
        if (i > 0) textbuf_text(out, ",\n ");
        render_rule(&set->rules[i], out);
    }
    textbuf_text(out, "]\n");
}

void faults_restart_counts(struct fault_set *set)
{
    for (size_t i = 0; i < set->count; i++) set->rules[i].applied = 0;
}

void faults_finish(struct fault_set *set)
{
    free(set->rules);
    set->rules = NULL;
    set->count = 0;
}
