/* tests/simulation/bank.c: see bank.h. A call travels, is executed, and is answered, or not. */
#include "tests/simulation/bank.h"

#include "tests/simulation/check.h"
#include "tests/simulation/decide.h"
#include "tests/simulation/parts.h"

#define LATE_US_MAX (3000 * CLOCK_SECOND_US) /* inside the late-arrival window */
#define DAY_US (INT64_C(24) * 3600 * CLOCK_SECOND_US)

struct bank *bank_create(void)
{
    return memory_allocate(sizeof(struct bank));
}

void bank_destroy(struct bank *bank)
{
    free(bank);
}

void bank_begin(struct world *world)
{
    enum { DECLINES_PER_MILLE = 500, LATE_PER_MILLE = 300 };
    struct bank *bank = world->bank;
    bank->charge_count = bank->key_count = 0;
    bank->events = bank->calls = 0;
    bank->profile =
        (enum bank_profile)choice_below(&world->choices, CHOICE_WORLD, 2, BANK_PROFILES);
    /* Who cannot tell what is payable must at least report what was paid. */
    /* Here a decline proves less, the later it is written. */
    if (bank->profile == BANK_KEEPS_SUCCESSES &&
        choice_below(&world->choices, CHOICE_WORLD, 7, 2) == 1) {
        world->choices.per_mille[CHOICE_BANK_DECLINES] = DECLINES_PER_MILLE;
        world->choices.per_mille[CHOICE_RESULTS_LATE] = LATE_PER_MILLE;
    }
    bank->has_webhooks = bank->profile == BANK_DECLINED_PAYABLE_UNTOLD ||
                         choice_below(&world->choices, CHOICE_WORLD, 3, 2) == 0;
    bank->capability = (struct psp_capability){
        .version = 1,
        .has_idempotency_key = true,
        .keeps_failures_under_key = bank->profile != BANK_KEEPS_SUCCESSES,
        .has_retrieve = true,
        .key_retention_s = 24 * 3600,
        .key_margin_s = 3600,
        .late_arrival_window_s = 3600,
        .lookup_lag_s = 600,
        .key_length_max = 255,
        .rate_limit_is_before_execution = true,
        .rejection_is_before_execution = true,
        .auth_rejection_is_before_execution = true,
    };
    world_say(world, "the PSP: profile %d, %s webhooks", (int)bank->profile,
              bank->has_webhooks ? "with" : "without");
}

/* --- what it shows ---------------------------------------------------------------------------- */

static enum observation_kind kind_of(enum charge_state state)
{
    switch (state) {
    case CHARGE_SUCCEEDED:
        return OBSERVED_SUCCEEDED;
    case CHARGE_DECLINED:
        return OBSERVED_DECLINED;
    case CHARGE_PENDING:
        return OBSERVED_PENDING;
    case CHARGE_CANCELED:
        return OBSERVED_CANCELED;
    }
    UNREACHABLE("charge state out of range");
}

static struct observation show(const struct world *world, const struct charge *charge)
{
    const bool tells = world->bank->profile != BANK_DECLINED_PAYABLE_UNTOLD ||
                       charge->state != CHARGE_DECLINED || charge->is_handed_out;
    return (struct observation){
        .kind = kind_of(charge->state),
        .phase = PHASE_PARSED,
        .http_status = charge->state == CHARGE_DECLINED ? 402 : 200,
        .error_code = charge->state == CHARGE_DECLINED ? "card_declined" : NULL,
        .provider_object = charge->object,
        .reference = charge->key,
        .has_amount = true,
        .amount = charge->amount_shown,
        .decline = charge->state == CHARGE_DECLINED ? DECLINE_GENERIC : DECLINE_NONE,
        .handed_out = charge->is_handed_out,
        .object_payable = charge->is_payable && tells,
        .observed_at_us = charge->state == CHARGE_SUCCEEDED ? charge->succeeded_us : world->now_us,
        .excerpt = "{}",
    };
}

static struct observation plain(enum observation_kind kind, int http_status, const char *code)
{
    return (struct observation){ .kind = kind,
                                 .phase = PHASE_PARSED,
                                 .http_status = http_status,
                                 .error_code = code,
                                 .excerpt = "{}" };
}

/* --- webhooks --------------------------------------------------------------------------------- */

struct hook {
    size_t account;
    unsigned tag;
    struct observation observation;
    bool is_taken; /* a 2xx came */
};

static void deliver(struct world *world, void *what);

static void taken(struct world *world, void *owner)
{
    (void)world;
    ((struct hook *)owner)->is_taken = true;
}

static void deliver(struct world *world, void *what)
{
    struct hook *hook = what;
    if (hook->is_taken) return;
    part_gateway_receive(world, hook->account, &hook->observation, taken, hook);
    world_after(world, 60 * CLOCK_SECOND_US, deliver, hook);
}

static void send_observation(struct world *world, const struct charge *charge,
                             const struct observation *observation)
{
    struct bank *bank = world->bank;
    if (!bank->has_webhooks) return;
    struct hook *hook = world_allocate(world, sizeof *hook);
    hook->account = charge->account;
    hook->tag = charge->tag;
    hook->observation = *observation;
    hook->observation.source = SOURCE_WEBHOOK;
    hook->observation.provider_event = arena_format(&world->arena, "evt_%u", ++bank->events);
    const bool is_late = choice_strikes(&world->choices, CHOICE_HOOK_LATE, charge->tag);
    const int64_t delay_us =
        choice_delay_us(&world->choices, is_late ? CHOICE_CUSTOMER : CHOICE_TRAVEL, charge->tag);
    world_after(world, delay_us, deliver, hook);
    if (choice_strikes(&world->choices, CHOICE_HOOK_TWICE, charge->tag)) {
        struct hook *copy = world_allocate(world, sizeof *copy);
        *copy = *hook;
        world_after(world, delay_us + CLOCK_SECOND_US, deliver, copy);
    }
}

static void send_hook(struct world *world, const struct charge *charge)
{
    const struct observation observation = show(world, charge);
    send_observation(world, charge, &observation);
}

/* What its ledger does not say. */
static void contradict(struct world *world, struct charge *charge)
{
    charge->is_contradicted = true;
    struct observation observation = show(world, charge);
    observation.kind = OBSERVED_DECLINED;
    observation.observed_at_us = world->now_us + CLOCK_SECOND_US;
    send_observation(world, charge, &observation);
}

/* --- charges ---------------------------------------------------------------------------------- */

static const char *state_word(enum charge_state state)
{
    static const char *const WORDS[] = { "", "succeeded", "declined", "pending", "canceled" };
    return WORDS[state];
}

static void move_charge(struct world *world, struct charge *charge, enum charge_state state)
{
    charge->state = state;
    world_say(world, "  PSP: %s of %s %s", charge->object, charge->key, state_word(state));
    if (state == CHARGE_SUCCEEDED) {
        charge->succeeded_us = world->now_us;
        charge->is_payable = false;
        check_charge(world, charge);
    }
    if (state == CHARGE_CANCELED) charge->is_payable = false;
    send_hook(world, charge);
    if (state == CHARGE_SUCCEEDED &&
        choice_strikes(&world->choices, CHOICE_BANK_CONTRADICTS, charge->tag)) {
        contradict(world, charge);
    }
}

static void close_object(struct world *world, void *what)
{
    struct charge *charge = what;
    if (charge->state == CHARGE_SUCCEEDED || charge->state == CHARGE_CANCELED) return;
    move_charge(world, charge, CHARGE_CANCELED);
}

/* The customer, or the PSP, ends what was left open. */
static void end_charge(struct world *world, void *what)
{
    enum { WAYS = 8 };
    struct charge *charge = what;
    if (charge->state == CHARGE_SUCCEEDED || charge->state == CHARGE_CANCELED) return;
    switch (choice_below(&world->choices, CHOICE_OUTCOME, charge->tag, WAYS)) {
    case 0:
    case 1:
    case 2:
        move_charge(world, charge, CHARGE_SUCCEEDED);
        return;
    case 3:
    case 4:
        if (charge->state == CHARGE_PENDING) {
            move_charge(world, charge, CHARGE_DECLINED);
            if (charge->is_handed_out) world_after(world, DAY_US, close_object, charge);
            return;
        }
        move_charge(world, charge, CHARGE_CANCELED);
        return;
    case 5:
    case 6:
        move_charge(world, charge, CHARGE_CANCELED);
        return;
    default: /* it never ends by itself; the PSP closes it in a day or not at all */
        if (choice_below(&world->choices, CHOICE_OUTCOME, charge->tag, 2) == 0)
            world_after(world, DAY_US, close_object, charge);
        return;
    }
}

static void leave_open(struct world *world, struct charge *charge)
{
    const bool is_quick = choice_below(&world->choices, CHOICE_OUTCOME, charge->tag, 3) == 1;
    const int64_t delay_us =
        choice_delay_us(&world->choices, is_quick ? CHOICE_TRAVEL : CHOICE_CUSTOMER, charge->tag);
    world_after(world, delay_us, end_charge, charge);
}

static struct money other_money(struct world *world, const struct call *call)
{
    struct money money = call->amount;
    if (choice_below(&world->choices, CHOICE_OUTCOME, call->tag, 2) == 0) {
        money.minor += 1;
    } else {
        INVARIANT(currency_parse("CHF", &money.currency));
    }
    return money;
}

/* Executes a create: the ledger gets its row. */
static struct charge *charge_card(struct world *world, const struct call *call)
{
    struct bank *bank = world->bank;
    struct choices *choices = &world->choices;
    const size_t at = database_room(world, &bank->charge_count, CHARGES_MAX, "the PSP's ledger");
    struct charge *charge = &bank->charges[at];
    *charge = (struct charge){ .object = arena_format(&world->arena, "pi_%zu", at + 1),
                               .account = call->account,
                               .key = call->key,
                               .amount = call->amount,
                               .amount_shown = call->amount,
                               .tag = call->tag };
    /* Who runs a create again after a decline often declines again. */
    const bool declines = choice_strikes(choices, CHOICE_BANK_DECLINES, call->tag);
    const bool declines_again = bank->profile == BANK_KEEPS_SUCCESSES &&
                                choice_strikes(choices, CHOICE_BANK_DECLINES, call->tag);
    if (declines || declines_again) {
        charge->is_payable =
            bank->profile == BANK_DECLINED_PAYABLE || bank->profile == BANK_DECLINED_PAYABLE_UNTOLD;
        move_charge(world, charge, CHARGE_DECLINED);
        if (charge->is_payable) leave_open(world, charge);
    } else if (choice_strikes(choices, CHOICE_BANK_PENDS, call->tag)) {
        move_charge(world, charge, CHARGE_PENDING);
        leave_open(world, charge);
    } else if (choice_strikes(choices, CHOICE_BANK_ASKS_CUSTOMER, call->tag)) {
        charge->is_handed_out = charge->is_payable = true;
        move_charge(world, charge, CHARGE_PENDING);
        leave_open(world, charge);
    } else {
        if (choice_strikes(choices, CHOICE_BANK_WRONG_ECHO, call->tag))
            charge->amount_shown = other_money(world, call);
        move_charge(world, charge, CHARGE_SUCCEEDED);
    }
    return charge;
}

/* --- answers ---------------------------------------------------------------------------------- */

struct answer_on_its_way {
    struct call *call;
    struct observation observation;
};

static enum evidence_source source_of(const struct call *call, enum request_phase phase)
{
    if (phase == PHASE_LOCAL) return SOURCE_LOCAL;
    if (phase < PHASE_ANSWERED) return SOURCE_TRANSPORT;
    if (call->kind == REQUEST_RETRIEVE) return SOURCE_RETRIEVE;
    return call->kind == REQUEST_REPLAY ? SOURCE_REPLAY : SOURCE_ANSWER;
}

static void arrive_back(struct world *world, void *what)
{
    struct answer_on_its_way *answer = what;
    struct call *call = answer->call;
    if (call->is_over) return;
    call->is_over = true;
    answer->observation.source = source_of(call, answer->observation.phase);
    call->answered(world, call, &answer->observation);
}

static void answer_after(struct world *world, struct call *call, int64_t delay_us,
                         struct observation observation)
{
    if (call->worker->life != call->life) return;
    struct answer_on_its_way *answer = world_allocate(world, sizeof *answer);
    *answer = (struct answer_on_its_way){ call, observation };
    worker_after(world, call->worker, delay_us, arrive_back, answer);
}

static void answer(struct world *world, struct call *call, struct observation observation)
{
    if (choice_strikes(&world->choices, CHOICE_ANSWER_LOST, call->tag)) {
        world_say(world, "  its answer is lost");
        return;
    }
    answer_after(world, call, choice_delay_us(&world->choices, CHOICE_TRAVEL, call->tag),
                 observation);
}

/* --- requests --------------------------------------------------------------------------------- */

static struct bank_key *find_key(struct world *world, const struct call *call)
{
    struct bank *bank = world->bank;
    for (size_t i = 0; i < bank->key_count; i++) {
        struct bank_key *key = &bank->keys[i];
        if (key->account == call->account && strcmp(key->key, call->key) == 0) {
            const int64_t age_us = world->now_us - key->first_us;
            if (age_us <= bank->capability.key_retention_s * CLOCK_SECOND_US || key->is_running)
                return key;
            world_say(world, "  PSP: key %s is forgotten", key->key);
            *key = (struct bank_key){ .account = key->account,
                                      .key = key->key,
                                      .first_us = world->now_us };
            return key;
        }
    }
    const size_t at = database_room(world, &bank->key_count, BANK_KEYS_MAX, "the PSP's keys");
    bank->keys[at] =
        (struct bank_key){ .account = call->account, .key = call->key, .first_us = world->now_us };
    return &bank->keys[at];
}

struct execution {
    struct call *call;
    struct bank_key *key;
};

static bool is_kept(const struct bank *bank, const struct observation *result)
{
    const bool is_good = result->kind == OBSERVED_SUCCEEDED || result->kind == OBSERVED_PENDING;
    return is_good || bank->capability.keeps_failures_under_key;
}

static void finish(struct world *world, void *what)
{
    struct execution *execution = what;
    struct call *call = execution->call;
    struct bank_key *key = execution->key;
    struct choices *choices = &world->choices;
    key->is_running = false;
    key->executions++;
    const bool is_before = choice_strikes(choices, CHOICE_BANK_5XX_BEFORE, call->tag);
    const bool is_after = choice_strikes(choices, CHOICE_BANK_5XX_AFTER, call->tag);
    const bool stores_error = choice_below(choices, CHOICE_OUTCOME, call->tag, 2) == 1 &&
                              world->bank->capability.keeps_failures_under_key;
    const struct observation error = plain(OBSERVED_SERVER_ERROR, 500, "api_error");
    if (is_before) {
        key->has_result = stores_error;
        key->result = error;
        answer(world, call, error);
        return;
    }
    const struct charge *charge = charge_card(world, call);
    const struct observation shown = show(world, charge);
    key->result = is_after && stores_error ? error : shown;
    key->has_result = is_kept(world->bank, &key->result);
    answer(world, call, is_after ? error : shown);
}

/* What is refused before anything runs is not kept. True: it was refused. */
static bool refuses(struct world *world, struct call *call)
{
    struct choices *choices = &world->choices;
    if (choice_strikes(choices, CHOICE_BANK_LIMITS, call->tag)) {
        answer(world, call, plain(OBSERVED_RATE_LIMITED, 429, "rate_limit"));
    } else if (choice_strikes(choices, CHOICE_BANK_REFUSES_US, call->tag)) {
        answer(world, call, plain(OBSERVED_AUTH_REJECTED, 401, "invalid_api_key"));
    } else if (choice_strikes(choices, CHOICE_BANK_REFUSES_REQUEST, call->tag)) {
        answer(world, call, plain(OBSERVED_REQUEST_REJECTED, 400, "parameter_invalid"));
    } else {
        return false;
    }
    return true;
}

static void arrive_create(struct world *world, struct call *call)
{
    if (refuses(world, call)) return;
    struct bank_key *key = find_key(world, call);
    if (key->is_running) {
        world_reach(world, REACHED_IN_PROGRESS);
        answer(world, call, plain(OBSERVED_IN_PROGRESS, 409, "idempotency_key_in_use"));
        return;
    }
    if (key->has_result) {
        struct observation kept = key->result;
        kept.replayed = true;
        answer(world, call, kept);
        return;
    }
    if (call->kind == REQUEST_REPLAY && key->executions == 0)
        world_reach(world, REACHED_REPLAY_WAS_FIRST);
    key->is_running = true;
    struct execution *execution = world_allocate(world, sizeof *execution);
    *execution = (struct execution){ call, key };
    int64_t delay_us = choice_delay_us(&world->choices, CHOICE_EXECUTION, call->tag);
    if (choice_strikes(&world->choices, CHOICE_BANK_SLOW, call->tag)) delay_us += CALL_LIMIT_US;
    world_after(world, delay_us, finish, execution);
}

static void arrive_retrieve(struct world *world, struct call *call)
{
    const struct bank *bank = world->bank;
    if (choice_strikes(&world->choices, CHOICE_LOOKUP_NOT_FOUND, call->tag)) {
        answer(world, call, plain(OBSERVED_NOT_FOUND, 404, "resource_missing"));
        return;
    }
    if (choice_strikes(&world->choices, CHOICE_LOOKUP_FAILS, call->tag)) {
        answer(world, call, plain(OBSERVED_SERVER_ERROR, 500, "api_error"));
        return;
    }
    for (size_t i = 0; i < bank->charge_count; i++) {
        if (strcmp(bank->charges[i].object, call->object) != 0) continue;
        struct observation shown = show(world, &bank->charges[i]);
        shown.http_status = 200;
        answer(world, call, shown);
        return;
    }
    answer(world, call, plain(OBSERVED_NOT_FOUND, 404, "resource_missing"));
}

static void arrive(struct world *world, void *what)
{
    struct call *call = what;
    if (call->is_over) world_reach(world, REACHED_ARRIVED_LATE);
    world_say(world, "  PSP: %s%s%s arrives", request_kind_name((int)call->kind),
              call->is_over ? " (late) " : " ", call->key != NULL ? call->key : call->object);
    if (call->kind == REQUEST_RETRIEVE) {
        arrive_retrieve(world, call);
    } else {
        arrive_create(world, call);
    }
}

static void give_up(struct world *world, void *what)
{
    struct call *call = what;
    if (call->is_over) return;
    call->is_over = true;
    struct observation observation = plain(OBSERVED_TRANSPORT_LOST, 0, "timeout");
    observation.phase = PHASE_SENT;
    observation.source = SOURCE_TRANSPORT;
    call->answered(world, call, &observation);
}

void bank_remember(struct world *world, size_t payment)
{
    const struct database *database = world->database;
    struct bank *bank = world->bank;
    const struct payment_row *row = &database->payments[payment];
    const bool is_routed_there = world->parts->accounts[0].limits.open_attempts_max > 1 &&
                                 strcmp(row->amount.currency.code, "JPY") != 0;
    if (!bank->has_webhooks || !is_routed_there ||
        !choice_strikes(&world->choices, CHOICE_BANK_REMEMBERS, (unsigned)payment)) {
        return;
    }
    struct route_payment view;
    db_route_read(world, row->id, 0, &view);
    const struct call call = { .kind = REQUEST_CREATE,
                               .key = decide_key(world, &view, row->target_id, 1),
                               .amount = row->amount,
                               .tag = (unsigned)payment };
    struct bank_key *key = find_key(world, &call);
    struct charge *charge = charge_card(world, &call);
    charge->is_remembered = true;
    key->executions++;
    key->result = show(world, charge);
    key->has_result = is_kept(bank, &key->result);
}

void bank_call(struct world *world, struct call *call)
{
    struct choices *choices = &world->choices;
    check_send(world, call);
    world_say(world, "%s sends %s %s", call->worker->name, request_kind_name((int)call->kind),
              call->key != NULL ? call->key : call->object);
    if (choice_strikes(choices, CHOICE_CALL_UNSENT, call->tag)) {
        struct observation observation = plain(OBSERVED_UNSENT, 0, "connect_refused");
        observation.phase = PHASE_CONNECT;
        answer_after(world, call, CLOCK_MILLISECOND_US, observation);
        return;
    }
    worker_after(world, call->worker, CALL_LIMIT_US, give_up, call);
    if (choice_strikes(choices, CHOICE_CALL_LOST, call->tag)) return;
    int64_t travel_us = choice_delay_us(choices, CHOICE_TRAVEL, call->tag);
    if (choice_strikes(choices, CHOICE_CALL_LATE, call->tag)) {
        travel_us += choice_delay_us(choices, CHOICE_NAP, call->tag);
    } else if (choice_strikes(choices, CHOICE_CALL_STUCK, call->tag)) {
        travel_us += choice_delay_us(choices, CHOICE_NAP, call->tag);
        call->worker->stands_until_us = world->now_us + travel_us;
    }
    world_after(world, travel_us < LATE_US_MAX ? travel_us : LATE_US_MAX, arrive, call);
}
