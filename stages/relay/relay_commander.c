/* stages/relay/relay_commander.c: see relay_commander.h. */
#include "stages/relay/relay_commander.h"

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/relay/relay_sweep.h"

enum {
    PAGE_LIMIT = 512,
    STUCK_LIMIT = 512,
    STUCK_WAIT_MS_MAX = 600 * 1000,
    CASE_AFTER = 5, /* times stuck_after (protocol I) */
};
#define ID_AGE_MAX_US (INT64_C(7) * 24 * 3600 * CLOCK_SECOND_US)
/* A message is stored after its row is written, and not all in the order of their rows. */
#define LEFT_MARGIN_US (2 * CLOCK_SECOND_US)
/* For a message that is none of ours: the server's clock and ours may differ. */
#define SKEW_MARGIN_US (10 * CLOCK_SECOND_US)
#define HELD_US (5 * CLOCK_SECOND_US)
#define SAVE_MARKS_US (10 * CLOCK_SECOND_US)

/* --- subjects --------------------------------------------------------------------------------- */

static void add_subject(struct relay_commander *commander, const char *subject, const char *stream,
                        const char *durable, const char *stage)
{
    struct relay_subject *added = &commander->subjects[commander->subject_count++];
    (void)snprintf(added->subject, sizeof added->subject, "%s", subject);
    (void)snprintf(added->durable, sizeof added->durable, "%s", durable);
    added->stream = stream;
    added->stage = stage;
}

void relay_commander_init(struct relay_commander *commander, const struct config *config,
                          struct store *store, struct bus *bus)
{
    *commander = (struct relay_commander){
        .store = store,
        .bus = bus,
        .age_ms = config->relay.command_lag_ms + config->postgres.statement_timeout_ms,
        .stuck_after_us = config->timers.stuck_after_s * CLOCK_SECOND_US,
        .standstill_us = 2 * config->streams.ack_wait_s * CLOCK_SECOND_US,
        .page_limit = PAGE_LIMIT,
        .emit_per_s = config->relay.republish_per_s_max,
    };
    char subject[SUBJECT_SIZE];
    commander->subjects = memory_allocate((2 * SHARD_COUNT + 2 * config->account_count) *
                                          sizeof *commander->subjects);
    for (int shard = 0; shard < SHARD_COUNT; shard++) {
        (void)snprintf(subject, sizeof subject, "pay.route.%d", shard);
        add_subject(commander, subject, "PAY_ROUTE", "route", "route");
        (void)snprintf(subject, sizeof subject, "pay.settle.%d", shard);
        add_subject(commander, subject, "PAY_SETTLE", "settle", "settle");
    }
    for (size_t i = 0; i < config->account_count; i++) {
        const char *account = config->accounts[i].id;
        char durable[SUBJECT_SIZE];
        (void)snprintf(durable, sizeof durable, "%s_new", account);
        add_subject(commander, subject_create(account, subject), "PAY_CREATE", durable, "create");
        add_subject(commander, subject_evidence(account, subject), "PAY_RECOVER", account,
                    "recover");
    }
}

void relay_commander_finish(struct relay_commander *commander)
{
    free(commander->subjects);
    *commander = (struct relay_commander){ 0 };
}

static struct relay_subject *find_subject(const struct relay_commander *commander,
                                          const char *subject)
{
    for (size_t i = 0; i < commander->subject_count; i++) {
        if (strcmp(commander->subjects[i].subject, subject) == 0) return &commander->subjects[i];
    }
    return NULL;
}

enum status relay_commander_start(struct relay_commander *commander, int64_t monotonic_us)
{
    struct arena arena = { NULL };
    const struct relay_position *positions = NULL;
    size_t count = 0;
    const enum status status = relay_store_positions(commander->store, &arena, &positions, &count);
    for (size_t i = 0; i < commander->subject_count && status == STATUS_OK; i++) {
        struct relay_subject *subject = &commander->subjects[i];
        subject->mark_us = 0;
        subject->held_until_us = 0;
        for (size_t j = 0; j < count; j++) {
            if (strncmp(positions[j].name, "command:", 8) == 0 &&
                strcmp(positions[j].name + 8, subject->subject) == 0) {
                subject->mark_us = positions[j].mark_us;
            }
        }
        subject->saved_us = subject->mark_us;
    }
    commander->tokens_us = CLOCK_SECOND_US;
    commander->filled_us = monotonic_us;
    arena_finish(&arena);
    return status;
}

/* --- the cap ---------------------------------------------------------------------------------- */

static int64_t price_us(const struct relay_commander *commander)
{
    const int64_t price = CLOCK_SECOND_US / commander->emit_per_s;
    return price > 0 ? price : 1;
}

static size_t allowance(struct relay_commander *commander, int64_t monotonic_us)
{
    commander->tokens_us += monotonic_us - commander->filled_us;
    commander->filled_us = monotonic_us;
    if (commander->tokens_us > CLOCK_SECOND_US) commander->tokens_us = CLOCK_SECOND_US;
    return commander->tokens_us > 0 ? (size_t)(commander->tokens_us / price_us(commander)) : 0;
}

static void spend(struct relay_commander *commander, size_t count)
{
    commander->tokens_us -= (int64_t)count * price_us(commander);
}

/* --- what is left in the stream --------------------------------------------------------------- */

/* The first message on a subject that somebody will still get (relay_standstill). */
static enum status find_left(struct relay_commander *commander, struct relay_subject *subject,
                             int64_t monotonic_us, struct arena *arena, struct bus_stored *out)
{
    struct bus_consumer_info consumer;
    TRY(bus_stream_find(commander->bus, subject->stream, subject->subject, 1, arena, out));
    const enum status status =
        bus_consumer_info(commander->bus, subject->stream, subject->durable, arena, &consumer);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* made anew, it begins with the first one */
    if (status != STATUS_OK) return status;
    const uint64_t from = relay_standstill_left_from(&subject->still, consumer.ack_floor_sequence,
                                                     consumer.delivered_sequence, monotonic_us,
                                                     commander->standstill_us);
    if (out->sequence >= from) return STATUS_OK;
    return bus_stream_find(commander->bus, subject->stream, subject->subject, from, arena, out);
}

/*
 * When the oldest command was written whose message is left; INT64_MAX: none is; 0: not known now.
 */
static int64_t oldest_left_us(struct relay_commander *commander, struct relay_subject *subject,
                              int64_t monotonic_us, struct arena *arena)
{
    struct bus_stream_info info;
    struct bus_stored stored;
    if (commander->bus == NULL) return INT64_MAX;
    enum status status = bus_stream_info(commander->bus, subject->stream, arena, &info);
    if (status == STATUS_NOT_FOUND) commander->is_stream_missing = true;
    if (status != STATUS_OK) return 0;
    if (info.messages == 0) return INT64_MAX;
    status = find_left(commander, subject, monotonic_us, arena, &stored);
    if (status == STATUS_NOT_FOUND) return INT64_MAX;
    if (status != STATUS_OK) return 0;
    struct outbox_id id;
    char text[UUID_TEXT_SIZE];
    int64_t created_us = 0;
    (void)snprintf(text, sizeof text, "%.36s", stored.message_id == NULL ? "" : stored.message_id);
    if (uuid_parse(text, &id.uuid)) {
        status = relay_command_store_born(commander->store, id, subject->subject, &created_us);
        if (status == STATUS_OK) return created_us - LEFT_MARGIN_US;
        if (status != STATUS_NOT_FOUND) return 0;
    }
    return stored.stored_at_us - SKEW_MARGIN_US;
}

/* --- emitting --------------------------------------------------------------------------------- */

struct emissions {
    struct relay_emission *items;
    size_t count;
};

static void emit(struct emissions *emissions, const char *subject, const struct command *command)
{
    struct relay_emission *emission = &emissions->items[emissions->count++];
    emission->subject = subject;
    emission->entity = relay_command_entity(command->kind);
    emission->command = *command;
    emission->command.outbox.uuid = uuid_new();
}

/* Best effort, after the commit: what does not arrive is looked at again. */
static void publish(struct relay_commander *commander, const struct emissions *emissions,
                    struct arena *arena)
{
    static const struct bus_header HEADERS[] = { { "content-type", "application/msgpack" } };
    struct command batch[COMMAND_BATCH_MAX];
    for (size_t first = 0; first < emissions->count;) {
        const char *subject = emissions->items[first].subject;
        size_t count = 0;
        while (first + count < emissions->count && count < COMMAND_BATCH_MAX &&
               strcmp(emissions->items[first + count].subject, subject) == 0) {
            batch[count] = emissions->items[first + count].command;
            count++;
        }
        char message_id[COMMAND_MESSAGE_ID_SIZE];
        const struct bus_outgoing message = {
            .subject = subject,
            .body = command_batch_encode(batch, count, arena),
            .headers = HEADERS,
            .header_count = COUNT_OF(HEADERS),
            .message_id = command_message_id(batch[0].outbox, 0, message_id),
        };
        if (commander->bus != NULL) bus_publish(commander->bus, &message, &commander->cookie);
        LOG_WARNING("lost commands emitted again", LOG_TEXT("subject", subject),
                    LOG_NUMBER("count", count), LOG_ID("payment", batch[0].payment.uuid));
        metrics_add(METRIC_STAGE_MESSAGES, (int64_t)count,
                    METRICS_LABELS("relay", "emitted_again"));
        first += count;
    }
}

/* --- the sweep -------------------------------------------------------------------------------- */

/* What one sweep wants to write. */
struct harvest {
    struct emissions emissions;
    struct relay_command_mark *marks;
    size_t mark_count;
    struct relay_stuck *stuck;
    size_t stuck_count;
};

static struct relay_stuck stuck_of(const struct relay_command *command,
                                   const struct relay_subject *subject)
{
    return (struct relay_stuck){
        .kind = command->command.kind,
        .entity_id = command->command.entity,
        .version = (int32_t)command->command.version,
        .payment = command->command.payment,
        .subject = subject->subject,
        .stage = subject->stage,
        .account = command->account,
        .state = command->state,
        .since_us = command->since_us,
    };
}

static int64_t floor_us(const struct relay_commander *commander)
{
    int64_t lowest_us = INT64_MAX;
    for (size_t i = 0; i < commander->subject_count; i++) {
        if (commander->subjects[i].mark_us < lowest_us) lowest_us = commander->subjects[i].mark_us;
    }
    return lowest_us > ID_AGE_MAX_US ? lowest_us - ID_AGE_MAX_US : 0;
}

/* The commands of one subject: decides, gathers what is to be written, moves the mark. */
static bool sweep_subject(struct relay_commander *commander, struct relay_subject *subject,
                          const struct relay_command *commands, size_t count, int64_t now_us,
                          int64_t monotonic_us, struct arena *arena, struct harvest *harvest)
{
    struct relay_sweep sweep = {
        .rows = arena_allocate(arena, (count + 1) * sizeof *sweep.rows),
        .count = count,
        .is_full = count >= (size_t)commander->page_limit,
        .horizon_us = now_us - commander->age_ms * 1000,
        .oldest_left_us = INT64_MAX,
        .allowance = allowance(commander, monotonic_us),
    };
    for (size_t i = 0; i < count; i++) {
        sweep.rows[i].created_us = commands[i].created_us;
        sweep.rows[i].is_unmoved = commands[i].is_unmoved && !commands[i].is_known_stuck;
    }
    if (relay_sweep_has_unmoved(&sweep)) {
        sweep.oldest_left_us = oldest_left_us(commander, subject, monotonic_us, arena);
    }
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    for (size_t i = 0; i < count; i++) {
        if (!sweep.rows[i].is_emitted) continue;
        emit(&harvest->emissions, subject->subject, &commands[i].command);
        if (now_us - commands[i].since_us >= commander->stuck_after_us) {
            harvest->stuck[harvest->stuck_count++] = stuck_of(&commands[i], subject);
        }
    }
    spend(commander, end.emitted);
    if (end.mark_us > subject->mark_us) subject->mark_us = end.mark_us;
    if (end.is_left) subject->held_until_us = monotonic_us + HELD_US;
    return sweep.is_full && !end.is_held;
}

/* With new rows their marks are saved at once, else now and then: an idle one moves with time. */
static void gather_marks(struct relay_commander *commander, int64_t monotonic_us,
                         struct harvest *harvest)
{
    const bool is_due = monotonic_us - commander->saved_marks_us >= SAVE_MARKS_US;
    if (harvest->emissions.count == 0 && !is_due) return;
    for (size_t i = 0; i < commander->subject_count; i++) {
        const struct relay_subject *subject = &commander->subjects[i];
        if (subject->mark_us <= subject->saved_us) continue;
        harvest->marks[harvest->mark_count++] =
            (struct relay_command_mark){ subject->subject, subject->mark_us };
    }
    commander->saved_marks_us = monotonic_us;
}

static enum status write_harvest(struct relay_commander *commander, const struct harvest *harvest,
                                 struct arena *arena)
{
    const struct relay_command_end end = {
        .emissions = harvest->emissions.items,
        .emission_count = harvest->emissions.count,
        .marks = harvest->marks,
        .mark_count = harvest->mark_count,
        .stuck = harvest->stuck,
        .stuck_count = harvest->stuck_count,
        .stuck_wait_ms = commander->age_ms,
    };
    TRY(relay_command_store_end(commander->store, &end, arena));
    for (size_t i = 0; i < commander->subject_count && harvest->mark_count > 0; i++) {
        commander->subjects[i].saved_us = commander->subjects[i].mark_us;
    }
    publish(commander, &harvest->emissions, arena);
    return STATUS_OK;
}

/* The subjects that may be looked at now; places tells which they are. */
static size_t open_subjects(const struct relay_commander *commander, int64_t monotonic_us,
                            struct relay_command_mark *marks, size_t *places)
{
    size_t count = 0;
    for (size_t i = 0; i < commander->subject_count; i++) {
        const struct relay_subject *subject = &commander->subjects[i];
        if (monotonic_us < subject->held_until_us) continue;
        places[count] = i;
        marks[count++] = (struct relay_command_mark){ subject->subject, subject->mark_us };
    }
    return count;
}

static enum status sweep_all(struct relay_commander *commander, int64_t monotonic_us,
                             struct arena *arena, bool *out_has_more)
{
    const size_t subjects = commander->subject_count;
    struct relay_command_mark *marks = arena_allocate(arena, (subjects + 1) * sizeof *marks);
    size_t *places = arena_allocate(arena, (subjects + 1) * sizeof *places);
    struct relay_command_page page;
    const size_t open = open_subjects(commander, monotonic_us, marks, places);
    if (open == 0) return STATUS_OK;
    TRY(relay_command_store_page(commander->store, marks, open, commander->age_ms,
                                 commander->page_limit, floor_us(commander), arena, &page));
    TRY(relay_command_store_check(commander->store, page.commands, page.count, arena));
    struct harvest harvest = {
        .emissions = { arena_allocate(arena, (page.count + 1) * sizeof(struct relay_emission)), 0 },
        .marks = arena_allocate(arena, (subjects + 1) * sizeof *harvest.marks),
        .stuck = arena_allocate(arena, (page.count + 1) * sizeof *harvest.stuck),
    };
    size_t first = 0;
    for (size_t i = 0; i < open; i++) {
        size_t count = 0;
        while (first + count < page.count && page.commands[first + count].place == i) count++;
        const bool has_more =
            sweep_subject(commander, &commander->subjects[places[i]], &page.commands[first], count,
                          page.now_us, monotonic_us, arena, &harvest);
        *out_has_more = *out_has_more || has_more;
        first += count;
    }
    gather_marks(commander, monotonic_us, &harvest);
    return write_harvest(commander, &harvest, arena);
}

enum status relay_commander_sweep(struct relay_commander *commander, int64_t monotonic_us,
                                  bool *out_has_more)
{
    struct arena arena = { NULL };
    *out_has_more = false;
    const enum status status = sweep_all(commander, monotonic_us, &arena, out_has_more);
    if (status != STATUS_OK) { /* nothing was written, or that is not known: look again */
        for (size_t i = 0; i < commander->subject_count; i++) {
            commander->subjects[i].mark_us = commander->subjects[i].saved_us;
        }
    }
    arena_finish(&arena);
    return status;
}

/* --- the stuck -------------------------------------------------------------------------------- */

enum { NOT_ASKED = -1 };

/*
 * Is the last command for it still waiting, or one that is older? Then its stage is not there yet.
 */
static bool is_queued(struct relay_commander *commander, const struct relay_stuck *stuck,
                      int64_t monotonic_us, int64_t *oldest_us, struct arena *arena)
{
    struct relay_subject *subject = find_subject(commander, stuck->subject);
    if (subject == NULL) return true; /* its account is not configured any more */
    int64_t *oldest = &oldest_us[subject - commander->subjects];
    if (*oldest == NOT_ASKED) *oldest = oldest_left_us(commander, subject, monotonic_us, arena);
    return *oldest == 0 || *oldest <= stuck->emitted_us;
}

static enum status check_stuck(struct relay_commander *commander, struct relay_stuck *stuck,
                               size_t count, int64_t monotonic_us, struct arena *arena,
                               struct relay_stuck_round *round, struct emissions *emissions)
{
    struct relay_command *commands = arena_allocate(arena, (count + 1) * sizeof *commands);
    struct relay_stuck *moved = arena_allocate(arena, (count + 1) * sizeof *moved);
    struct relay_stuck *again = arena_allocate(arena, (count + 1) * sizeof *again);
    for (size_t i = 0; i < count; i++) {
        commands[i].account = "";
        commands[i].command = (struct command){ .payment = stuck[i].payment,
                                                .entity = stuck[i].entity_id,
                                                .version = stuck[i].version,
                                                .kind = stuck[i].kind };
    }
    TRY(relay_command_store_check(commander->store, commands, count, arena));
    int64_t *oldest_us = arena_allocate(arena, (commander->subject_count + 1) * sizeof *oldest_us);
    for (size_t i = 0; i < commander->subject_count; i++) oldest_us[i] = NOT_ASKED;
    size_t left = allowance(commander, monotonic_us);
    for (size_t i = 0; i < count; i++) {
        if (!commands[i].is_unmoved) {
            moved[round->moved_count++] = stuck[i];
            continue;
        }
        stuck[i].state = commands[i].state;
        stuck[i].is_emitted =
            left > 0 && !is_queued(commander, &stuck[i], monotonic_us, oldest_us, arena);
        if (stuck[i].is_emitted) {
            left--;
            emit(emissions, stuck[i].subject, &commands[i].command);
        }
        again[round->again_count++] = stuck[i];
    }
    round->moved = moved;
    round->again = again;
    return STATUS_OK;
}

static enum status recheck_due(struct relay_commander *commander, int64_t monotonic_us,
                               struct arena *arena)
{
    struct relay_stuck *stuck = NULL;
    size_t count = 0;
    TRY(relay_command_store_due(commander->store, STUCK_LIMIT, arena, &stuck, &count));
    if (count == 0) return STATUS_OK;
    struct relay_stuck_round round = { .wait_ms_min = commander->age_ms,
                                       .wait_ms_max = STUCK_WAIT_MS_MAX };
    struct emissions emissions = {
        arena_allocate(arena, (count + 1) * sizeof(struct relay_emission)), 0
    };
    TRY(check_stuck(commander, stuck, count, monotonic_us, arena, &round, &emissions));
    round.emissions = emissions.items;
    round.emission_count = emissions.count;
    TRY(relay_command_store_round(commander->store, &round, arena));
    spend(commander, emissions.count);
    publish(commander, &emissions, arena);
    return STATUS_OK;
}

static enum status update_cases(struct relay_commander *commander, struct arena *arena)
{
    const struct relay_stuck_case *cases = NULL;
    size_t count = 0;
    TRY(relay_command_store_cases(commander->store, CASE_AFTER * commander->stuck_after_us / 1000,
                                  arena, &cases, &count));
    for (size_t i = 0; i < count; i++) {
        if (cases[i].is_opened) {
            LOG_ERROR("work is stuck, case opened", LOG_TEXT("stage", cases[i].stage),
                      LOG_TEXT("account", cases[i].account), LOG_NUMBER("count", cases[i].count));
        } else {
            LOG_INFO("stuck work moved, case closed", LOG_TEXT("stage", cases[i].stage),
                     LOG_TEXT("account", cases[i].account));
        }
    }
    return STATUS_OK;
}

enum status relay_commander_stuck(struct relay_commander *commander, int64_t monotonic_us)
{
    struct arena arena = { NULL };
    enum status status = recheck_due(commander, monotonic_us, &arena);
    if (status == STATUS_OK) status = update_cases(commander, &arena);
    arena_finish(&arena);
    return status;
}
