/* tests/simulation/parts.c: see parts.h. What the stages share, and who looks for what. */
#include "tests/simulation/parts.h"

#include "tests/simulation/check.h"

static const char *const CURRENCIES[] = { "EUR", "USD" };
static const char *const METHODS[] = { "card" };
static const char *const REALMS[] = { "stripe", "network" };

struct parts *parts_create(void)
{
    return memory_allocate(sizeof(struct parts));
}

void parts_destroy(struct parts *parts)
{
    free(parts);
}

static struct config_account make_account(struct world *world, const char *id)
{
    struct config_account account = {
        .id = id,
        .psp = "simulated",
        .currencies = { CURRENCIES, COUNT_OF(CURRENCIES) },
        .methods = { METHODS, COUNT_OF(METHODS) },
        .token_realms = { REALMS, COUNT_OF(REALMS) },
        .amount_minor_min = 1,
        .amount_minor_max = 1000000,
    };
    /* A small cap in some worlds, so that route has to wait. */
    account.limits.open_attempts_max =
        choice_below(&world->choices, CHOICE_WORLD, 4, 4) == 3 ? 1 : 1000;
    return account;
}

void parts_begin(struct world *world)
{
    struct parts *parts = world->parts;
    const struct config_timers timers = { .replay_until_s = 3600, .pending_age_max_s = 86400 };
    *parts = (struct parts){ .relay = NULL };
    parts->accounts[0] = make_account(world, "main");
    parts->accounts[1] = make_account(world, "backup");
    parts->psp = (struct psp_ops){ .name = "simulated", .capability = world->bank->capability };
    /* config/recovery.yaml, as it is shipped. */
    parts->rule = (struct recovery_rule){
        .strategies = { RECOVERY_RETRIEVE, RECOVERY_IDEMPOTENT_REPLAY, RECOVERY_WAIT_WEBHOOK },
        .strategy_count = 3,
        .delays_ms = { 1000, 2000, 5000, 15000, 60000, 300000, 900000, 3600000 },
        .delay_count = 8,
        .unknown_age_max_s = 24 * 3600,
    };
    parts->policy.rules = &parts->rule;
    parts->policy.rule_count = 1;
    (void)snprintf(parts->policy.version, sizeof parts->policy.version, "1-simulated");
    parts->limits = recovery_limits_of(&timers, &world->bank->capability);
    for (size_t i = 0; i < ACCOUNTS; i++) {
        parts->findings[i] = (struct findings){ .account = &parts->accounts[i],
                                                .psp = &parts->psp,
                                                .policy = &parts->policy };
    }
    memset(parts->clocks, 0, sizeof parts->clocks);
    memset(parts->late_until_us, 0, sizeof parts->late_until_us);
    part_relay_begin(world);
}

void parts_end(struct world *world)
{
    part_relay_end(world);
    while (world->parts->first_finding != NULL) {
        struct finding *finding = world->parts->first_finding;
        world->parts->first_finding = finding->next;
        arena_finish(&finding->arena);
    }
}

void parts_look(struct world *world, struct worker *worker)
{
    switch (worker->stage) {
    case STAGE_INTAKE:
        part_intake_look(world, worker);
        return;
    case STAGE_ROUTE:
        part_route_look(world, worker);
        return;
    case STAGE_CREATE:
        part_create_look(world, worker);
        return;
    case STAGE_RECOVER:
        part_recover_look(world, worker);
        return;
    case STAGE_SETTLE:
        part_settle_look(world, worker);
        return;
    case STAGE_RELAY:
        part_relay_look(world, worker);
        return;
    case STAGE_GATEWAY:
    case STAGE_COUNT:
        return;
    }
    UNREACHABLE("stage out of range");
}

void parts_forget(struct world *world, struct worker *worker)
{
    part_relay_forget(world, worker);
    world->parts->clocks[worker->number] = (struct intake_clock){ .is_known = false };
}

/* --- messages --------------------------------------------------------------------------------- */

struct part_hand *part_hand_take(struct world *world, struct worker *worker, size_t stream)
{
    struct stored_message *message = stream_take(world, stream, worker);
    if (message == NULL) return NULL;
    struct part_hand *hand = world_allocate(world, sizeof *hand);
    *hand = (struct part_hand){ .message = message, .open = message->command_count };
    return hand;
}

void part_hand_done(struct world *world, struct part_hand *hand, int64_t nak_us)
{
    if (nak_us > hand->nak_us) hand->nak_us = nak_us;
    INVARIANT(hand->open > 0);
    if (--hand->open > 0) return;
    if (hand->nak_us > 0) {
        stream_nak(world, hand->message, hand->nak_us);
        return;
    }
    for (size_t i = 0; i < hand->message->command_count; i++)
        check_ack(world, hand->message->stream, &hand->message->commands[i]);
    stream_ack(world, hand->message);
}

void part_free(struct world *world, struct worker *worker)
{
    worker->is_at_work = false;
    worker_look(world, worker, world->now_us);
}

void part_look_later(struct world *world, struct worker *worker, size_t stream)
{
    worker_look(world, worker, stream_next_us(world, stream));
}

/* --- the gateway ------------------------------------------------------------------------------ */

struct gateway_job {
    struct job job;
    size_t account;
    struct observation observation;
    struct inbox_id inbox;
    struct outbox_id command;
    bool is_new;
    void (*answered)(struct world *world, void *owner);
    void *owner;
};

static enum status keep(struct world *world, struct job *job)
{
    struct gateway_job *self = (struct gateway_job *)job;
    self->is_new =
        db_gateway_keep(world, self->inbox, self->account, &self->observation, self->command);
    return STATUS_OK;
}

static void kept(struct world *world, struct job *job, enum status status)
{
    struct gateway_job *self = (struct gateway_job *)job;
    if (status != STATUS_OK) return; /* 503: the PSP comes again */
    self->answered(world, self->owner);
    if (!self->is_new) return;
    const struct command command = { .outbox = self->command,
                                     .entity = self->inbox.uuid,
                                     .kind = COMMAND_EVIDENCE };
    stream_publish_commands(world, STREAM_RECOVER + self->account, &command, 1);
}

void part_gateway_receive(struct world *world, size_t account,
                          const struct observation *observation,
                          void (*answered)(struct world *world, void *owner), void *owner)
{
    struct worker *worker = &world->workers[STAGE_GATEWAY * WORKERS_PER_STAGE];
    struct gateway_job *job = (struct gateway_job *)job_create(world, worker, sizeof *job);
    job->account = account;
    job->observation = *observation;
    job->inbox.uuid = world_id(world);
    job->command.uuid = world_id(world);
    job->answered = answered;
    job->owner = owner;
    job_write(world, &job->job, keep, kept);
}
