/*
 * stages/stage_loop.c: the batch loop of intake, route and settle (stage.h). Nothing is acked
 * before what it asked for is committed; nothing is published before either. Idle, one message is a
 * batch, at once; loaded, batches grow, and who does not keep up waits a moment for more.
 */
#include <poll.h>

#include "pipeline/case.h"
#include "pipeline/clock.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/kept_message.h"
#include "stages/stage.h"
#include "stages/twins.h"
#include "store/stage_store.h"

enum {
    LOST_RACES_MAX = 8,         /* then the messages are handed back for a moment */
    RETRIES_MAX = 6,            /* in place; then handed back */
    SINGLED_OUT_DELIVERIES = 3, /* above: handled alone, with counted trials (protocol H6) */
    TRIALS_MAX = 5,             /* then a dead letter */
    NEWER_SCHEMA_DELAY_MS = 5000,
    TAKEN_MAX = 512, /* messages in hand at once */
    LINGER_MS = 5,
    MESSAGE_NAME_SIZE = 128,
};

/* A message in hand and what has become of its items. */
struct hand {
    struct bus_message message;
    size_t first_item;
    size_t item_count;
};

struct loop {
    struct stage *stage;
    const struct stage_work *work;
    struct bus_consumer *consumer;
    struct arena arena;
    struct hand hands[TAKEN_MAX];
    size_t hand_count;
    struct stage_item *items;
    size_t item_count;
    bool is_pressed; /* something waited already when the batch before was done */
    bool is_store_away;
    enum status fatal; /* STATUS_STOP: code and schema disagree */
};

static const char *disposal_name(enum stage_disposal disposal)
{
    switch (disposal) {
    case STAGE_DONE:
        return "done";
    case STAGE_LATER:
        return "later";
    case STAGE_HAND_BACK:
        return "hand_back";
    case STAGE_DEAD_LETTER:
        return "dead_letter";
    }
    UNREACHABLE("disposal out of range");
}

static void hand_back(struct stage_item *item, int64_t delay_ms)
{
    item->disposal = STAGE_HAND_BACK;
    item->delay_ms = stage_jitter_ms(delay_ms);
    item->verdict = NULL;
}

static void hand_back_all(struct stage_item *const *items, size_t count, int64_t delay_ms)
{
    for (size_t i = 0; i < count; i++) hand_back(items[i], delay_ms);
}

/* "PAY_INTAKE.4711.1764500000000000", or the command's outbox id: what a trial is counted under. */
static const char *item_name(const struct loop *loop, const struct stage_item *item,
                             char name[MESSAGE_NAME_SIZE])
{
    if (loop->work->has_commands && !uuid_is_nil(item->command.outbox.uuid)) {
        return uuid_format(item->command.outbox.uuid, name);
    }
    (void)snprintf(name, MESSAGE_NAME_SIZE, "%s.%" PRIu64 ".%" PRId64, loop->work->stream,
                   item->message->stream_sequence, item->message->stored_at_us);
    return name;
}

/* --- deciding ------------------------------------------------------------------------------ */

static void note_store(struct loop *loop, enum status status)
{
    const bool is_away = status == STATUS_RETRY && !store_is_connected(loop->stage->store);
    if (is_away == loop->is_store_away) return;
    loop->is_store_away = is_away;
    health_set(loop->stage->health, "postgres",
               is_away ? store_last_error(loop->stage->store)->message : NULL);
    if (is_away) {
        LOG_WARNING("PostgreSQL is away, waiting",
                    LOG_TEXT("why", store_last_error(loop->stage->store)->message));
    } else {
        LOG_INFO("PostgreSQL is back");
    }
}

static void keep_in_hand(const struct loop *loop)
{
    for (size_t i = 0; i < loop->hand_count; i++) bus_in_progress(&loop->hands[i].message);
}

/* Infrastructure fault number n in a row: waits here with jitter. False: enough, hand back. */
static bool wait_before_retry(struct loop *loop, int retries)
{
    if (stage_stop || retries >= RETRIES_MAX) return false;
    int64_t wait_ms = loop->work->limits->retry_ms_min << retries;
    if (wait_ms > loop->work->limits->retry_ms_max) wait_ms = loop->work->limits->retry_ms_max;
    (void)poll(NULL, 0, (int)stage_jitter_ms(wait_ms));
    keep_in_hand(loop);
    return true;
}

static void fail_alone(struct loop *loop, struct stage_item *item);

/* "intake.after_commit_before_publish", "intake.before_ack" … (crash_point.h). */
static void stage_crash_point(const struct stage *stage, const char *where)
{
#ifdef ONCEPAY_CRASH_POINTS
    char name[64];
    (void)snprintf(name, sizeof name, "%s.%s", stage->name, where);
    crash_point(name);
#else
    (void)stage;
    (void)where;
#endif
}

/* Commits the items: whole if possible, in halves where data is at fault (protocol H4). */
static void decide(struct loop *loop, struct stage_item *const *items, size_t count)
{
    int races = 0;
    int retries = 0;
    for (;;) {
        stage_announce_forget(loop->stage);
        for (size_t i = 0; i < count; i++) {
            items[i]->disposal = STAGE_DONE;
            items[i]->is_refused = false;
            items[i]->verdict = NULL;
        }
        const enum status status =
            loop->work->handle(loop->stage, loop->work->self, items, count, &loop->arena);
        note_store(loop, status);
        switch (status) {
        case STATUS_OK:
            stage_crash_point(loop->stage, "after_commit_before_publish");
            stage_announce_send(loop->stage);
            return;
        case STATUS_LOST_RACE:
        case STATUS_NOT_FOUND:
            if (++races <= LOST_RACES_MAX) continue;
            hand_back_all(items, count, 200);
            break;
        case STATUS_RETRY:
            if (wait_before_retry(loop, retries++)) continue;
            hand_back_all(items, count, 2000);
            break;
        case STATUS_BAD_DATA:
            if (count == 1) {
                fail_alone(loop, items[0]);
            } else {
                decide(loop, items, count / 2);
                decide(loop, items + count / 2, count - count / 2);
                return;
            }
            break;
        case STATUS_STOP:
            LOG_ERROR("code and schema disagree",
                      LOG_TEXT("statement", store_last_error(loop->stage->store)->statement),
                      LOG_TEXT("sqlstate", store_last_error(loop->stage->store)->sqlstate),
                      LOG_TEXT("why", store_last_error(loop->stage->store)->message));
            loop->fatal = STATUS_STOP;
            hand_back_all(items, count, 5000);
            break;
        }
        stage_announce_forget(loop->stage);
        return;
    }
}

/* One item that PostgreSQL refuses as data: counted trials, then a dead letter with a case. */
static void fail_alone(struct loop *loop, struct stage_item *item)
{
    char name[MESSAGE_NAME_SIZE];
    const struct store_error *error = store_last_error(loop->stage->store);
    LOG_ERROR("refused as data", LOG_TEXT("message", item_name(loop, item, name)),
              LOG_ID("payment", item->command.payment.uuid), LOG_TEXT("sqlstate", error->sqlstate),
              LOG_TEXT("constraint", error->constraint), LOG_TEXT("statement", error->statement),
              LOG_TEXT("why", error->message));
    item->is_refused = true;
    hand_back(item, 1000);
    if (item->trials == 0 && delivery_trial_note(loop->stage->store, loop->work->durable, name,
                                                 &loop->arena, &item->trials) != STATUS_OK) {
        return;
    }
    if (item->trials < TRIALS_MAX) return;
    item->disposal = STAGE_DEAD_LETTER;
    item->with_case = true;
    item->problem = (struct problem){ PROBLEM_INTERNAL, NULL, "the database refuses this as data" };
}

static void forget_trials(struct loop *loop, const struct stage_item *item)
{
    char name[MESSAGE_NAME_SIZE];
    (void)!delivery_trial_clear(loop->stage->store, loop->work->durable,
                                item_name(loop, item, name), &loop->arena);
}

/* --- rounds -------------------------------------------------------------------------------- */

/* The next round of pending items, in order, one per payment. Returns how many. */
static size_t next_round(const struct loop *loop, struct stage_item **pending, size_t pending_count,
                         struct stage_item **round, size_t *out_left)
{
    static struct twins twins;
    twins_clear(&twins);
    const size_t batch_max = (size_t)loop->work->limits->batch_max;
    const size_t limit = batch_max < TWINS_MAX ? batch_max : TWINS_MAX;
    size_t count = 0;
    size_t left = 0;
    for (size_t i = 0; i < pending_count; i++) {
        struct stage_item *item = pending[i];
        const bool is_single = !loop->work->has_commands || uuid_is_nil(item->command.payment.uuid);
        if (count < limit && (is_single || twins_add(&twins, item->command.payment.uuid))) {
            round[count++] = item;
        } else {
            pending[left++] = item;
        }
    }
    *out_left = left;
    return count;
}

static void decide_rounds(struct loop *loop, struct stage_item **pending, size_t count)
{
    struct stage_item **round = arena_allocate(&loop->arena, (count + 1) * sizeof *round);
    while (count > 0) {
        size_t left = 0;
        const size_t round_count = next_round(loop, pending, count, round, &left);
        INVARIANT(round_count > 0);
        const int64_t started_us = clock_monotonic_us();
        decide(loop, round, round_count);
        metrics_observe(METRIC_STAGE_BATCH, clock_monotonic_us() - started_us, NULL);
        size_t later = 0;
        for (size_t i = 0; i < round_count; i++) {
            if (round[i]->disposal == STAGE_LATER) pending[left + later++] = round[i];
        }
        INVARIANT(later < round_count);
        count = left + later;
    }
}

/* --- messages ------------------------------------------------------------------------------ */

static void add_item(struct loop *loop, struct stage_item item)
{
    loop->items[loop->item_count++] = item;
}

/* Turns the messages in hand into items. Items of undecodable messages get their disposal here. */
static void decode(struct loop *loop)
{
    const size_t room = loop->hand_count * (loop->work->has_commands ? COMMAND_BATCH_MAX : 1);
    loop->items = arena_allocate(&loop->arena, (room + 1) * sizeof *loop->items);
    loop->item_count = 0;
    for (size_t i = 0; i < loop->hand_count; i++) {
        struct hand *hand = &loop->hands[i];
        hand->first_item = loop->item_count;
        struct stage_item item = { .message = &hand->message };
        const struct command *commands = NULL;
        size_t count = 0;
        if (!loop->work->has_commands) {
            add_item(loop, item);
        } else {
            switch (command_batch_decode(hand->message.body, &loop->arena, &commands, &count)) {
            case COMMAND_READ:
                for (size_t c = 0; c < count; c++) {
                    item.command = commands[c];
                    add_item(loop, item);
                }
                break;
            case COMMAND_NEWER:
                if (stage_newer_is_too_old(loop->stage, &hand->message)) {
                    item.disposal = STAGE_DEAD_LETTER;
                    item.with_case = true;
                    item.problem = (struct problem){ PROBLEM_UNKNOWN_VERSION, NULL,
                                                     "nobody here reads this schema version" };
                } else {
                    item.disposal = STAGE_HAND_BACK;
                    item.delay_ms = stage_jitter_ms(NEWER_SCHEMA_DELAY_MS);
                }
                add_item(loop, item);
                break;
            case COMMAND_MALFORMED:
                item.disposal = STAGE_DEAD_LETTER;
                item.with_case = true;
                item.problem = (struct problem){ PROBLEM_NOT_MSGPACK, NULL,
                                                 "a stage message that cannot be read" };
                add_item(loop, item);
                break;
            }
        }
        hand->item_count = loop->item_count - hand->first_item;
    }
}

/* A message that came back again and again: each item alone, with its trial committed first. */
static void decide_singled_out(struct loop *loop, struct stage_item *item)
{
    char name[MESSAGE_NAME_SIZE];
    const enum status status =
        delivery_trial_note(loop->stage->store, loop->work->durable, item_name(loop, item, name),
                            &loop->arena, &item->trials);
    note_store(loop, status);
    if (status != STATUS_OK) {
        hand_back(item, 2000);
        return;
    }
    if (item->trials > TRIALS_MAX) {
        item->disposal = STAGE_DEAD_LETTER;
        item->with_case = true;
        item->problem =
            (struct problem){ PROBLEM_INTERNAL, NULL, "handling it did not end in five trials" };
        return;
    }
    decide(loop, &item, 1);
    /* It ended: a hand-back for a reason is no trial. */
    if (!item->is_refused) forget_trials(loop, item);
}

/* False: it could not be kept now, so the message must come again. */
static bool keep_dead_letter(struct loop *loop, const struct stage_item *item)
{
    const struct value problem = problem_value(&item->problem, 0, &loop->arena);
    const char *content_header = bus_message_header(item->message, "content-type");
    enum content_type content = CONTENT_JSON;
    struct kept_message kept;
    if (loop->work->has_commands) {
        kept_message_of_commands(item->message, &loop->arena, &kept);
    } else {
        if (content_header != NULL) (void)content_type_parse(content_header, &content);
        kept_message_of_request(item->message, content, &loop->arena, &kept);
    }
    const struct dead_letter letter = {
        .id = kept_message_id(item->message, item->command.outbox.uuid),
        .consumer = loop->work->durable,
        .subject = kept.subject,
        .sequence = item->message->stream_sequence,
        .deliveries = item->message->deliveries,
        .headers = kept.headers,
        .body = kept.body,
        .method_token = kept.method_token,
        .code = problem_word(item->problem.code),
        .field = item->problem.field,
        .problem = (const char *)value_write_json(&problem, &loop->arena).data,
        .payment = item->command.payment,
        .case_id = item->with_case ? (struct case_id){ uuid_new() } : (struct case_id){ { { 0 } } },
        .stored_at_us = item->message->stored_at_us,
    };
    const enum status status = dead_letter_write(loop->stage->store, &letter, &loop->arena);
    note_store(loop, status);
    if (status != STATUS_OK) return false;
    if (item->trials > 0) forget_trials(loop, item);
    LOG_WARNING("dead letter", LOG_ID("dead_letter", letter.id),
                LOG_ID("payment", letter.payment.uuid), LOG_TEXT("code", letter.code),
                LOG_TEXT("field", letter.field));
    return true;
}

static void dispose(struct loop *loop, struct hand *hand)
{
    int64_t delay_ms = -1;
    bool all_dead = true;
    for (size_t i = 0; i < hand->item_count; i++) {
        struct stage_item *item = &loop->items[hand->first_item + i];
        if (item->disposal == STAGE_DEAD_LETTER && !keep_dead_letter(loop, item))
            hand_back(item, 2000);
        if (item->disposal == STAGE_HAND_BACK && item->delay_ms > delay_ms)
            delay_ms = item->delay_ms;
        all_dead = all_dead && item->disposal == STAGE_DEAD_LETTER;
        metrics_add(METRIC_STAGE_MESSAGES, 1,
                    METRICS_LABELS(loop->stage->name, item->verdict != NULL
                                                          ? item->verdict
                                                          : disposal_name(item->disposal)));
    }
    if (delay_ms >= 0) {
        bus_nak(&hand->message, delay_ms); /* whole: what is done already is a no-op then */
    } else if (all_dead && hand->item_count > 0) {
        bus_term(&hand->message);
    } else {
        bus_ack(&hand->message);
    }
}

static void handle_taken(struct loop *loop)
{
    decode(loop);
    struct stage_item **pending =
        arena_allocate(&loop->arena, (loop->item_count + 1) * sizeof *pending);
    size_t count = 0;
    for (size_t i = 0; i < loop->item_count; i++) {
        struct stage_item *item = &loop->items[i];
        if (item->disposal != STAGE_DONE) continue;
        if (item->message->deliveries > SINGLED_OUT_DELIVERIES) {
            decide_singled_out(loop, item);
        } else {
            pending[count++] = item;
        }
    }
    decide_rounds(loop, pending, count);
    stage_crash_point(loop->stage, "before_ack");
    for (size_t i = 0; i < loop->hand_count; i++) dispose(loop, &loop->hands[i]);
}

/*
 * Takes what waits, up to about one transaction's worth. A transaction of many costs little more
 * than one of few: who does not keep up takes a moment later, and more; who was idle, at once.
 */
static void take(struct loop *loop)
{
    loop->hand_count = 0;
    size_t items = 0;
    const size_t items_max = (size_t)loop->work->limits->batch_max;
    bool has_lingered = !loop->is_pressed;
    while (loop->hand_count < TAKEN_MAX && items < items_max) {
        struct hand *hand = &loop->hands[loop->hand_count];
        if (bus_consumer_take(loop->consumer, 1, &hand->message) == 0) {
            if (has_lingered || items == 0) return;
            has_lingered = true;
            (void)poll(NULL, 0, LINGER_MS);
            continue;
        }
        loop->hand_count++;
        /* A command is some 60 bytes; decoding twice would cost more than this guess. */
        items += loop->work->has_commands ? 1 + hand->message.body.length / 64 : 1;
    }
}

static void report_lag(struct loop *loop)
{
    struct bus_lag lag;
    bus_consumer_lag(loop->consumer, &lag);
    metrics_set(METRIC_STAGE_LAG, (int64_t)(lag.pending + lag.ack_pending),
                METRICS_LABELS(loop->stage->name));
}

/* While PostgreSQL is away nothing is pulled; a cheap look decides when to go on. */
static void wait_for_store(struct loop *loop)
{
    bus_consumer_pause(loop->consumer, true);
    store_service(loop->stage->store, clock_monotonic_us());
    if (store_is_connected(loop->stage->store)) {
        note_store(loop, STATUS_OK);
        bus_consumer_pause(loop->consumer, false);
    } else {
        (void)poll(NULL, 0, 50);
    }
}

/* Idle, nothing else would tell that the connection is gone. */
static void look_at_store(struct loop *loop)
{
    struct store *store = loop->stage->store;
    if (loop->is_store_away || !store_is_connected(store)) return;
    store_service(store, clock_monotonic_us());
    if (!store_is_connected(store)) note_store(loop, STATUS_RETRY);
}

int stage_run(struct stage *stage, const struct stage_work *work)
{
    int exit_code = 0;
    struct loop *loop = memory_allocate(sizeof *loop);
    *loop = (struct loop){ .stage = stage, .work = work, .fatal = STATUS_OK };
    loop->consumer = stage_consumer_open(stage, work->stream, work->durable, &exit_code);
    while (loop->consumer != NULL && !stage_stop && loop->fatal == STATUS_OK) {
        const enum status status =
            bus_consumer_want(loop->consumer, (size_t)work->limits->queue_max);
        health_set(stage->health, work->durable,
                   status == STATUS_OK ? NULL : bus_consumer_problem(loop->consumer));
        if (status == STATUS_STOP) {
            exit_code = 3;
            break;
        }
        report_lag(loop);
        if (loop->is_store_away) wait_for_store(loop);
        loop->is_pressed = bus_consumer_queued(loop->consumer) > 0;
        if (!loop->is_pressed) bus_wait(stage->bus, BUS_TICK_MS);
        bus_wakeup_clear(stage->bus);
        take(loop);
        if (loop->hand_count > 0) {
            handle_taken(loop);
        } else {
            look_at_store(loop);
        }
        arena_reset(&loop->arena);
    }
    if (loop->consumer != NULL) {
        bus_consumer_drain(loop->consumer, 2000);
        (void)!bus_publish_flush(stage->bus, 2000);
        bus_consumer_close(loop->consumer);
    }
    if (loop->fatal == STATUS_STOP) exit_code = 3;
    arena_finish(&loop->arena);
    free(loop);
    LOG_INFO("stopped", LOG_NUMBER("exit_code", exit_code));
    return exit_code;
}
