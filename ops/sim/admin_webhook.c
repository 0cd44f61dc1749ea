/*
 * ops/sim/admin_webhook.c: see admin_webhook.h. The event shows the named object, or a stand-in
 * for one that does not exist, with whatever the body overrides; the ledger changes only if the
 * body says "charge": true.
 */
#include "ops/sim/admin_webhook.h"

struct webhook_body {
    const char *account;
    const char *type;
    const char *object;
    const char *key;
    const char *code;
    const char *currency;
    const char *method;
    json_t *metadata;
    json_int_t amount;
    json_int_t created_offset_s;
    json_int_t timestamp_offset_s;
    json_int_t delay_ms;
    int copies;
    int is_charge;
    int is_forged;
};

/* NULL, or what is wrong. */
static const char *check(const struct webhook_body *body)
{
    static const char TYPE_ALPHABET[] = "abcdefghijklmnopqrstuvwxyz._";
    const size_t type_length = strlen(body->type);
    if (!ident_is_token(body->account, strlen(body->account))) return "account is malformed";
    if (type_length == 0 || type_length > 60 || strspn(body->type, TYPE_ALPHABET) != type_length) {
        return "type must be up to 60 lower-case letters, _ and .";
    }
    if (body->object == NULL && body->key == NULL) return "object or key must be given";
    if (body->object != NULL && (strlen(body->object) >= IDENT_SIZE ||
                                 !ident_is_token(body->object, strlen(body->object)))) {
        return "object must be up to 39 letters, digits, _ and -";
    }
    if (body->code != NULL && (strlen(body->code) >= CHARGE_CODE_SIZE ||
                               !ident_is_token(body->code, strlen(body->code)))) {
        return "code must be up to 39 letters, digits and _";
    }
    if (body->currency != NULL &&
        (strlen(body->currency) != 3 || !ident_is_token(body->currency, 3))) {
        return "currency must be three letters";
    }
    if (body->method != NULL && !ident_is_token(body->method, strlen(body->method))) {
        return "method is malformed";
    }
    if (body->metadata != NULL && !json_is_object(body->metadata))
        return "metadata must be an object";
    if (body->amount < 0) return "amount must be positive";
    if (body->copies < 0 || body->copies > 100) return "duplicates must be from 0 to 100";
    if (body->delay_ms < 0 || body->delay_ms > 86400000) return "delay_ms must be up to a day";
    return NULL;
}

static const char *read_webhook(json_t *json, struct webhook_body *out, json_error_t *where)
{
    const int result = json_unpack_ex(
        json, where, 0,
        "{s:s, s:s, s?s, s?s, s?s, s?s, s?s, s?o, s?I, s?I, s?I, s?I, s?i, s?b, s?b !}", "account",
        &out->account, "type", &out->type, "object", &out->object, "key", &out->key, "code",
        &out->code, "currency", &out->currency, "method", &out->method, "metadata", &out->metadata,
        "amount", &out->amount, "created_offset_s", &out->created_offset_s, "timestamp_offset_s",
        &out->timestamp_offset_s, "delay_ms", &out->delay_ms, "duplicates", &out->copies, "charge",
        &out->is_charge, "bad_signature", &out->is_forged);
    return result != 0 ? where->text : check(out);
}

static void copy_currency(const char *text, char out[4])
{
    for (size_t i = 0; i < 3; i++) {
        out[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
    }
    out[3] = '\0';
}

/* Makes "charge": true come true. NULL: it cannot, and out_problem says why. */
static struct charge *take_money(struct sim *sim, const struct account *account,
                                 const struct webhook_body *body, struct charge *charge,
                                 const char *metadata, const char **out_problem)
{
    if (charge != NULL && charge->state == CHARGE_SUCCEEDED) {
        *out_problem = "the object is charged already";
        return NULL;
    }
    if (charge != NULL) {
        ledger_change_charge(&sim->ledger, charge, CHARGE_SUCCEEDED, NULL, ident_real_ms() / 1000);
        return charge;
    }
    if (body->object == NULL || body->amount == 0 || body->currency == NULL) {
        *out_problem = "a new object needs object, amount and currency";
        return NULL;
    }
    if (ledger_find_charge(&sim->ledger, body->object) != NULL) {
        *out_problem = "the object belongs to another account";
        return NULL;
    }
    struct sim_order order = { .account = account,
                               .key = body->key,
                               .method = body->method != NULL ? body->method : "pm_card_visa",
                               .metadata = metadata,
                               .amount_minor = body->amount,
                               .state = CHARGE_SUCCEEDED,
                               .due_after_ms = -1,
                               .due_state = CHARGE_SUCCEEDED };
    copy_currency(body->currency, order.currency);
    return sim_record(sim, &order, body->object);
}

/* The object as the event shall show it. Strings are borrowed. */
static struct charge make_snapshot(const struct account *account, const struct webhook_body *body,
                                   const struct charge *charge, char *metadata, char *method,
                                   char *key)
{
    struct charge snapshot = { .account = account,
                               .method = method,
                               .key = key,
                               .metadata = metadata,
                               .currency = "USD",
                               .state = CHARGE_SUCCEEDED };
    if (charge != NULL) {
        snapshot = *charge;
        if (body->metadata != NULL) snapshot.metadata = metadata;
    } else {
        (void)snprintf(snapshot.object, sizeof snapshot.object, "%s", body->object);
        (void)ident_make(protocol_of_account(account)->charge_prefix, snapshot.charge_id);
        snapshot.created_s = ident_real_ms() / 1000;
    }
    if (body->amount > 0) snapshot.amount_minor = body->amount;
    if (body->currency != NULL) copy_currency(body->currency, snapshot.currency);
    if (protocol_of_account(account)->event_state(body->type, &snapshot.state)) {
        const char *code = snapshot.state != CHARGE_DECLINED ? ""
                           : body->code != NULL              ? body->code
                                                             : "generic_decline";
        (void)snprintf(snapshot.decline_code, sizeof snapshot.decline_code, "%s", code);
    }
    return snapshot;
}

static void emit(struct sim *sim, const struct account *account, const struct webhook_body *body,
                 const struct charge *charge, const char *metadata_text, struct exchange *exchange)
{
    char *metadata = memory_copy_text(metadata_text);
    char *method = memory_copy_text(body->method != NULL ? body->method : "pm_card_visa");
    char *key = body->key == NULL ? NULL : memory_copy_text(body->key);
    struct charge snapshot = make_snapshot(account, body, charge, metadata, method, key);
    const struct webhook_order order = {
        .account = account,
        .snapshot = &snapshot,
        .type = body->type,
        .created_s = ident_real_ms() / 1000 + body->created_offset_s,
        .timestamp_offset_s = body->timestamp_offset_s,
        .delay_ms = body->delay_ms,
        .is_forged = body->is_forged != 0,
        .copies = (unsigned)body->copies,
    };
    snapshot.changed_s = order.created_s;
    char event[IDENT_SIZE];
    webhook_emit_order(sim->webhooks, &order, event);
    sim_commit(sim);
    struct textbuf answer = { 0 };
    textbuf_format(&answer, "{\"event\":\"%s\",\"object\":\"%s\"}\n", event, snapshot.object);
    server_finish(exchange, SERVER_ANSWER, 200, "application/json", &answer, 0);
    free(metadata);
    free(method);
    free(key);
}

void admin_webhook_post(struct sim *sim, json_t *json, struct exchange *exchange)
{
    struct webhook_body body = { 0 };
    json_error_t where;
    const char *problem = read_webhook(json, &body, &where);
    if (problem == NULL && !webhook_is_on(sim->webhooks)) problem = "--webhook-url was not given";
    if (problem != NULL) {
        sim_refuse(exchange, 400, problem);
        return;
    }
    const struct account *account =
        ledger_account(&sim->ledger, body.account, protocol_default()->name);
    const char *prefix = protocol_of_account(account)->object_prefix;
    struct charge *charge = ledger_find_named(&sim->ledger, body.account, body.object, body.key);
    enum charge_state shown = CHARGE_PROCESSING;
    (void)protocol_of_account(account)->event_state(body.type, &shown);
    char *metadata = body.metadata == NULL ? NULL : json_dumps(body.metadata, JSON_COMPACT);
    const char *metadata_text = metadata == NULL ? "{}" : metadata;
    if (charge == NULL && body.object == NULL) {
        problem = "no charge was made under this key";
    } else if (body.object != NULL && strncmp(body.object, prefix, strlen(prefix)) != 0) {
        problem = "object does not begin as this PSP's objects do";
    } else if (body.is_charge && shown != CHARGE_SUCCEEDED) {
        problem = "charge goes with an event of success only";
    } else if (body.is_charge) {
        charge = take_money(sim, account, &body, charge, metadata_text, &problem);
    }
    if (problem == NULL) {
        emit(sim, account, &body, charge, metadata_text, exchange);
    } else {
        sim_commit(sim);
        sim_refuse(exchange, 409, problem);
    }
    free(metadata);
}
