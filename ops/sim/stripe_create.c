/*
 * ops/sim/stripe_create.c: POST /v1/payment_intents: the key, the faults drawn for it, the charge,
 * the stored answer, and how much of that answer the client gets to see. The order is Stripe's:
 * the key first, then validation, then the limiter; only what was executed is stored under a key.
 */
#include "ops/sim/stripe.h"

#include "ops/sim/stripe_method.h"
#include "ops/sim/stripe_params.h"

/* A create on its way; lives as long as its exchange. */
struct creation {
    struct sim *sim;
    struct idempotency_key *entry;
    struct idempotency_key *own_entry; /* the same, for a request without a key */
    struct arena arena;
    struct stripe_params params;
    struct fault fault; /* of this arrival; FAULT_NONE: none */
};

static void creation_destroy(void *work)
{
    struct creation *creation = work;
    idempotency_destroy(creation->own_entry);
    arena_finish(&creation->arena);
    free(creation);
}

static void answer_error(struct sim *sim, struct exchange *exchange, int status,
                         const struct stripe_error *error)
{
    struct textbuf body = { 0 };
    stripe_json_error(error, &body);
    stripe_answer(sim, exchange, SERVER_ANSWER, status, &body, 0);
}

/* The stored answer as text; returns its status. */
static int render_answer(const struct idempotency_answer *answer, struct textbuf *out)
{
    if (answer->is_server_error) {
        const struct stripe_error error = {
            .type = "api_error",
            .message = "An unknown error occurred. Please contact support if it persists."
        };
        stripe_json_error(&error, out);
        return answer->status;
    }
    struct charge snapshot = *answer->charge;
    snapshot.state = answer->state;
    snapshot.changed_s = snapshot.created_s;
    memcpy(snapshot.decline_code, answer->decline_code, sizeof snapshot.decline_code);
    stripe_json_created(&snapshot, out);
    return answer->status;
}

/* A gateway in front of the PSP answers, in its own words. */
static void render_gateway_error(int status, struct textbuf *out)
{
    textbuf_clear(out);
    textbuf_format(out,
                   "<html><head><title>%d</title></head><body><center><h1>%d</h1></center>"
                   "</body></html>\r\n",
                   status, status);
}

/* What the key answers, but that this answer denies what was charged; the ledger knows better. */
static struct idempotency_answer contradict(struct idempotency_key *entry)
{
    struct idempotency_answer answer = entry->answer;
    struct fault *fault = entry->plan == NULL ? NULL : &entry->plan->contradiction;
    if (fault == NULL || fault->kind == FAULT_NONE || fault->times == 0 || answer.is_server_error) {
        return answer;
    }
    fault->times--;
    answer.state = CHARGE_DECLINED;
    answer.status = stripe_json_created_status(answer.state);
    (void)snprintf(answer.decline_code, sizeof answer.decline_code, "%s", fault->code);
    return answer;
}

/* Gives the key's answer to the client, as far as the fault of this arrival lets it through. */
static void deliver(struct sim *sim, struct exchange *exchange, struct idempotency_key *entry,
                    const struct fault *fault, bool is_replayed)
{
    struct textbuf body = { 0 };
    const struct idempotency_answer answer = contradict(entry);
    int status = render_answer(&answer, &body);
    enum server_manner manner = SERVER_ANSWER;
    if (fault->kind == FAULT_LOST_AFTER_COMMIT) manner = SERVER_CLOSE;
    if (fault->kind == FAULT_RESET) manner = SERVER_RESET;
    if (fault->kind == FAULT_HALF_BODY) manner = SERVER_HALF_BODY;
    if (fault->kind == FAULT_ERROR_5XX_AFTER && !fault->stored) {
        status = fault->status;
        render_gateway_error(status, &body);
    } else if (is_replayed) {
        server_add_header(exchange, "Idempotent-Replayed", "true");
    }
    int64_t extra_ms = 0;
    if (entry->plan != NULL && entry->plan->answer_delay.kind != FAULT_NONE &&
        entry->plan->answer_delay.times-- > 0) {
        extra_ms = entry->plan->answer_delay.ms;
    }
    stripe_answer(sim, exchange, manner, status, &body, extra_ms);
}

/* Faults. */

static void draw(struct sim *sim, enum fault_slot slot, const struct fault_subject *subject,
                 struct fault *out)
{
    if (!faults_draw(&sim->faults, slot, subject, out)) *out = (struct fault){ 0 };
}

/*
 * Once per key, at its first arrival. Of a key that an earlier run of the simulator saw already,
 * what happens to the request is over; what comes of the charge is still to be drawn.
 */
static void make_plan(struct creation *creation, bool is_first_arrival)
{
    struct sim *sim = creation->sim;
    struct idempotency_key *entry = creation->entry;
    char keyless[IDENT_SIZE];
    const struct fault_subject subject = {
        .account = entry->account->name,
        .method = creation->params.method,
        .key = entry->key,
        .amount_minor = creation->params.amount_minor,
        .draw = entry->key != NULL ? entry->key : ident_make("", keyless),
    };
    struct create_plan plan = { 0 };
    entry->is_planned = true;
    draw(sim, FAULT_SLOT_OUTCOME, &subject, &plan.outcome);
    draw(sim, FAULT_SLOT_ECHO, &subject, &plan.echo);
    draw(sim, FAULT_SLOT_CONTRADICTION, &subject, &plan.contradiction);
    if (is_first_arrival) {
        draw(sim, FAULT_SLOT_ANSWER, &subject, &plan.answer);
        draw(sim, FAULT_SLOT_DELAY, &subject, &plan.delay);
        draw(sim, FAULT_SLOT_ANSWER_DELAY, &subject, &plan.answer_delay);
    }
    if (plan.outcome.kind == FAULT_NONE && plan.echo.kind == FAULT_NONE &&
        plan.contradiction.kind == FAULT_NONE && plan.answer.kind == FAULT_NONE &&
        plan.delay.kind == FAULT_NONE && plan.answer_delay.kind == FAULT_NONE) {
        return;
    }
    entry->plan = memory_allocate(sizeof *entry->plan);
    *entry->plan = plan;
}

/* The fault for one more arrival of the key, counted down. */
static struct fault take_fault(struct idempotency_key *entry)
{
    struct create_plan *plan = entry->plan;
    if (plan == NULL || plan->answer.kind == FAULT_NONE || plan->answer.times == 0) {
        return (struct fault){ 0 };
    }
    plan->answer.times--;
    return plan->answer;
}

/* Executing. */

static bool keeps_successes_only(struct sim *sim, const struct account *account)
{
    struct fault profile;
    return sim_has_profile(sim, account, FAULT_SLOT_KEEPING, &profile);
}

static struct sim_order make_order(struct creation *creation)
{
    const struct stripe_params *params = &creation->params;
    const struct stripe_outcome outcome = stripe_method_outcome(params->method);
    struct sim_order order = { .account = creation->entry->account,
                               .key = creation->entry->key,
                               .method = params->method,
                               .metadata = params->metadata,
                               .return_url = params->return_url,
                               .amount_minor = params->amount_minor,
                               .state = outcome.state,
                               .due_after_ms = outcome.due_after_ms,
                               .due_state = outcome.due_state };
    memcpy(order.currency, params->currency, sizeof order.currency);
    (void)snprintf(order.decline_code, sizeof order.decline_code, "%s", outcome.decline_code);
    return order;
}

static void apply_plan(struct creation *creation, struct sim_order *order)
{
    struct create_plan *plan = creation->entry->plan;
    if (plan == NULL) return;
    if (plan->outcome.kind == FAULT_DECLINE) {
        order->state = CHARGE_DECLINED;
        order->due_after_ms = -1;
        memcpy(order->decline_code, plan->outcome.code, sizeof order->decline_code);
    } else if (plan->outcome.kind == FAULT_PENDING_THEN) {
        order->state = CHARGE_PROCESSING;
        order->due_after_ms = plan->outcome.ms;
        order->decline_code[0] = '\0';
        INVARIANT(charge_result_parse(plan->outcome.code, &order->due_state));
    }
    if (plan->echo.kind == FAULT_WRONG_ECHO) {
        if (plan->echo.amount_minor != 0) order->amount_minor = plan->echo.amount_minor;
        if (plan->echo.currency[0] != '\0') {
            memcpy(order->currency, plan->echo.currency, sizeof order->currency);
        }
        if (plan->echo.reference[0] != '\0') {
            order->metadata = stripe_params_with_reference(order->metadata, plan->echo.reference,
                                                           &creation->arena);
        }
    }
    plan->outcome = (struct fault){ 0 }; /* a second run of the key is another one */
    plan->echo = (struct fault){ 0 };
}

static void apply_payable(struct sim *sim, struct sim_order *order)
{
    struct fault profile;
    if (order->state != CHARGE_DECLINED ||
        !sim_has_profile(sim, order->account, FAULT_SLOT_PAYABLE, &profile)) {
        return;
    }
    order->is_payable = true;
    if (profile.ms > 0) {
        order->due_after_ms = profile.ms;
        order->due_state = CHARGE_SUCCEEDED;
    }
}

/* The charge, the answer under the key and the log, in this order; then the client. */
static void execute(struct exchange *exchange)
{
    struct creation *creation = exchange->work;
    struct sim *sim = creation->sim;
    struct idempotency_key *entry = creation->entry;
    struct sim_order order = make_order(creation);
    apply_plan(creation, &order);
    apply_payable(sim, &order);
    const struct charge *charge = sim_execute(sim, &order);
    entry->state = IDEMPOTENCY_ANSWERED;
    entry->answer = (struct idempotency_answer){
        .status = stripe_json_created_status(charge->state),
        .charge = charge,
        .state = charge->state,
    };
    memcpy(entry->answer.decline_code, charge->decline_code, sizeof charge->decline_code);
    if (creation->fault.kind == FAULT_ERROR_5XX_AFTER && creation->fault.stored) {
        entry->answer.is_server_error = true;
        entry->answer.status = creation->fault.status;
    }
    const bool is_kept = entry->answer.status < 300 || !keeps_successes_only(sim, entry->account);
    if (!is_kept) entry->state = IDEMPOTENCY_SEEN;
    ledger_note_key(&sim->ledger, entry);
    sim_commit(sim);
    deliver(sim, exchange, entry, &creation->fault, false);
}

/* Answers that come without executing anything. */

static bool is_before_execution(enum fault_kind kind)
{
    return kind == FAULT_DROP_BEFORE || kind == FAULT_RATE_LIMIT_429 ||
           kind == FAULT_IN_PROGRESS_409 || kind == FAULT_ERROR_5XX_BEFORE;
}

static void answer_in_use(struct sim *sim, struct exchange *exchange)
{
    const struct stripe_error error = {
        .type = "invalid_request_error",
        .code = "idempotency_key_in_use",
        .message = "There is currently another in-progress request using this Idempotent Key."
    };
    answer_error(sim, exchange, 409, &error);
}

static void answer_before(struct creation *creation, struct exchange *exchange)
{
    struct sim *sim = creation->sim;
    struct idempotency_key *entry = creation->entry;
    const struct fault *fault = &creation->fault;
    const struct idempotency_answer server_error = { .status = fault->status,
                                                     .is_server_error = true };
    struct textbuf body = { 0 };
    if (fault->kind == FAULT_ERROR_5XX_BEFORE && fault->stored &&
        !keeps_successes_only(sim, entry->account)) {
        entry->state = IDEMPOTENCY_ANSWERED;
        entry->answer = server_error;
    }
    ledger_note_key(&sim->ledger, entry); /* or only that it was seen: no second draw */
    sim_commit(sim);
    if (fault->kind == FAULT_DROP_BEFORE) {
        stripe_answer(sim, exchange, SERVER_CLOSE, 0, &body, 0);
    } else if (fault->kind == FAULT_RATE_LIMIT_429) {
        const struct stripe_error error = { .type = "invalid_request_error",
                                            .code = "rate_limit",
                                            .message = "Request rate limit exceeded." };
        server_add_header(exchange, "Stripe-Should-Retry", "true");
        answer_error(sim, exchange, 429, &error);
    } else if (fault->kind == FAULT_IN_PROGRESS_409) {
        answer_in_use(sim, exchange);
    } else {
        (void)render_answer(&server_error, &body);
        if (!fault->stored) render_gateway_error(fault->status, &body);
        stripe_answer(sim, exchange, SERVER_ANSWER, fault->status, &body, 0);
    }
}

/* A request that may run: plans its faults, then executes it now, later or not. */
static void run(struct sim *sim, const struct account *account, const char *key,
                struct idempotency_key *entry, const uint8_t fingerprint[HASH_SIZE],
                struct exchange *exchange)
{
    struct creation *creation = memory_allocate(sizeof *creation);
    exchange->work = creation;
    exchange->destroy_work = creation_destroy;
    creation->sim = sim;
    struct stripe_error error;
    const struct span body = { (const uint8_t *)exchange->body.data, exchange->body.length };
    if (!stripe_params_parse(body, &creation->arena, &creation->params, &error)) {
        answer_error(sim, exchange, 400, &error);
        return;
    }
    const bool is_first_arrival = entry == NULL;
    if (entry == NULL) entry = idempotency_add(&sim->ledger.keys, account, key);
    if (key == NULL) creation->own_entry = entry;
    creation->entry = entry;
    memcpy(entry->fingerprint, fingerprint, HASH_SIZE);
    entry->first_seen_s = ledger_virtual_s(&sim->ledger);
    if (!entry->is_planned) make_plan(creation, is_first_arrival);
    creation->fault = take_fault(entry);
    if (is_before_execution(creation->fault.kind)) {
        answer_before(creation, exchange);
        return;
    }
    entry->state = IDEMPOTENCY_RUNNING;
    if (entry->plan != NULL && entry->plan->delay.kind != FAULT_NONE) {
        entry->plan->delay.kind = FAULT_NONE;
        server_later(exchange, entry->plan->delay.ms, execute);
        return;
    }
    execute(exchange);
}

static void answer_mismatch(struct sim *sim, const char *key, struct exchange *exchange)
{
    struct textbuf message = { 0 };
    textbuf_format(&message,
                   "Keys for idempotent requests can only be used with the same parameters they "
                   "were first used with. Try using a key other than '%s' if you meant to execute "
                   "a different request.",
                   key);
    const struct stripe_error error = { .type = "idempotency_error", .message = message.data };
    answer_error(sim, exchange, 400, &error);
    textbuf_finish(&message);
}

void stripe_create(struct sim *sim, const struct account *account, const char *path,
                   struct exchange *exchange)
{
    const char *key = server_header(exchange, "Idempotency-Key");
    if (key != NULL &&
        (key[0] == '\0' || strlen(key) > IDEMPOTENCY_KEY_LENGTH_MAX || !textbuf_is_utf8(key))) {
        const struct stripe_error error = { .type = "invalid_request_error",
                                            .message =
                                                "Idempotency keys have 1 to 255 characters." };
        answer_error(sim, exchange, 400, &error);
        return;
    }
    uint8_t fingerprint[HASH_SIZE];
    const struct span body = { (const uint8_t *)exchange->body.data, exchange->body.length };
    idempotency_fingerprint(path, body, fingerprint);
    struct idempotency_key *entry =
        key == NULL ? NULL : idempotency_find(&sim->ledger.keys, account->name, key);
    if (entry == NULL) {
        run(sim, account, key, NULL, fingerprint, exchange);
        return;
    }
    switch (idempotency_judge(entry, fingerprint, ledger_virtual_s(&sim->ledger))) {
    case IDEMPOTENCY_RUN:
        run(sim, account, key, entry, fingerprint, exchange);
        return;
    case IDEMPOTENCY_REPLAY: {
        const struct fault fault = take_fault(entry);
        deliver(sim, exchange, entry, &fault, true);
        return;
    }
    case IDEMPOTENCY_MISMATCH:
        answer_mismatch(sim, key, exchange);
        return;
    case IDEMPOTENCY_IN_PROGRESS:
        answer_in_use(sim, exchange);
        return;
    }
    UNREACHABLE("idempotency verdict out of range");
}
