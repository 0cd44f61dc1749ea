/* stages/relay/relay_feed.c: see relay_feed.h. */
#include "stages/relay/relay_feed.h"

#include "pipeline/clock.h"
#include "pipeline/log.h"

/*
 * A fact is drawn before it is written: how much older an event's id may be than its transaction.
 */
#define ID_AGE_MAX_US (INT64_C(7) * 24 * 3600 * CLOCK_SECOND_US)
/* Of another database's mark only the time counts: from a little before it. */
#define RESTORED_MARGIN_US (INT64_C(3600) * CLOCK_SECOND_US)
#define SAVE_EVERY_US (200 * CLOCK_MILLISECOND_US)
/* An idle mark moves too, or its time would not: it prunes partitions. */
#define SAVE_IDLE_US (60 * CLOCK_SECOND_US)

void relay_feed_init(struct relay_feed *feed, const struct relay_feed_options *options)
{
    *feed = (struct relay_feed){ .options = *options };
    (void)snprintf(feed->event_name, sizeof feed->event_name, "event:%d", (int)options->shard);
    (void)snprintf(feed->republish_name, sizeof feed->republish_name, "republish:%d",
                   (int)options->shard);
}

void relay_feed_finish(struct relay_feed *feed)
{
    relay_reader_finish(&feed->fresh);
    relay_reader_finish(&feed->old);
}

bool relay_feed_is_republishing(const struct relay_feed *feed)
{
    return feed->old.base != NULL;
}

int64_t relay_feed_now_us(const struct relay_feed *feed, int64_t monotonic_us)
{
    return monotonic_us + feed->clock_offset_us;
}

bool relay_feed_has_room(const struct relay_feed *feed)
{
    return relay_queue_count(feed->options.queue) < feed->options.queue_max;
}

static int64_t floor_of(int64_t at_us)
{
    return at_us > ID_AGE_MAX_US ? at_us - ID_AGE_MAX_US : 0;
}

/* --- into the queue --------------------------------------------------------------------------- */

static void add_rows(struct relay_feed *feed, enum relay_lane lane, const struct relay_row *rows,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct relay_event event = {
            .id = rows[i].id,
            .payment = rows[i].payment,
            .version = rows[i].version,
            .created_us = rows[i].created_us,
            .subject = rows[i].subject,
            .headers = rows[i].headers,
            .body = rows[i].body,
        };
        relay_queue_add(feed->options.queue, lane, &event);
    }
}

/* A page that was read, and whether there may be more. */
struct reading {
    struct relay_page page;
    bool is_full;
};

/* Pages end between transactions, unless one alone is longer than a page. */
static void drop_part(struct relay_page *page)
{
    size_t whole = page->count - 1;
    while (whole > 0 && page->rows[whole - 1].xid == page->rows[page->count - 1].xid) whole--;
    if (whole > 0) page->count = whole;
}

static enum status read_page(struct relay_feed *feed, const struct relay_reader *reader,
                             int32_t limit, int64_t floor_us, struct arena *arena,
                             struct reading *out)
{
    const struct relay_page_query query = {
        .base = reader->base,
        .target = reader->target,
        .after_xid = reader->after_xid,
        .after_id = reader->after_id,
        .limit = limit,
        .floor_us = floor_us,
        .session = feed->claim.session,
    };
    TRY(relay_store_events(feed->options.store, &query, arena, &out->page));
    if (!out->page.is_ours) return STATUS_LOST_RACE;
    out->is_full = limit > 0 && out->page.count == (size_t)limit;
    if (out->is_full) drop_part(&out->page);
    return STATUS_OK;
}

static int64_t step(struct relay_reader *reader, const struct reading *reading)
{
    const struct relay_page *page = &reading->page;
    const struct relay_row *last = reading->is_full ? &page->rows[page->count - 1] : NULL;
    const struct relay_reader_page passed = {
        .snapshot = page->snapshot,
        .xmin = page->xmin,
        .is_full = reading->is_full,
        .last_xid = last != NULL ? last->xid : 0,
        .last_id = last != NULL ? last->id.uuid : (struct uuid){ { 0 } },
    };
    return relay_reader_step(reader, &passed);
}

static int by_payment(const void *a, const void *b)
{
    const struct relay_before *left = a;
    const struct relay_before *right = b;
    const int order = uuid_compare(left->payment.uuid, right->payment.uuid);
    if (order != 0) return order;
    return (left->version > right->version) - (left->version < right->version);
}

/* The payments of a page, each with the highest version that is in it. */
static size_t highest_versions(const struct relay_page *page, struct arena *arena,
                               const struct relay_before **out_before)
{
    struct relay_before *before = arena_allocate(arena, (page->count + 1) * sizeof *before);
    size_t count = 0;
    for (size_t i = 0; i < page->count; i++) {
        if (uuid_is_nil(page->rows[i].payment.uuid) || page->rows[i].version <= 1) continue;
        before[count++] = (struct relay_before){ page->rows[i].payment, page->rows[i].version };
    }
    if (count > 0) qsort(before, count, sizeof *before, by_payment);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_last_of_payment =
            i + 1 == count || !uuid_equal(before[i].payment.uuid, before[i + 1].payment.uuid);
        if (is_last_of_payment) before[kept++] = before[i];
    }
    *out_before = before;
    return kept;
}

struct rows {
    const struct relay_row *items;
    size_t count;
};

/*
 * Events that have to go before those of the page but are not in it: a page that is full may have
 * cut a payment's events in two where transactions ended in another order than they began; and
 * while the stream is being filled again, it may not have them yet.
 */
static enum status read_before(struct relay_feed *feed, const struct reading *reading,
                               struct arena *arena, struct rows *out_cut, struct rows *out_lost)
{
    const struct relay_page *page = &reading->page;
    const struct relay_reader *old = &feed->old;
    const struct relay_before *before = NULL;
    *out_cut = (struct rows){ NULL, 0 };
    *out_lost = (struct rows){ NULL, 0 };
    if (!reading->is_full && !relay_feed_is_republishing(feed)) return STATUS_OK;
    const size_t count = highest_versions(page, arena, &before);
    if (count == 0) return STATUS_OK;
    if (reading->is_full) {
        const struct relay_row *last = &page->rows[page->count - 1];
        TRY(relay_store_events_before(feed->options.store, before, count, last->xid, last->id.uuid,
                                      page->snapshot, floor_of(feed->base_at_us), arena,
                                      &out_cut->items, &out_cut->count));
    }
    if (relay_feed_is_republishing(feed) && old->target != NULL) {
        TRY(relay_store_events_before(feed->options.store, before, count, old->after_xid,
                                      old->after_id, old->target, 0, arena, &out_lost->items,
                                      &out_lost->count));
    }
    return STATUS_OK;
}

static enum status poll_page(struct relay_feed *feed, int64_t monotonic_us, struct arena *arena,
                             bool *out_has_more)
{
    struct reading reading;
    struct rows cut;
    struct rows lost;
    TRY(read_page(feed, &feed->fresh, feed->options.page_limit, floor_of(feed->base_at_us), arena,
                  &reading));
    TRY(read_before(feed, &reading, arena, &cut, &lost));
    feed->clock_offset_us = reading.page.now_us - monotonic_us;
    relay_queue_pass(feed->options.queue, RELAY_LANE_NEW, step(&feed->fresh, &reading));
    add_rows(feed, RELAY_LANE_NEW, lost.items, lost.count);
    add_rows(feed, RELAY_LANE_NEW, cut.items, cut.count);
    add_rows(feed, RELAY_LANE_NEW, reading.page.rows, reading.page.count);
    *out_has_more = relay_reader_is_paging(&feed->fresh);
    if (!*out_has_more) feed->base_at_us = reading.page.now_us;
    return STATUS_OK;
}

enum status relay_feed_poll(struct relay_feed *feed, int64_t monotonic_us, bool *out_has_more)
{
    struct arena arena = { NULL };
    *out_has_more = true;
    if (!relay_feed_has_room(feed)) return STATUS_OK;
    const enum status status = poll_page(feed, monotonic_us, &arena, out_has_more);
    arena_finish(&arena);
    return status;
}

/* --- republishing ----------------------------------------------------------------------------- */

static int32_t take_tokens(struct relay_feed *feed, int64_t monotonic_us)
{
    const int64_t price_us = CLOCK_SECOND_US / feed->options.republish_per_s > 0
                                 ? CLOCK_SECOND_US / feed->options.republish_per_s
                                 : 1;
    feed->republish_tokens_us += monotonic_us - feed->republish_filled_us;
    feed->republish_filled_us = monotonic_us;
    if (feed->republish_tokens_us > CLOCK_SECOND_US) feed->republish_tokens_us = CLOCK_SECOND_US;
    int64_t count = feed->republish_tokens_us / price_us;
    if (count > feed->options.page_limit) count = feed->options.page_limit;
    feed->republish_tokens_us -= count * price_us;
    return (int32_t)count;
}

static enum status poll_old_page(struct relay_feed *feed, int32_t limit, struct arena *arena)
{
    struct reading reading;
    TRY(read_page(feed, &feed->old, limit, 0, arena, &reading));
    relay_queue_pass(feed->options.queue, RELAY_LANE_OLD, step(&feed->old, &reading));
    add_rows(feed, RELAY_LANE_OLD, reading.page.rows, reading.page.count);
    feed->is_old_read = !relay_reader_is_paging(&feed->old);
    return STATUS_OK;
}

static enum status end_republishing(struct relay_feed *feed)
{
    const struct relay_marks marks = { .republish_name = feed->republish_name,
                                       .system_identifier = feed->claim.system_identifier };
    bool has_moved = false;
    TRY(relay_store_mark(feed->options.store, &marks, &has_moved));
    relay_reader_finish(&feed->old);
    LOG_INFO("republished all that the stream had lost");
    return STATUS_OK;
}

enum status relay_feed_poll_old(struct relay_feed *feed, int64_t monotonic_us)
{
    if (!relay_feed_is_republishing(feed)) return STATUS_OK;
    if (feed->is_old_read) {
        if (!relay_queue_is_done(feed->options.queue, RELAY_LANE_OLD)) return STATUS_OK;
        return end_republishing(feed);
    }
    /* Half of the room is for what is new. */
    if (relay_queue_count(feed->options.queue) >= feed->options.queue_max / 2) return STATUS_OK;
    const int32_t limit = take_tokens(feed, monotonic_us);
    if (limit == 0) return STATUS_OK;
    struct arena arena = { NULL };
    const enum status status = poll_old_page(feed, limit, &arena);
    arena_finish(&arena);
    return status;
}

/* From this transaction on, as far as the snapshot shows. */
static void begin_republishing(struct relay_feed *feed, int64_t from_xid, const char *until,
                               int64_t monotonic_us)
{
    relay_reader_start(&feed->old, from_xid);
    relay_reader_limit(&feed->old, until);
    feed->is_old_read = false;
    feed->saved_old_mark = from_xid;
    feed->republish_tokens_us = CLOCK_SECOND_US;
    feed->republish_filled_us = monotonic_us;
}

static void begin_republishing_before(struct relay_feed *feed, int64_t from_xid, int64_t until_xid,
                                      int64_t monotonic_us)
{
    char *until = relay_reader_snapshot_before(until_xid);
    begin_republishing(feed, from_xid, until, monotonic_us);
    free(until);
}

/* --- marks ------------------------------------------------------------------------------------ */

void relay_feed_confirmed(struct relay_feed *feed, uint64_t confirmed, uint64_t last_sequence)
{
    feed->confirmed = confirmed;
    if (last_sequence > feed->stream.last_sequence) {
        feed->stream.last_sequence = last_sequence;
        feed->is_stream_changed = true;
    }
}

static void add_stream(struct relay_marks *marks, const struct relay_stream_known *stream)
{
    marks->stream_name = "stream:PAY_EVENT";
    marks->stream_created = stream->created;
    marks->stream_last = (int64_t)stream->last_sequence;
}

static bool is_event_due(const struct relay_feed *feed, int64_t mark, int64_t monotonic_us)
{
    if (mark <= feed->saved_mark) return false;
    return feed->confirmed != feed->saved_confirmed ||
           monotonic_us - feed->saved_us >= SAVE_IDLE_US || feed->saved_mark == 0;
}

enum status relay_feed_save(struct relay_feed *feed, int64_t monotonic_us, bool now)
{
    if (!now && monotonic_us - feed->saved_us < SAVE_EVERY_US) return STATUS_OK;
    struct relay_marks marks = { .system_identifier = feed->claim.system_identifier };
    const int64_t mark = relay_queue_mark(feed->options.queue, RELAY_LANE_NEW);
    const int64_t old_mark = relay_queue_mark(feed->options.queue, RELAY_LANE_OLD);
    if (is_event_due(feed, mark, monotonic_us)) {
        const int64_t oldest_us = relay_queue_oldest_us(feed->options.queue, RELAY_LANE_NEW);
        marks.event_name = feed->event_name;
        marks.event_xid = mark;
        marks.event_at_us =
            oldest_us != 0 && oldest_us < feed->base_at_us ? oldest_us : feed->base_at_us;
    }
    if (feed->is_stream_changed && feed->stream.created[0] != '\0')
        add_stream(&marks, &feed->stream);
    if (relay_feed_is_republishing(feed) && !feed->is_old_read && old_mark > feed->saved_old_mark) {
        marks.republish_name = feed->republish_name;
        marks.republish_xid = old_mark;
    }
    if (marks.event_name == NULL && marks.stream_name == NULL && marks.republish_name == NULL) {
        return STATUS_OK;
    }
    bool has_moved = false;
    TRY(relay_store_mark(feed->options.store, &marks, &has_moved));
    if (marks.event_name != NULL) {
        feed->saved_mark = mark;
        feed->saved_confirmed = feed->confirmed;
    }
    if (marks.republish_name != NULL) feed->saved_old_mark = old_mark;
    if (marks.stream_name != NULL) feed->is_stream_changed = false;
    feed->saved_us = monotonic_us;
    return STATUS_OK;
}

/* --- where to begin --------------------------------------------------------------------------- */

static const struct relay_position *find(const struct relay_position *positions, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(positions[i].name, name) == 0) return &positions[i];
    }
    return NULL;
}

/* The mark's numbers belong to another database: from its time on, all is published once more. */
static enum status start_restored(struct relay_feed *feed, const struct relay_position *event,
                                  int64_t monotonic_us, struct arena *arena)
{
    struct reading now;
    int64_t from_xid = 0;
    relay_reader_start(&feed->fresh, 1);
    TRY(read_page(feed, &feed->fresh, 0, feed->claim.now_us, arena, &now));
    const enum status found = relay_store_republish_since(
        feed->options.store, event->mark_us - RESTORED_MARGIN_US, &from_xid);
    if (found != STATUS_OK && found != STATUS_NOT_FOUND) return found;
    const struct relay_marks marks = {
        .event_name = feed->event_name,
        .event_xid = now.page.xmin,
        .event_at_us = now.page.now_us,
        .system_identifier = feed->claim.system_identifier,
        .republish_name = feed->republish_name,
        .republish_xid = from_xid,
    };
    bool has_moved = false;
    TRY(relay_store_mark(feed->options.store, &marks, &has_moved));
    relay_reader_skip(&feed->fresh, now.page.snapshot);
    feed->base_at_us = now.page.now_us;
    feed->saved_mark = now.page.xmin;
    /* Numbers of the other database may lie beyond all of this one's. */
    if (from_xid != 0) begin_republishing_before(feed, from_xid, INT64_MAX, monotonic_us);
    LOG_WARNING("the marks are of another database: publishing again by time",
                LOG_NUMBER("republish", from_xid != 0));
    return STATUS_OK;
}

static void start_at(struct relay_feed *feed, const struct relay_position *event,
                     const struct relay_position *republish, int64_t monotonic_us)
{
    const int64_t mark_xid = event == NULL || event->mark_xid == 0 ? 1 : event->mark_xid;
    relay_reader_start(&feed->fresh, mark_xid);
    feed->base_at_us = event == NULL ? 0 : event->mark_us;
    feed->saved_mark = event == NULL ? 0 : event->mark_xid;
    if (republish == NULL || republish->mark_xid == 0 ||
        republish->system_identifier != feed->claim.system_identifier) {
        return;
    }
    const int64_t until_xid = republish->mark_xid > mark_xid ? INT64_MAX : mark_xid;
    begin_republishing_before(feed, republish->mark_xid, until_xid, monotonic_us);
}

enum status relay_feed_start(struct relay_feed *feed, const struct relay_claim *claim,
                             int64_t monotonic_us)
{
    struct arena arena = { NULL };
    const struct relay_position *positions = NULL;
    size_t count = 0;
    relay_queue_empty(feed->options.queue);
    relay_reader_finish(&feed->old);
    feed->claim = *claim;
    feed->clock_offset_us = claim->now_us - monotonic_us;
    feed->stream = (struct relay_stream_known){ "", 0 };
    feed->is_stream_changed = false;
    feed->saved_us = monotonic_us;
    enum status status = relay_store_positions(feed->options.store, &arena, &positions, &count);
    if (status == STATUS_OK) {
        const struct relay_position *event = find(positions, count, feed->event_name);
        const struct relay_position *stream = find(positions, count, "stream:PAY_EVENT");
        if (stream != NULL && stream->stream_created != NULL) {
            (void)snprintf(feed->stream.created, sizeof feed->stream.created, "%s",
                           stream->stream_created);
            feed->stream.last_sequence = (uint64_t)stream->stream_last;
        }
        if (event != NULL && event->mark_xid != 0 &&
            event->system_identifier != claim->system_identifier) {
            status = start_restored(feed, event, monotonic_us, &arena);
        } else {
            start_at(feed, event, find(positions, count, feed->republish_name), monotonic_us);
        }
    }
    arena_finish(&arena);
    return status;
}

enum status relay_feed_republish(struct relay_feed *feed, int64_t from_xid,
                                 const struct relay_stream_known *stream, int64_t monotonic_us)
{
    int64_t mark = relay_queue_mark(feed->options.queue, RELAY_LANE_NEW);
    if (mark == 0) mark = feed->saved_mark > 0 ? feed->saved_mark : 1;
    if (relay_feed_is_republishing(feed)) {
        const int64_t reached = relay_queue_mark(feed->options.queue, RELAY_LANE_OLD);
        const int64_t old_xid = reached > 0 ? reached : feed->saved_old_mark;
        if (from_xid == 0 || old_xid < from_xid) from_xid = old_xid;
    }
    struct relay_marks marks = { .system_identifier = feed->claim.system_identifier };
    add_stream(&marks, stream);
    if (from_xid != 0 && from_xid < mark) {
        marks.republish_name = feed->republish_name;
        marks.republish_xid = from_xid;
    }
    bool has_moved = false;
    TRY(relay_store_mark(feed->options.store, &marks, &has_moved));
    const int64_t oldest_us = relay_queue_oldest_us(feed->options.queue, RELAY_LANE_NEW);
    if (oldest_us != 0 && oldest_us < feed->base_at_us) feed->base_at_us = oldest_us;
    feed->stream = *stream;
    feed->is_stream_changed = false;
    relay_queue_empty(feed->options.queue);
    relay_reader_finish(&feed->old);
    relay_reader_start(&feed->fresh, mark);
    if (marks.republish_name != NULL) {
        begin_republishing_before(feed, from_xid, mark, monotonic_us);
    }
    return STATUS_OK;
}
