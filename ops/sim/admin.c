/* ops/sim/admin.c: see admin.h. Every body is strict JSON: an unknown field is an error. */
#include "ops/sim/admin.h"

#include "ops/sim/admin_webhook.h"

struct route {
    const char *method;
    const char *path;
    void (*handle)(struct sim *sim, struct exchange *exchange);
};

static void answer(struct exchange *exchange, unsigned status, struct textbuf *body)
{
    server_finish(exchange, SERVER_ANSWER, status, "application/json", body, 0);
}

/* NULL: the exchange was refused. The caller releases it. */
static json_t *read_body(struct exchange *exchange)
{
    json_error_t where;
    json_t *json = json_loadb(exchange->body.data == NULL ? "" : exchange->body.data,
                              exchange->body.length, JSON_REJECT_DUPLICATES, &where);
    if (json == NULL) sim_refuse(exchange, 400, where.text);
    return json;
}

static void get_health(struct sim *sim, struct exchange *exchange)
{
    const struct webhook_counts counts = webhook_counts(sim->webhooks);
    struct textbuf body = { 0 };
    textbuf_format(&body,
                   "{\"status\":\"ok\",\"charges\":%zu,\"keys\":%zu,\"clock_offset_s\":%" PRId64
                   ",\"webhooks\":{\"on\":%s,\"waiting\":%zu,\"in_flight\":%zu,\"attempts\":%zu,"
                   "\"acknowledged\":%zu,\"dropped\":%zu}}\n",
                   sim->ledger.charge_count, sim->ledger.keys.count, sim->ledger.clock_offset_s,
                   webhook_is_on(sim->webhooks) ? "true" : "false", counts.waiting,
                   counts.in_flight, counts.attempts, counts.acknowledged, counts.dropped);
    answer(exchange, 200, &body);
}

static void get_ledger(struct sim *sim, struct exchange *exchange)
{
    const char *format = server_query(exchange, "format");
    const char *account = server_query(exchange, "account");
    const bool is_lines = format != NULL && strcmp(format, "ndjson") == 0;
    if (format != NULL && !is_lines && strcmp(format, "json") != 0) {
        sim_refuse(exchange, 400, "format must be json or ndjson");
        return;
    }
    struct textbuf body = { 0 };
    textbuf_text(&body, is_lines ? "" : "[");
    const char *separator = "";
    for (size_t i = 0; i < sim->ledger.charge_count; i++) {
        const struct charge *charge = sim->ledger.charges[i];
        if (account != NULL && strcmp(account, charge->account->name) != 0) continue;
        textbuf_text(&body, separator);
        charge_render_row(charge, &body);
        if (is_lines) textbuf_text(&body, "\n");
        separator = is_lines ? "" : ",\n";
    }
    textbuf_text(&body, is_lines ? "" : "]\n");
    server_finish(exchange, SERVER_ANSWER, 200,
                  is_lines ? "application/x-ndjson" : "application/json", &body, 0);
}

static void get_requests(struct sim *sim, struct exchange *exchange)
{
    struct textbuf body = { 0 };
    arrivals_render(&sim->arrivals, server_query(exchange, "account"),
                    server_query(exchange, "key"), &body);
    answer(exchange, 200, &body);
}

static void post_reset(struct sim *sim, struct exchange *exchange)
{
    sim_reset(sim);
    struct textbuf body = { 0 };
    textbuf_text(&body, "{\"status\":\"ok\"}\n");
    answer(exchange, 200, &body);
}

static void post_clock(struct sim *sim, struct exchange *exchange)
{
    json_t *json = read_body(exchange);
    if (json == NULL) return;
    json_int_t advance_s = 0;
    json_error_t where;
    if (json_unpack_ex(json, &where, 0, "{s:I !}", "advance_s", &advance_s) != 0) {
        sim_refuse(exchange, 400, where.text);
    } else if (advance_s < 0 || advance_s > 3650LL * 86400) {
        sim_refuse(exchange, 400, "advance_s must be from 0 to ten years");
    } else {
        ledger_advance_clock(&sim->ledger, advance_s);
        sim_commit(sim);
        struct textbuf body = { 0 };
        textbuf_format(&body, "{\"now_s\":%" PRId64 ",\"offset_s\":%" PRId64 "}\n",
                       ledger_virtual_s(&sim->ledger), sim->ledger.clock_offset_s);
        answer(exchange, 200, &body);
    }
    json_decref(json);
}

static void get_faults(struct sim *sim, struct exchange *exchange)
{
    struct textbuf body = { 0 };
    faults_render(&sim->faults, &body);
    answer(exchange, 200, &body);
}

static void put_faults(struct sim *sim, struct exchange *exchange)
{
    json_t *json = read_body(exchange);
    if (json == NULL) return;
    char error[FAULTS_ERROR_SIZE];
    const bool is_good = faults_replace(&sim->faults, json, error);
    json_decref(json);
    if (is_good) {
        get_faults(sim, exchange);
    } else {
        sim_refuse(exchange, 400, error);
    }
}

static void answer_row(const struct charge *charge, struct exchange *exchange)
{
    struct textbuf body = { 0 };
    charge_render_row(charge, &body);
    textbuf_text(&body, "\n");
    answer(exchange, 200, &body);
}

/* Only what can still end ends; a declined object only where the profile leaves it payable. */
static bool can_become(const struct charge *charge, enum charge_state result)
{
    if (charge->state == CHARGE_PROCESSING || charge->state == CHARGE_ACTION_REQUIRED) return true;
    return charge->state == CHARGE_DECLINED && charge->is_payable && result == CHARGE_SUCCEEDED;
}

static void post_resolve(struct sim *sim, struct exchange *exchange)
{
    json_t *json = read_body(exchange);
    if (json == NULL) return;
    const char *account = NULL, *object = NULL, *key = NULL, *word = NULL, *code = NULL;
    enum charge_state result = CHARGE_SUCCEEDED;
    struct charge *charge = NULL;
    json_error_t where;
    if (json_unpack_ex(json, &where, 0, "{s:s, s?s, s?s, s:s, s?s !}", "account", &account,
                       "object", &object, "key", &key, "result", &word, "code", &code) != 0) {
        sim_refuse(exchange, 400, where.text);
    } else if (!charge_result_parse(word, &result)) {
        sim_refuse(exchange, 400, "result must be succeeded, failed or canceled");
    } else if (code != NULL && !ident_is_token(code, strlen(code))) {
        sim_refuse(exchange, 400, "code must be letters, digits and _");
    } else if ((charge = ledger_find_named(&sim->ledger, account, object, key)) == NULL) {
        sim_refuse(exchange, 404, "no such object of this account");
    } else if (!can_become(charge, result)) {
        sim_refuse(exchange, 409, "the object is final");
    } else {
        if (code == NULL) code = "generic_decline";
        sim_change(sim, charge, result, result == CHARGE_DECLINED ? code : NULL);
        sim_commit(sim);
        answer_row(charge, exchange);
    }
    json_decref(json);
}

static void post_webhook(struct sim *sim, struct exchange *exchange)
{
    json_t *json = read_body(exchange);
    if (json == NULL) return;
    admin_webhook_post(sim, json, exchange);
    json_decref(json);
}

static const struct route ROUTES[] = {
    { "GET", "/health", get_health },     { "GET", "/ledger", get_ledger },
    { "GET", "/requests", get_requests }, { "POST", "/reset", post_reset },
    { "POST", "/clock", post_clock },     { "GET", "/faults", get_faults },
    { "PUT", "/faults", put_faults },     { "POST", "/resolve", post_resolve },
    { "POST", "/webhook", post_webhook },
};

void admin_handle(struct sim *sim, const char *path, struct exchange *exchange)
{
    bool is_known = false;
    for (size_t i = 0; i < COUNT_OF(ROUTES); i++) {
        if (strcmp(ROUTES[i].path, path) != 0) continue;
        is_known = true;
        if (strcmp(ROUTES[i].method, exchange->method) != 0) continue;
        ROUTES[i].handle(sim, exchange);
        return;
    }
    sim_refuse(exchange, is_known ? 405 : 404,
               is_known ? "another method is needed" : "no such path under /_sim");
}
