/* stages/intake/intake_batch.c: see intake_batch.h. */
#include "stages/intake/intake_batch.h"

#include "stages/intake/intake_render.h"

/* --- reading --------------------------------------------------------------------------------- */

static bool refuse(struct intake_item *item, enum problem_code code, const char *field,
                   const char *detail)
{
    item->problem = (struct problem){ code, field, detail };
    return false;
}

static bool read_item(const struct intake_batch *batch, struct intake_item *item)
{
    struct request_envelope *envelope = &item->envelope;
    const struct bus_message *message = item->stage_item->message;
    if (!request_envelope_read(message, batch->arena, envelope, &item->problem)) return false;
    item->merchant = config_merchant_find(batch->config, envelope->merchant);
    if (item->merchant == NULL) return refuse(item, PROBLEM_MERCHANT_UNKNOWN, "merchant", NULL);
    if (envelope->operation != REQUEST_OPERATION_PAY) {
        return refuse(item, PROBLEM_NOT_SUPPORTED, "subject", "the operation pay is supported");
    }
    return pay_request_decode(envelope, batch->arena, &item->request, &item->problem);
}

void intake_batch_read(struct intake_batch *batch, struct stage_item *const *items, size_t count)
{
    batch->items = arena_allocate(batch->arena, count * sizeof *batch->items);
    batch->count = count;
    for (size_t i = 0; i < count; i++) {
        struct intake_item *item = &batch->items[i];
        item->stage_item = items[i];
        item->is_valid = read_item(batch, item);
    }
}

/* --- twins ----------------------------------------------------------------------------------- */

/*
 * What earlier items of the batch will write, by hash. Two things with one hash only wait for each
 * other for a round, so the hash is all that is kept.
 */
struct claims {
    uint64_t *slots; /* 0: free */
    size_t size;     /* a power of two, at least twice of what goes in */
};

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < length; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_name(char kind, const char *a, const char *b, const char *c)
{
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), &kind, 1);
    hash = hash_bytes(hash, a, strlen(a) + 1);
    hash = hash_bytes(hash, b, strlen(b) + 1);
    hash = hash_bytes(hash, c, strlen(c) + 1);
    return hash == 0 ? 1 : hash;
}

enum { CLAIM_KEY, CLAIM_NUMBER, CLAIM_TARGET, CLAIM_COUNT };

/* Key, number and target of a request; 0 where there is none. */
static void hash_claims(const struct pay_request *request, uint64_t out[CLAIM_COUNT])
{
    out[CLAIM_KEY] = hash_name('k', request->merchant, request->idempotency_key, "");
    out[CLAIM_NUMBER] = hash_name('n', request->merchant, request->out_trade_no, "");
    out[CLAIM_TARGET] = 0;
    if (pay_request_has_target(request)) {
        out[CLAIM_TARGET] =
            hash_name('t', request->merchant, request->target_kind, request->target_id);
    }
}

static struct claims claims_make(size_t items, struct arena *arena)
{
    struct claims claims = { .size = 16 };
    while (claims.size < 2 * CLAIM_COUNT * items) claims.size *= 2;
    claims.slots = arena_allocate(arena, claims.size * sizeof *claims.slots);
    return claims;
}

static uint64_t *claims_slot(const struct claims *claims, uint64_t hash)
{
    size_t at = (size_t)hash & (claims->size - 1);
    while (claims->slots[at] != 0 && claims->slots[at] != hash) at = (at + 1) & (claims->size - 1);
    return &claims->slots[at];
}

/* False if an earlier item claimed one of them; nothing is claimed then. */
static bool claims_take(const struct claims *claims, const struct pay_request *request)
{
    uint64_t hashes[CLAIM_COUNT];
    hash_claims(request, hashes);
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        if (hashes[i] != 0 && *claims_slot(claims, hashes[i]) != 0) return false;
    }
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        if (hashes[i] != 0) *claims_slot(claims, hashes[i]) = hashes[i];
    }
    return true;
}

/* --- deciding -------------------------------------------------------------------------------- */

static bool is_open(const struct intake_item *item)
{
    return item->is_valid && !item->is_held_back;
}

static enum status read_store(struct intake_batch *batch, struct store *store)
{
    const struct pay_request **requests =
        arena_allocate(batch->arena, batch->count * sizeof *requests);
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (is_open(&batch->items[i])) requests[count++] = &batch->items[i].request;
    }
    if (count == 0) return STATUS_OK;
    struct intake_found *found = NULL;
    TRY(intake_read(store, requests, count, batch->arena, &found));
    for (size_t i = 0, n = 0; i < batch->count; i++) {
        if (is_open(&batch->items[i])) batch->items[i].found = &found[n++];
    }
    return STATUS_OK;
}

static void decide_item(const struct intake_batch *batch, struct intake_item *item)
{
    const struct bus_message *message = item->stage_item->message;
    const struct intake_age age = {
        .stored_us = message->stored_at_us,
        .first_stored_us =
            intake_first_stored(bus_message_header(message, INTAKE_FIRST_STORED_HEADER)),
    };
    item->start_by_us = intake_start_by(&age, item->request.expires_at_us,
                                        batch->config->timers.start_by_s, item->found->now_us);
    item->decision = intake_decide(&item->request, item->start_by_us, item->found);
    item->problem = (struct problem){ .code = item->decision.problem };
}

/* Who only reads needs not wait for an earlier item; who writes does. */
static void decide_all(struct intake_batch *batch)
{
    const struct claims claims = claims_make(batch->count, batch->arena);
    for (size_t i = 0; i < batch->count; i++) {
        struct intake_item *item = &batch->items[i];
        if (!is_open(item)) continue;
        decide_item(batch, item);
        item->is_twin = item->decision.writes_key && !claims_take(&claims, &item->request);
    }
}

static enum status read_views(struct intake_batch *batch, struct store *store,
                              struct payment_view **out_views, size_t *out_count)
{
    struct payment_id *payments = arena_allocate(batch->arena, batch->count * sizeof *payments);
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct intake_item *item = &batch->items[i];
        if (is_open(item) && !item->is_twin && !uuid_is_nil(item->decision.existing.uuid)) {
            payments[count++] = item->decision.existing;
        }
    }
    if (count == 0) return STATUS_OK;
    return intake_read_views(store, payments, count, batch->arena, out_views, out_count);
}

/*
 * As if nothing of it were there. Everything new must take its key, its number and its pointer,
 * each unique in the database, so that whoever was first shows: STATUS_LOST_RACE, and nothing is
 * written. No other verdict is given unseen.
 */
static enum status commit_unseen(struct intake_batch *batch, struct store *store)
{
    struct intake_found *nothing = arena_allocate(batch->arena, sizeof *nothing);
    struct intake_writes writes;
    nothing->now_us = batch->unseen_now_us;
    for (size_t i = 0; i < batch->count; i++) {
        if (is_open(&batch->items[i])) batch->items[i].found = nothing;
    }
    decide_all(batch);
    for (size_t i = 0; i < batch->count; i++) {
        const struct intake_item *item = &batch->items[i];
        if (is_open(item) && item->decision.verdict != INTAKE_NEW) return STATUS_LOST_RACE;
    }
    intake_render(batch, NULL, 0, &writes);
    return intake_write(store, &writes, batch->arena);
}

enum status intake_batch_commit(struct intake_batch *batch, struct store *store)
{
    if (batch->unseen_now_us != 0) {
        const enum status status = commit_unseen(batch, store);
        if (status != STATUS_LOST_RACE) return status;
    }
    batch->was_seen = true;
    struct payment_view *views = NULL;
    size_t view_count = 0;
    TRY(read_store(batch, store));
    decide_all(batch);
    TRY(read_views(batch, store, &views, &view_count));
    struct intake_writes writes;
    intake_render(batch, views, view_count, &writes);
    return intake_write(store, &writes, batch->arena);
}
