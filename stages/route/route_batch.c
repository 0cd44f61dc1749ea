/* stages/route/route_batch.c: see route_batch.h. */
#include "stages/route/route_batch.h"

#include "pipeline/buffer.h"
#include "pipeline/clock.h"
#include "pipeline/hash.h"
#include "pipeline/provider_key.h"
#include "stages/psp_registry.h"

/* How long a count of open attempts is good for: it keeps a full account from filling, no more. */
#define COUNT_AGE_US (CLOCK_SECOND_US / 2)

enum {
    CREATE_NUMBER = 1, /* a payment has one create */
    CREATE_STEP = 1,   /* of one request */
    ENTITY_DECISION = 5,
};

/* --- the desk -------------------------------------------------------------------------------- */

static void add_texts(struct buffer *out, const struct config_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        buffer_add_text(out, texts->items[i]);
        buffer_add_byte(out, ',');
    }
    buffer_add_byte(out, '\n');
}

/* Equal rules have equal names, in every process and after every restart. */
static const char *name_rules(const struct config *config, struct arena *arena)
{
    enum { NAME_BYTES = 6 };
    struct buffer rules = { .arena = arena };
    uint8_t digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE];
    for (size_t i = 0; i < config->account_count; i++) {
        const struct config_account *account = &config->accounts[i];
        buffer_add_text(&rules, account->id);
        buffer_add_byte(&rules, '\n');
        add_texts(&rules, &account->currencies);
        add_texts(&rules, &account->methods);
        add_texts(&rules, &account->token_realms);
        buffer_add_integer(&rules, account->amount_minor_min);
        buffer_add_byte(&rules, '\n');
        buffer_add_integer(&rules, account->amount_minor_max);
        buffer_add_byte(&rules, '\n');
    }
    hash_sha256(buffer_span(&rules), digest);
    return arena_format(arena, "first-%s", hash_hex((struct span){ digest, NAME_BYTES }, hex));
}

enum status route_desk_open(struct route_desk *desk, const struct config *config,
                            const char **out_account)
{
    const size_t count = config->account_count;
    *desk = (struct route_desk){ .config = config };
    desk->accounts = arena_allocate(&desk->arena, count * sizeof *desk->accounts);
    desk->adapters = arena_allocate(&desk->arena, count * sizeof *desk->adapters);
    for (size_t i = 0; i < count; i++) {
        const struct config_account *account = &config->accounts[i];
        desk->accounts[i] =
            (struct route_account){ account->id, account->limits.open_attempts_max, 0 };
        desk->adapters[i] = psp_registry_find(account->psp);
        if (desk->adapters[i] == NULL) {
            *out_account = account->id;
            route_desk_close(desk);
            return STATUS_STOP;
        }
    }
    desk->version = name_rules(config, &desk->arena);
    return STATUS_OK;
}

void route_desk_close(struct route_desk *desk)
{
    arena_finish(&desk->arena);
    *desk = (struct route_desk){ 0 };
}

static enum status refresh_counts(struct route_desk *desk, struct store *store, struct arena *arena)
{
    const int64_t now_us = clock_monotonic_us();
    if (desk->counted_us != 0 && now_us - desk->counted_us < COUNT_AGE_US) return STATUS_OK;
    TRY(route_count_open(store, desk->accounts, desk->config->account_count, arena));
    desk->counted_us = now_us;
    return STATUS_OK;
}

/* --- deciding -------------------------------------------------------------------------------- */

struct round {
    struct route_desk *desk;
    struct arena *arena;
    struct route_candidate *candidates; /* open attempts include what this round gave out */
    struct route_item *items;
    size_t count;
    struct route_writes writes;
};

static const char *copy_text(const char *text, struct arena *arena)
{
    return arena_copy(arena, text, strlen(text));
}

/* The attempt's key, bytes and hash at the chosen account. False: its PSP cannot express it. */
static bool build_attempt(const struct round *round, size_t chosen,
                          const struct route_payment *payment, int ordinal, struct route_take *out)
{
    const struct config *config = round->desk->config;
    const struct psp_ops *psp = round->desk->adapters[chosen];
    const struct provider_key_input input = {
        .installation = config->installation,
        .merchant = payment->merchant,
        .out_trade_no = payment->out_trade_no,
        .operation = OPERATION_CREATE,
        .number = CREATE_NUMBER,
        .ordinal = ordinal,
        .step = CREATE_STEP,
    };
    char key[PROVIDER_KEY_SIZE];
    struct psp_create create = {
        .provider_key =
            copy_text(provider_key_make(&input, psp->capability.key_length_max, key), round->arena),
        .amount = payment->amount,
        .method_type = payment->method_type,
        .method_token = payment->method_token,
        .capture_automatic = payment->capture_automatic,
        .return_url = payment->return_url,
    };
    struct psp_request request;
    if (psp->build_create(&create, round->arena, &request, NULL) != STATUS_OK) return false;
    out->account = config->accounts[chosen].id;
    out->ordinal = ordinal;
    out->provider_key = create.provider_key;
    out->request_bytes = psp_request_encode(&request, round->arena);
    hash_sha256(out->request_bytes, out->request_hash);
    return true;
}

/* The first account that serves and whose adapter can say it. */
static struct route_decision decide_payment(const struct round *round,
                                            const struct route_payment *payment, int ordinal,
                                            struct route_take *out_take)
{
    const size_t count = round->desk->config->account_count;
    for (size_t i = 0; i < count; i++) round->candidates[i].is_inexpressible = false;
    for (;;) {
        const struct route_decision decision = route_decide(payment, round->candidates, count);
        if (decision.verdict != ROUTE_TAKE ||
            build_attempt(round, decision.taken, payment, ordinal, out_take)) {
            return decision;
        }
        round->candidates[decision.taken].is_inexpressible = true;
    }
}

/* What no column tells: of a denial all of it, else who was passed over before the one taken. */
static const char *write_reasons(const struct round *round, const struct route_decision *decision)
{
    const bool is_denial = decision->verdict == ROUTE_DENY;
    const size_t count = is_denial ? round->desk->config->account_count : decision->taken;
    struct value list = { .kind = VALUE_LIST, .count = count };
    list.items = arena_allocate(round->arena, (count + 1) * sizeof *list.items);
    for (size_t i = 0; i < count; i++) {
        list.items[i] = value_map_make(round->arena, 2);
        value_map_add(&list.items[i], "account", value_of_text(round->candidates[i].account->id));
        value_map_add(&list.items[i], "reason",
                      value_of_text(route_reason_name(round->candidates[i].reason)));
    }
    struct value map = value_map_make(round->arena, 2);
    if (is_denial) value_map_add(&map, "reason", value_of_text(decision->reason));
    if (count > 0) value_map_add(&map, "candidates", list);
    return (const char *)value_write_json(&map, round->arena).data;
}

static void take(struct round *round, struct route_item *item, const struct route_take *attempt)
{
    const struct command *command = &item->stage_item->command;
    char subject[SUBJECT_SIZE];
    struct route_take *out = &round->writes.takes[round->writes.take_count++];
    *out = *attempt;
    out->payment = command->payment;
    out->version = item->payment->version;
    out->attempt.uuid = uuid_new();
    out->decision = uuid_new();
    out->reasons = write_reasons(round, &item->decision);
    out->command.uuid = uuid_new();
    out->command_subject = copy_text(subject_create(out->account, subject), round->arena);
    item->next =
        (struct command){ out->command, out->payment, out->attempt.uuid, 1, COMMAND_CREATE };
    item->next_subject = out->command_subject;
    round->candidates[item->decision.taken].open_attempts++;
}

static void deny(struct round *round, struct route_item *item)
{
    const struct command *command = &item->stage_item->command;
    char subject[SUBJECT_SIZE];
    struct route_deny *out = &round->writes.denials[round->writes.denial_count++];
    *out = (struct route_deny){
        .payment = command->payment,
        .version = item->payment->version,
        .follows = (int)command->version,
        .decision = uuid_new(),
        .reasons = write_reasons(round, &item->decision),
        .command = { uuid_new() },
        .command_subject = copy_text(subject_settle(command->payment, subject), round->arena),
    };
    item->next = (struct command){ out->command, out->payment, out->decision, out->follows,
                                   COMMAND_NO_ROUTE };
    item->next_subject = out->command_subject;
}

static void decide_item(struct round *round, struct route_item *item)
{
    struct route_take attempt = { 0 };
    const int ordinal = (int)item->stage_item->command.version + 1;
    item->decision = decide_payment(round, item->payment, ordinal, &attempt);
    switch (item->decision.verdict) {
    case ROUTE_NOTHING:
    case ROUTE_WAIT:
        return;
    case ROUTE_TAKE:
        take(round, item, &attempt);
        return;
    case ROUTE_DENY:
        deny(round, item);
        return;
    }
    UNREACHABLE("route verdict out of range");
}

static void open_round(struct round *round, struct stage_item *const *items)
{
    const struct config *config = round->desk->config;
    const size_t accounts = config->account_count;
    round->items = arena_allocate(round->arena, round->count * sizeof *round->items);
    round->candidates = arena_allocate(round->arena, accounts * sizeof *round->candidates);
    round->writes.takes = arena_allocate(round->arena, round->count * sizeof *round->writes.takes);
    round->writes.denials =
        arena_allocate(round->arena, round->count * sizeof *round->writes.denials);
    for (size_t i = 0; i < round->count; i++) round->items[i].stage_item = items[i];
    for (size_t i = 0; i < accounts; i++) {
        round->candidates[i].account = &config->accounts[i];
        round->candidates[i].open_attempts = round->desk->accounts[i].open_attempts;
    }
}

static enum status read_payments(const struct round *round, struct store *store)
{
    struct route_question *questions =
        arena_allocate(round->arena, round->count * sizeof *questions);
    struct route_payment *payments = NULL;
    for (size_t i = 0; i < round->count; i++) {
        const struct command *command = &round->items[i].stage_item->command;
        questions[i] = (struct route_question){ command->payment, (int)command->version };
    }
    TRY(route_read(store, questions, round->count, round->arena, &payments));
    for (size_t i = 0; i < round->count; i++) round->items[i].payment = &payments[i];
    return STATUS_OK;
}

enum status route_batch_commit(struct route_desk *desk, struct store *store, const char *actor,
                               struct stage_item *const *items, size_t count, struct arena *arena,
                               struct route_item **out_items)
{
    struct round round = { .desk = desk, .arena = arena, .count = count };
    round.writes.actor = actor;
    round.writes.routing_version = desk->version;
    TRY(refresh_counts(desk, store, arena));
    open_round(&round, items);
    TRY(read_payments(&round, store));
    for (size_t i = 0; i < count; i++) decide_item(&round, &round.items[i]);
    TRY(route_write(store, &round.writes, arena));
    for (size_t i = 0; i < desk->config->account_count; i++) {
        desk->accounts[i].open_attempts = round.candidates[i].open_attempts;
    }
    *out_items = round.items;
    return STATUS_OK;
}
