/*
 * stages/intake/intake_handle.c: see intake_handle.h. Redis never refuses, never acks and never
 * decides here: it hands a message back for a moment, or lets an answer go out early.
 */
#include "stages/intake/intake_handle.h"

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/intake/intake_batch.h"

enum {
    HOLD_MS = 400,         /* handed back for 200 to 400 ms */
    LOOKS_AFTER_LOSS = 32, /* batches that are looked up after one that was not, and lost */
};

/* A valid item's look into the cache. Items with one key share the claim of the first. */
struct look {
    struct cache_claim *claim;
    bool is_owner; /* the claim was made for this item */
    enum cache_verdict verdict;
    struct intake_answer early; /* CACHE_ANSWERED: was sent before PostgreSQL was asked */
};

struct round {
    struct stage *stage;
    struct intake_memory *memory;
    struct intake_batch batch;
    struct look *looks;         /* per item */
    struct cache_claim *claims; /* count of them are in use */
    size_t claim_count;
};

/* --- Redis in front -------------------------------------------------------------------------- */

static struct cache_key cache_key_of(const struct pay_request *request)
{
    struct cache_key key = { .merchant = request->merchant,
                             .operation = request_operation_name(REQUEST_OPERATION_PAY) };
    memcpy(key.key_hash, request->key_hash, sizeof key.key_hash);
    return key;
}

static bool claim_is_for(const struct cache_claim *claim, const struct pay_request *request)
{
    return memcmp(claim->key.key_hash, request->key_hash, sizeof claim->key.key_hash) == 0 &&
           strcmp(claim->key.merchant, request->merchant) == 0;
}

static struct cache_claim *claim_find(const struct round *round, const struct pay_request *request)
{
    for (size_t i = 0; i < round->claim_count; i++) {
        if (claim_is_for(&round->claims[i], request)) return &round->claims[i];
    }
    return NULL;
}

static struct cache_claim *claim_add(struct round *round, const struct intake_item *item)
{
    const struct pay_request *request = &item->request;
    struct cache_claim *claim = &round->claims[round->claim_count++];
    *claim = (struct cache_claim){
        .key = cache_key_of(request),
        .owner = arena_format(round->batch.arena, INTAKE_STREAM ".%" PRIu64,
                              item->stage_item->message->stream_sequence),
    };
    memcpy(claim->fingerprint, request->fingerprint, sizeof claim->fingerprint);
    return claim;
}

static void prepare_look(struct round *round, size_t index)
{
    const struct intake_item *item = &round->batch.items[index];
    struct look *look = &round->looks[index];
    look->claim = claim_find(round, &item->request);
    if (look->claim != NULL) return;
    look->claim = claim_add(round, item);
    look->is_owner = true;
}

static void take_verdict(struct round *round, size_t index)
{
    struct intake_item *item = &round->batch.items[index];
    struct look *look = &round->looks[index];
    const struct cache_claim *claim = look->claim;
    const bool is_same =
        memcmp(claim->fingerprint, item->request.fingerprint, sizeof claim->fingerprint) == 0;
    look->verdict = is_same ? claim->verdict : CACHE_UNKNOWN;
    item->is_held_back = look->verdict == CACHE_HELD;
    int64_t expires_us = 0;
    if (look->verdict == CACHE_ANSWERED &&
        (!intake_answer_decode(claim->answer, round->batch.arena, &look->early, &expires_us) ||
         expires_us <= intake_clock_latest(&round->memory->clock, clock_monotonic_us()))) {
        look->verdict = CACHE_UNKNOWN;
    }
}

static void look_into_cache(struct round *round)
{
    const struct intake_batch *batch = &round->batch;
    round->looks = arena_allocate(batch->arena, batch->count * sizeof *round->looks);
    round->claims = arena_allocate(batch->arena, batch->count * sizeof *round->claims);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->items[i].is_valid) prepare_look(round, i);
    }
    if (round->claim_count == 0) return;
    cache_claim_keys(round->stage->cache, round->claims, round->claim_count, batch->arena);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->items[i].is_valid) take_verdict(round, i);
    }
}

/* --- answering ------------------------------------------------------------------------------- */

enum { REPLY_HEADER_MAX = EVENT_STORED_MAX + 2, STATUS_TEXT_SIZE = 12 };

/* The reply to item's producer with this answer; false if nobody waits. */
static bool make_reply(const struct intake_item *item, const struct intake_answer *answer,
                       bool is_replay, struct arena *arena, struct bus_outgoing *out)
{
    struct event_headers stored;
    if (item->envelope.reply_to == NULL) return false;
    if (event_headers_decode(answer->headers, arena, &stored) != STATUS_OK) {
        LOG_ERROR("a stored answer has unreadable headers",
                  LOG_TEXT("merchant", item->envelope.merchant));
        return false;
    }
    struct bus_header *headers = arena_allocate(arena, REPLY_HEADER_MAX * sizeof *headers);
    memcpy(headers, stored.items, stored.count * sizeof *headers);
    size_t count = stored.count;
    headers[count++] =
        (struct bus_header){ ANSWER_STATUS_HEADER, arena_format(arena, "%d", answer->status) };
    if (is_replay) headers[count++] = (struct bus_header){ "idempotent-replayed", "true" };
    *out = (struct bus_outgoing){
        .subject = item->envelope.reply_to,
        .body = answer->body,
        .headers = headers,
        .header_count = count,
    };
    return true;
}

/* A committed answer goes out before PostgreSQL is asked; only the ack waits for that. */
static void reply_early(struct round *round)
{
    for (size_t i = 0; i < round->batch.count; i++) {
        struct bus_outgoing reply;
        if (round->looks[i].verdict != CACHE_ANSWERED) continue;
        if (!make_reply(&round->batch.items[i], &round->looks[i].early, true, round->batch.arena,
                        &reply))
            continue;
        if (bus_publish_core(round->stage->bus, &reply) != STATUS_OK) {
            round->looks[i].verdict = CACHE_UNKNOWN; /* it goes out after the read */
        }
    }
}

static bool was_replied(const struct look *look, const struct intake_answer *answer)
{
    return look->verdict == CACHE_ANSWERED && look->early.status == answer->status &&
           span_equal(look->early.body, answer->body);
}

static bool item_is_replay(const struct intake_item *item)
{
    return item->is_valid && item->decision.verdict == INTAKE_REPLAY;
}

static void announce_item(struct round *round, size_t index)
{
    const struct intake_item *item = &round->batch.items[index];
    struct bus_outgoing reply;
    if (!was_replied(&round->looks[index], &item->answer) &&
        make_reply(item, &item->answer, item_is_replay(item), round->batch.arena, &reply)) {
        stage_announce_reply(round->stage, &reply);
    }
    if (item->problem.code != PROBLEM_NONE) stage_announce_events(round->stage);
    if (item->is_valid && item->decision.verdict == INTAKE_NEW) {
        char subject[SUBJECT_SIZE];
        stage_announce(
            round->stage, subject_route(item->payment, subject),
            (struct command){ item->command, item->payment, item->payment.uuid, 0, COMMAND_ROUTE });
        stage_announce_events(round->stage);
    }
}

static const char *verdict_name(const struct intake_item *item)
{
    if (item->is_valid) return intake_verdict_name(item->decision.verdict);
    return item->problem.code == PROBLEM_NOT_SUPPORTED ? "not_supported" : "rejected";
}

static void dispose(struct round *round, size_t index)
{
    const struct intake_item *item = &round->batch.items[index];
    struct stage_item *stage_item = item->stage_item;
    if (item->is_valid && item->is_held_back) {
        stage_item->disposal = STAGE_HAND_BACK;
        stage_item->delay_ms = stage_jitter_ms(HOLD_MS);
        return;
    }
    if (!intake_item_is_answered(item)) {
        stage_item->disposal = STAGE_LATER;
        return;
    }
    stage_item->disposal = STAGE_DONE;
    stage_item->verdict = verdict_name(item);
    announce_item(round, index);
    if (!item->is_valid) return;
    if (item->decision.verdict == INTAKE_REPLAY) metrics_add(METRIC_IDEMPOTENCY_HITS, 1, NULL);
    if (item->decision.verdict == INTAKE_CONFLICT)
        metrics_add(METRIC_IDEMPOTENCY_CONFLICTS, 1, NULL);
}

/* --- the cache after the commit -------------------------------------------------------------- */

/* Answers replace placeholders; a key without an answer is let go. A twin keeps its placeholder. */
static void update_cache(struct round *round)
{
    const struct intake_batch *batch = &round->batch;
    struct cache_answer *answers = arena_allocate(batch->arena, batch->count * sizeof *answers);
    struct cache_claim *released = arena_allocate(batch->arena, batch->count * sizeof *released);
    const int64_t now_us = intake_clock_latest(&round->memory->clock, clock_monotonic_us());
    size_t answer_count = 0;
    size_t released_count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct intake_item *item = &batch->items[i];
        if (!item->is_valid || !intake_item_is_answered(item) ||
            round->looks[i].verdict == CACHE_ANSWERED)
            continue;
        const int64_t expires_us = intake_answer_expires(
            &item->decision, item->found, item->merchant->key_lifetime_h * 3600 * CLOCK_SECOND_US);
        if (expires_us > now_us) {
            struct cache_answer *answer = &answers[answer_count++];
            *answer = (struct cache_answer){
                .key = cache_key_of(&item->request),
                .answer = intake_answer_encode(&item->answer, expires_us, batch->arena),
                .lifetime_ms = (expires_us - now_us) / CLOCK_MILLISECOND_US,
            };
            memcpy(answer->fingerprint, item->request.fingerprint, sizeof answer->fingerprint);
        } else if (round->looks[i].is_owner && round->looks[i].verdict == CACHE_PLACED) {
            released[released_count++] = *round->looks[i].claim;
        }
    }
    if (answer_count > 0) cache_store_answers(round->stage->cache, answers, answer_count);
    if (released_count > 0) cache_release_keys(round->stage->cache, released, released_count);
}

/* --- unseen ---------------------------------------------------------------------------------- */

/* The database's clock if all that is valid is new to Redis; 0: the batch is to be looked up. */
static int64_t unseen_now(const struct round *round)
{
    struct intake_memory *memory = round->memory;
    if (memory->looks_due > 0) {
        memory->looks_due--;
        return 0;
    }
    for (size_t i = 0; i < round->batch.count; i++) {
        if (round->batch.items[i].is_valid && round->looks[i].verdict != CACHE_PLACED) return 0;
    }
    return intake_clock_earliest(&memory->clock, clock_monotonic_us());
}

/* Every item's read was one statement, between asked_us and heard_us. */
static void note_clock(const struct round *round, int64_t asked_us, int64_t heard_us)
{
    for (size_t i = 0; i < round->batch.count; i++) {
        const struct intake_found *found = round->batch.items[i].found;
        if (found == NULL) continue;
        intake_clock_note(&round->memory->clock, asked_us, heard_us, found->now_us);
        return;
    }
}

enum status intake_handle(struct stage *stage, void *self, struct stage_item *const *items,
                          size_t count, struct arena *arena)
{
    struct round round = {
        .stage = stage,
        .memory = self,
        .batch = {
            .config = &stage->config,
            .actor = stage->actor,
            .arena = arena,
        },
    };
    intake_batch_read(&round.batch, items, count);
    look_into_cache(&round);
    reply_early(&round);
    round.batch.unseen_now_us = unseen_now(&round);
    const int64_t asked_us = clock_monotonic_us();
    const enum status status = intake_batch_commit(&round.batch, stage->store);
    if (round.batch.was_seen && round.batch.unseen_now_us != 0) {
        round.memory->looks_due = LOOKS_AFTER_LOSS;
    }
    if (status != STATUS_OK) return status;
    if (round.batch.was_seen) note_clock(&round, asked_us, clock_monotonic_us());
    for (size_t i = 0; i < count; i++) dispose(&round, i);
    update_cache(&round);
    return STATUS_OK;
}
