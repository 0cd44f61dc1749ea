/* ops/sim/stripe.c: see stripe.h. Who may, which endpoint, and everything but the create. */
#include "ops/sim/stripe.h"

#include "ops/sim/stripe_json.h"
#include "ops/sim/stripe_sign.h"

static const char INTENTS_PATH[] = "/v1/payment_intents";

void stripe_answer(struct sim *sim, struct exchange *exchange, enum server_manner manner,
                   int status, struct textbuf *body, int64_t extra_ms)
{
    char request[IDENT_SIZE];
    server_add_header(exchange, "Request-Id", ident_make("req_", request));
    const bool is_html = body->length > 0 && body->data[0] == '<';
    server_finish(exchange, manner, (unsigned)status, is_html ? "text/html" : "application/json",
                  body, sim->options.latency_ms + extra_ms);
}

static void answer_error(struct sim *sim, struct exchange *exchange, int status,
                         const struct stripe_error *error)
{
    struct textbuf body = { 0 };
    stripe_json_error(error, &body);
    stripe_answer(sim, exchange, SERVER_ANSWER, status, &body, 0);
}

/* Authorization: Bearer sk_sim_<account>. */
static bool is_authentic(const char *account, const struct exchange *exchange)
{
    static const char PREFIX[] = "Bearer sk_sim_";
    const char *header = server_header(exchange, "Authorization");
    return header != NULL && strncmp(header, PREFIX, sizeof PREFIX - 1) == 0 &&
           strcmp(header + sizeof PREFIX - 1, account) == 0;
}

static void answer_no_such_intent(struct sim *sim, const char *object, struct exchange *exchange)
{
    struct textbuf message = { 0 };
    textbuf_format(&message, "No such payment_intent: '%s'",
                   textbuf_is_utf8(object) ? object : "?");
    const struct stripe_error error = { .type = "invalid_request_error",
                                        .code = "resource_missing",
                                        .param = "intent",
                                        .message = message.data };
    answer_error(sim, exchange, 404, &error);
    textbuf_finish(&message);
}

/* The fault that spoils this lookup, if one does. A rule's times are counted per object. */
static struct fault take_get_fault(struct sim *sim, struct charge *charge,
                                   const struct fault_subject *subject)
{
    struct fault fault;
    if (charge->spoiled_generation != sim->faults.generation) {
        charge->spoiled_generation = sim->faults.generation;
        charge->spoiled_gets = 0;
    }
    if (!faults_draw(&sim->faults, FAULT_SLOT_GET, subject, &fault)) return (struct fault){ 0 };
    if (fault.times > 0 && charge->spoiled_gets >= fault.times) return (struct fault){ 0 };
    charge->spoiled_gets++;
    return fault;
}

/* False: the lookup goes well. */
static bool spoil_get(struct sim *sim, const struct charge *charge, const struct fault *fault,
                      struct exchange *exchange, int64_t delay_ms)
{
    struct stripe_error error = { .type = "invalid_request_error" };
    struct textbuf body = { 0 };
    if (fault->kind == FAULT_GET_404) {
        answer_no_such_intent(sim, charge->object, exchange);
    } else if (fault->kind == FAULT_GET_403) {
        error.message = "The provided key does not have the required permissions.";
        answer_error(sim, exchange, 403, &error);
    } else if (fault->kind == FAULT_GET_429) {
        error.code = "rate_limit";
        error.message = "Request rate limit exceeded.";
        answer_error(sim, exchange, 429, &error);
    } else if (fault->kind == FAULT_GET_5XX) {
        error.type = "api_error";
        error.message = "An unknown error occurred.";
        answer_error(sim, exchange, fault->status, &error);
    } else if (fault->kind == FAULT_GET_DROP) {
        stripe_answer(sim, exchange, SERVER_CLOSE, 0, &body, delay_ms);
    } else {
        return false;
    }
    return true;
}

static void retrieve(struct sim *sim, const struct account *account, const char *object,
                     struct exchange *exchange)
{
    struct charge *charge = ledger_find_charge(&sim->ledger, object);
    if (charge == NULL || charge->account != account) {
        answer_no_such_intent(sim, object, exchange);
        return;
    }
    const struct fault_subject subject = { .account = account->name,
                                           .method = charge->method,
                                           .key = charge->key,
                                           .amount_minor = charge->amount_minor,
                                           .draw = charge->key != NULL ? charge->key : object };
    struct fault delay;
    const bool is_late = faults_draw(&sim->faults, FAULT_SLOT_GET_DELAY, &subject, &delay);
    const int64_t delay_ms = is_late ? delay.ms : 0;
    const struct fault fault = take_get_fault(sim, charge, &subject);
    if (spoil_get(sim, charge, &fault, exchange, delay_ms)) return;
    struct charge shown = *charge;
    if (fault.kind == FAULT_GET_PROCESSING) shown.state = CHARGE_PROCESSING;
    if (fault.kind == FAULT_GET_DECLINED) {
        shown.state = CHARGE_DECLINED;
        (void)snprintf(shown.decline_code, sizeof shown.decline_code, "%s", fault.code);
    }
    struct textbuf body = { 0 };
    stripe_json_intent(&shown, &body);
    stripe_answer(sim, exchange, SERVER_ANSWER, 200, &body, delay_ms);
}

static void answer_unknown_path(struct sim *sim, const char *path, struct exchange *exchange)
{
    struct textbuf message = { 0 };
    textbuf_format(&message, "Unrecognized request URL (%s: %s).", exchange->method,
                   textbuf_is_utf8(path) ? path : "?");
    const struct stripe_error error = { .type = "invalid_request_error", .message = message.data };
    answer_error(sim, exchange, 404, &error);
    textbuf_finish(&message);
}

static void note_arrival(struct sim *sim, const char *account, const char *kind,
                         const struct exchange *exchange)
{
    const bool is_post = strcmp(exchange->method, "POST") == 0;
    const struct arrival arrival = {
        .account = account,
        .method = is_post                                ? "POST"
                  : strcmp(exchange->method, "GET") == 0 ? "GET"
                                                         : "other",
        .kind = kind,
        .key = server_header(exchange, "Idempotency-Key"),
        .real_ms = ident_real_ms(),
        .monotonic_ms = ident_monotonic_ms(),
    };
    arrivals_note(&sim->arrivals, &arrival);
}

static void handle(struct sim *sim, const char *name, const char *path, struct exchange *exchange)
{
    if (!is_authentic(name, exchange)) {
        const struct stripe_error error = { .type = "invalid_request_error",
                                            .message =
                                                server_header(exchange, "Authorization") == NULL
                                                    ? "You did not provide an API key."
                                                    : "Invalid API Key provided." };
        answer_error(sim, exchange, 401, &error);
        return;
    }
    const struct account *account = ledger_account(&sim->ledger, name, stripe_protocol.name);
    if (account == NULL) {
        answer_unknown_path(sim, path, exchange);
        return;
    }
    const size_t length = sizeof INTENTS_PATH - 1;
    const bool is_intents = strncmp(path, INTENTS_PATH, length) == 0;
    if (is_intents && path[length] == '\0' && strcmp(exchange->method, "POST") == 0) {
        note_arrival(sim, name, "create", exchange);
        stripe_create(sim, account, path, exchange);
    } else if (is_intents && path[length] == '/' && path[length + 1] != '\0' &&
               strcmp(exchange->method, "GET") == 0) {
        note_arrival(sim, name, "retrieve", exchange);
        retrieve(sim, account, path + length + 1, exchange);
    } else {
        note_arrival(sim, name, "other", exchange);
        answer_unknown_path(sim, path, exchange);
    }
}

static void sign(const char *account, bool is_forged, int64_t now_s, struct span body,
                 struct textbuf *out)
{
    char secret[96];
    (void)snprintf(secret, sizeof secret, "%s_sim_%s", is_forged ? "whsec_forged" : "whsec",
                   account);
    stripe_sign_header(secret, now_s, body, out);
}

const struct protocol stripe_protocol = {
    .name = "stripe",
    .path_prefix = "/v1/",
    .object_prefix = "pi_",
    .charge_prefix = "ch_",
    .handle = handle,
    .event_type = stripe_json_event_type,
    .event_state = stripe_json_event_state,
    .render_event = stripe_json_event,
    .sign = sign,
};
