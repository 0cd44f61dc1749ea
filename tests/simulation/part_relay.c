/*
 * tests/simulation/part_relay.c: oncepay-relay. Events: the real reader (snapshots) and the real
 * queue (order, confirmation, marks) between the outbox and an event stream. Commands: the real
 * sweep. One relay holds the shard's lock; when it dies another begins at the stored mark.
 */
#include "stages/relay/relay_queue.h"
#include "stages/relay/relay_reader.h"
#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"
#include "tests/simulation/producers.h"

enum { PAGE_LIMIT = 3, IN_FLIGHT_MAX = 4, SWEEP_LIMIT = 8, EMIT_MAX = 64 };
#define COMMAND_AGE_US (15 * CLOCK_SECOND_US) /* command_lag_ms and the statement timeout */
#define SWEEP_US (5 * CLOCK_SECOND_US)
#define SWEEP_US_MAX (600 * CLOCK_SECOND_US) /* while what it waits for does not move */
#define CONFIRM_WAIT_US (5 * CLOCK_SECOND_US)
#define POLL_US (50 * CLOCK_MILLISECOND_US)

struct relay_part {
    struct worker *holder; /* of the shard's lock */
    unsigned life;
    struct relay_reader reader;
    struct relay_queue *queue;
    bool is_polling;
    bool is_marking;
    uint64_t confirmed; /* events; the mark is stored when there are more … */
    uint64_t marked;    /* … than when it was stored last */
    int64_t sweep_us;   /* when the commands are swept next … */
    int64_t pause_us;   /* … and how long it waited for that */
    size_t swept_rows;
    bool is_sweeping;
    int64_t marks_us[STREAM_COUNT]; /* stored: how far each subject's commands are looked at */
    struct uuid last_id;            /* the mutant's */
    int64_t last_xmin;              /* the mutant's */
    size_t stream[OUTBOX_MAX];      /* the event stream: rows of the outbox, in order of storing */
    size_t stream_count;
    bool is_on_stream[OUTBOX_MAX];
};

void part_relay_begin(struct world *world)
{
    struct relay_part *relay = world_allocate(world, sizeof *relay);
    relay->queue = relay_queue_create();
    world->parts->relay = relay;
}

void part_relay_end(struct world *world)
{
    relay_queue_destroy(world->parts->relay->queue);
    relay_reader_finish(&world->parts->relay->reader);
}

void part_relay_forget(struct world *world, const struct worker *worker)
{
    struct relay_part *relay = world->parts->relay;
    if (relay == NULL || relay->holder != worker) return;
    relay->holder = NULL; /* its session is gone, and the lock with it */
    world_wake(world, STAGE_RELAY);
}

bool part_relay_is_done(const struct world *world)
{
    const struct relay_part *relay = world->parts->relay;
    const struct database *database = world->database;
    for (size_t i = 0; i < database->outbox_count; i++) {
        if (database->outbox[i].kind == 0 && !relay->is_on_stream[i]) return false;
    }
    return true;
}

const size_t *part_relay_stream(const struct world *world, size_t *out_count)
{
    *out_count = world->parts->relay->stream_count;
    return world->parts->relay->stream;
}

/* --- publishing ------------------------------------------------------------------------------- */

struct flight {
    struct relay_event *event; /* the queue's */
    struct worker *worker;
    size_t outbox;
    bool is_ended;
};

static size_t outbox_of(const struct database *database, struct outbox_id id)
{
    for (size_t i = 0; i < database->outbox_count; i++) {
        if (uuid_equal(database->outbox[i].id.uuid, id.uuid)) return i;
    }
    return SIZE_MAX;
}

/* I14: the first copy follows the first copies of all its predecessors. */
static void check_order(struct world *world, size_t outbox)
{
    const struct database *database = world->database;
    const struct relay_part *relay = world->parts->relay;
    const struct outbox_row *row = &database->outbox[outbox];
    for (size_t i = 0; i < database->outbox_count && row->version > 0; i++) {
        const struct outbox_row *other = &database->outbox[i];
        const bool is_before = other->kind == 0 && other->payment == row->payment &&
                               other->version > 0 && other->version < row->version;
        if (is_before && !relay->is_on_stream[i]) {
            world_fail(world, "I14", "%s v%d of %s is published before v%d",
                       event_type_name((int)row->type), (int)row->version,
                       database->payments[row->payment].out_trade_no, (int)other->version);
        }
        if (other->xid > row->xid && relay->is_on_stream[i])
            world_reach(world, REACHED_RELAY_BEHIND);
    }
}

static void land(struct world *world, void *what)
{
    const struct flight *flight = what;
    struct relay_part *relay = world->parts->relay;
    if (relay->is_on_stream[flight->outbox]) return; /* a further copy */
    check_order(world, flight->outbox);
    relay->is_on_stream[flight->outbox] = true;
    relay->stream[relay->stream_count++] = flight->outbox;
    producers_see(world, flight->outbox);
}

static void pump(struct world *world);

static void confirmed(struct world *world, void *what)
{
    struct flight *flight = what;
    struct relay_part *relay = world->parts->relay;
    if (flight->is_ended) return;
    flight->is_ended = true;
    relay->confirmed++;
    (void)relay_queue_confirm(relay->queue, flight->event);
    pump(world);
    worker_look(world, flight->worker, world->now_us + POLL_US);
}

static void unconfirmed(struct world *world, void *what)
{
    struct flight *flight = what;
    if (flight->is_ended) return;
    flight->is_ended = true;
    (void)relay_queue_retry(world->parts->relay->queue, flight->event);
    pump(world);
}

static void pump(struct world *world)
{
    struct relay_part *relay = world->parts->relay;
    while (relay_queue_in_flight(relay->queue) < IN_FLIGHT_MAX) {
        struct relay_event *event = relay_queue_next(relay->queue);
        if (event == NULL) return;
        const unsigned number = relay->holder->number;
        struct flight *flight = world_allocate(world, sizeof *flight);
        *flight = (struct flight){ .event = event,
                                   .worker = relay->holder,
                                   .outbox = outbox_of(world->database, event->id) };
        const int64_t travel_us = choice_delay_us(&world->choices, CHOICE_MESSAGE, number);
        worker_after(world, relay->holder, CONFIRM_WAIT_US, unconfirmed, flight);
        if (choice_strikes(&world->choices, CHOICE_PUBLISH_LOST, number)) continue;
        world_after(world, travel_us, land, flight);
        if (choice_strikes(&world->choices, CHOICE_RELAY_UNCONFIRMED, number)) continue;
        worker_after(world, relay->holder,
                     travel_us + choice_delay_us(&world->choices, CHOICE_RESULT, number), confirmed,
                     flight);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

struct relay_job {
    struct job job;
    struct relay_page_double page;
    bool is_full;
    struct relay_row_double *cut; /* what has to go before the page and is not in it */
    size_t cut_count;
    int64_t mark_xid;
    struct uuid next_id; /* the mutants': where they go on */
    int64_t next_xmin;
};

static void add_row(struct world *world, const struct relay_row_double *row)
{
    const struct database *database = world->database;
    const struct outbox_row *found = &database->outbox[row->outbox];
    const struct relay_event event = {
        .id = found->id,
        .payment = found->payment == SIZE_MAX ? (struct payment_id){ { { 0 } } }
                                              : database->payments[found->payment].id,
        .version = found->version,
        .created_us = found->created_us,
        .subject = "",
        .headers = "",
    };
    relay_queue_add(world->parts->relay->queue, RELAY_LANE_NEW, &event);
}

/* drop_part of relay_feed.c: pages end between transactions. */
static void drop_part(struct relay_page_double *page)
{
    size_t whole = page->count - 1;
    while (whole > 0 && page->rows[whole - 1].xid == page->rows[page->count - 1].xid) whole--;
    if (whole > 0) page->count = whole;
}

/* read_before of relay_feed.c: a full page may have cut a payment's events in two. */
static void read_cut(struct world *world, struct relay_job *self)
{
    const struct database *database = world->database;
    const struct relay_row_double *last = &self->page.rows[self->page.count - 1];
    self->cut = world_allocate(world, (database->outbox_count + 1) * sizeof *self->cut);
    for (size_t i = 0; i < self->page.count; i++) {
        const struct outbox_row *row = &database->outbox[self->page.rows[i].outbox];
        if (row->payment == SIZE_MAX || row->version <= 1) continue;
        self->cut_count += db_relay_events_before(world, row->payment, row->version, last->xid,
                                                  database->outbox[last->outbox].id.uuid,
                                                  self->page.snapshot, self->cut + self->cut_count,
                                                  database->outbox_count - self->cut_count);
    }
}

/* By the bound alone means: in the order of the transactions' numbers, a page at a time. */
static void take_first_transaction(struct relay_job *self)
{
    struct relay_page_double *page = &self->page;
    size_t kept = 0;
    for (size_t i = 0; i < page->count; i++) {
        if (page->rows[i].xid < self->next_xmin) self->next_xmin = page->rows[i].xid;
    }
    for (size_t i = 0; i < page->count; i++) {
        if (page->rows[i].xid == self->next_xmin) page->rows[kept++] = page->rows[i];
    }
    self->next_xmin += page->count > 0;
    page->count = kept;
}

/* The mutants' ways to ask what is new. */
static bool read_wrongly(struct world *world, struct relay_job *self)
{
    const struct database *database = world->database;
    const struct relay_part *relay = world->parts->relay;
    const bool by_id = world->mutant == MUTANT_RELAY_BY_ID;
    if (!by_id && world->mutant != MUTANT_RELAY_BY_XMIN) return false;
    int64_t xmin = 0;
    self->page.snapshot = database_snapshot(world, &xmin);
    self->page.xmin = xmin;
    self->page.rows = world_allocate(world, (database->outbox_count + 1) * sizeof *self->page.rows);
    struct uuid highest = relay->last_id;
    for (size_t i = 0; i < database->outbox_count; i++) {
        const struct outbox_row *row = &database->outbox[i];
        const bool is_new = by_id ? uuid_compare(row->id.uuid, relay->last_id) > 0
                                  : row->xid >= relay->last_xmin && row->xid < xmin;
        if (row->kind != 0 || !is_new) continue;
        if (uuid_compare(row->id.uuid, highest) > 0) highest = row->id.uuid;
        self->page.rows[self->page.count++] = (struct relay_row_double){ row->xid, i };
    }
    self->next_id = highest;
    self->next_xmin = xmin;
    if (!by_id) take_first_transaction(self);
    return true;
}

static enum status read_page(struct world *world, struct job *job)
{
    struct relay_job *self = (struct relay_job *)job;
    const struct relay_reader *reader = &world->parts->relay->reader;
    if (read_wrongly(world, self)) return STATUS_OK;
    db_relay_events(world, reader->base, reader->target, reader->after_xid, reader->after_id,
                    PAGE_LIMIT, &self->page);
    self->is_full = self->page.count == PAGE_LIMIT;
    if (!self->is_full) return STATUS_OK;
    drop_part(&self->page);
    read_cut(world, self);
    return STATUS_OK;
}

static int64_t step(struct relay_part *relay, const struct database *database,
                    const struct relay_job *self)
{
    struct relay_reader_page passed = { .snapshot = self->page.snapshot,
                                        .xmin = self->page.xmin,
                                        .is_full = self->is_full };
    if (self->is_full) {
        const struct relay_row_double *last = &self->page.rows[self->page.count - 1];
        passed.last_xid = last->xid;
        passed.last_id = database->outbox[last->outbox].id.uuid;
    }
    return relay_reader_step(&relay->reader, &passed);
}

static void page_read(struct world *world, struct job *job, enum status status)
{
    const struct relay_job *self = (const struct relay_job *)job;
    struct relay_part *relay = world->parts->relay;
    relay->is_polling = false;
    if (relay->holder != job->worker) return;
    if (status == STATUS_OK) {
        relay->last_id = self->next_id;
        relay->last_xmin = self->next_xmin;
        const int64_t mark = step(relay, world->database, self);
        relay_queue_pass(relay->queue, RELAY_LANE_NEW, mark);
        for (size_t i = 0; i < self->cut_count; i++) add_row(world, &self->cut[i]);
        for (size_t i = 0; i < self->page.count; i++) add_row(world, &self->page.rows[i]);
        pump(world);
    }
    /* By the xmin bound, what a running transaction holds back has to be asked for again. */
    const bool waits_for_xmin =
        world->mutant == MUTANT_RELAY_BY_XMIN && self->page.xmin < world->database->next_xid;
    const bool has_more = status != STATUS_OK || self->page.count > 0 || self->is_full ||
                          relay_reader_is_paging(&relay->reader);
    if (waits_for_xmin) worker_look(world, job->worker, world->now_us + CLOCK_SECOND_US);
    if (has_more) worker_look(world, job->worker, world->now_us + POLL_US);
}

/* --- the mark --------------------------------------------------------------------------------- */

static enum status write_mark(struct world *world, struct job *job)
{
    const struct relay_job *self = (const struct relay_job *)job;
    if (self->mark_xid > world->database->relay_mark_xid)
        world->database->relay_mark_xid = self->mark_xid;
    return STATUS_OK;
}

static void mark_written(struct world *world, struct job *job, enum status status)
{
    (void)status; /* the next one stores it */
    world->parts->relay->is_marking = false;
    (void)job;
}

static void save_mark(struct world *world, struct worker *worker)
{
    struct relay_part *relay = world->parts->relay;
    int64_t mark = relay_queue_mark(relay->queue, RELAY_LANE_NEW);
    if (world->mutant == MUTANT_MARK_BEFORE_CONFIRM) {
        int64_t xmin = 0;
        (void)database_snapshot(world, &xmin);
        mark = xmin;
    }
    if (relay->is_marking || mark <= world->database->relay_mark_xid ||
        relay->marked == relay->confirmed) {
        return;
    }
    relay->marked = relay->confirmed;
    struct relay_job *self = (struct relay_job *)job_create(world, worker, sizeof *self);
    self->mark_xid = mark;
    relay->is_marking = true;
    job_write(world, &self->job, write_mark, mark_written);
}

/* --- lost commands ---------------------------------------------------------------------------- */

struct sweep_job {
    struct job job;
    struct outbox_row emitted[EMIT_MAX];
    size_t count;
    int64_t marks_us[STREAM_COUNT];
};

static enum status write_sweep(struct world *world, struct job *job)
{
    const struct sweep_job *self = (const struct sweep_job *)job;
    for (size_t i = 0; i < self->count; i++) {
        const struct outbox_row *row = &self->emitted[i];
        database_command(world, row->id, row->kind, row->stream, row->entity, row->version,
                         row->payment);
    }
    struct relay_part *relay = world->parts->relay;
    const size_t rows = world->database->outbox_count;
    relay->pause_us = rows > relay->swept_rows ? SWEEP_US : relay->pause_us * 2;
    if (relay->pause_us > SWEEP_US_MAX) relay->pause_us = SWEEP_US_MAX;
    relay->swept_rows = rows;
    memcpy(relay->marks_us, self->marks_us, sizeof self->marks_us);
    return STATUS_OK;
}

static void end_sweep(struct world *world, const struct job *job)
{
    world->parts->relay->is_sweeping = false;
    worker_look(world, job->worker, world->parts->relay->sweep_us);
}

static void sweep_written(struct world *world, struct job *job, enum status status)
{
    const struct sweep_job *self = (const struct sweep_job *)job;
    end_sweep(world, job);
    if (status != STATUS_OK) return; /* the marks stand where they are stored */
    for (size_t i = 0; i < self->count; i++) {
        const struct outbox_row *row = &self->emitted[i];
        struct command command = {
            .outbox = row->id, .entity = row->entity, .version = row->version, .kind = row->kind
        };
        if (row->payment != SIZE_MAX) command.payment = world->database->payments[row->payment].id;
        world_reach(world, REACHED_EMITTED);
        world_say(world, "%s emits %s %s again", job->worker->name,
                  command_kind_name((int)row->kind), world_short(world, row->entity));
        stream_publish_commands(world, row->stream, &command, 1);
    }
}

/* One subject: the rows past its mark that are old enough, by the real decision. */
static void sweep_subject(struct world *world, struct sweep_job *self, size_t stream)
{
    const struct database *database = world->database;
    struct relay_sweep_row rows[EMIT_MAX];
    size_t places[EMIT_MAX] = { 0 };
    struct relay_sweep sweep = { .rows = rows,
                                 .horizon_us = world->now_us - COMMAND_AGE_US,
                                 .oldest_left_us = INT64_MAX,
                                 .allowance = EMIT_MAX };
    for (size_t i = 0; i < database->outbox_count; i++) {
        const struct outbox_row *row = &database->outbox[i];
        if (row->kind == 0 || row->stream != stream || row->created_us <= self->marks_us[stream] ||
            row->created_us > sweep.horizon_us) {
            continue;
        }
        /* Rows of one moment stay together. */
        sweep.is_full =
            sweep.count >= SWEEP_LIMIT && row->created_us != rows[sweep.count - 1].created_us;
        if (sweep.is_full || sweep.count == EMIT_MAX) break;
        places[sweep.count] = i;
        rows[sweep.count++] =
            (struct relay_sweep_row){ .created_us = row->created_us,
                                      .is_unmoved = world->mutant != MUTANT_SWEEP_SKIPS &&
                                                    db_relay_unmoved(world, row) };
    }
    if (relay_sweep_has_unmoved(&sweep))
        sweep.oldest_left_us = stream_oldest_left_us(world, stream);
    const struct relay_sweep_end end = relay_sweep_decide(&sweep);
    for (size_t i = 0; i < sweep.count; i++) {
        if (!rows[i].is_emitted || self->count == EMIT_MAX) continue;
        self->emitted[self->count] = database->outbox[places[i]];
        self->emitted[self->count++].id.uuid = world_id(world);
    }
    if (end.mark_us > self->marks_us[stream]) self->marks_us[stream] = end.mark_us;
}

static enum status read_sweep(struct world *world, struct job *job)
{
    struct sweep_job *self = (struct sweep_job *)job;
    memcpy(self->marks_us, world->parts->relay->marks_us, sizeof self->marks_us);
    for (size_t i = 0; i < STREAM_COUNT; i++) sweep_subject(world, self, i);
    return STATUS_OK;
}

static void sweep_read(struct world *world, struct job *job, enum status status)
{
    if (status == STATUS_OK) {
        job_write(world, job, write_sweep, sweep_written);
    } else {
        end_sweep(world, job);
    }
}

/* Is there a command that nobody has looked at yet? */
static bool has_unswept(const struct world *world)
{
    const struct database *database = world->database;
    for (size_t i = 0; i < database->outbox_count; i++) {
        const struct outbox_row *row = &database->outbox[i];
        if (row->kind != 0 && row->created_us > world->parts->relay->marks_us[row->stream])
            return true;
    }
    return false;
}

static void sweep_commands(struct world *world, struct worker *worker)
{
    struct relay_part *relay = world->parts->relay;
    if (!has_unswept(world) || relay->is_sweeping) return;
    if (world->now_us < relay->sweep_us) {
        worker_look(world, worker, relay->sweep_us);
        return;
    }
    if (relay->pause_us < SWEEP_US) relay->pause_us = SWEEP_US;
    relay->sweep_us = world->now_us + relay->pause_us;
    relay->is_sweeping = true;
    job_read(world, job_create(world, worker, sizeof(struct sweep_job)), read_sweep, sweep_read);
}

/* --- the lock --------------------------------------------------------------------------------- */

static bool holds_lock(struct world *world, struct worker *worker)
{
    struct relay_part *relay = world->parts->relay;
    if (relay->holder == worker) return true;
    if (relay->holder != NULL) return false;
    world_say(world, "%s takes the relay's lock", worker->name);
    relay->holder = worker;
    relay->is_polling = relay->is_marking = relay->is_sweeping = false;
    relay_queue_destroy(relay->queue);
    relay->queue = relay_queue_create();
    relay->last_id = (struct uuid){ { 0 } };
    relay->last_xmin = world->database->relay_mark_xid;
    relay_reader_start(&relay->reader,
                       world->database->relay_mark_xid == 0 ? 1 : world->database->relay_mark_xid);
    return true;
}

void part_relay_look(struct world *world, struct worker *worker)
{
    struct relay_part *relay = world->parts->relay;
    if (!holds_lock(world, worker)) return;
    save_mark(world, worker);
    sweep_commands(world, worker);
    if (relay->is_polling || relay_queue_count(relay->queue) >= 4 * PAGE_LIMIT) return;
    relay->is_polling = true;
    job_read(world, job_create(world, worker, sizeof(struct relay_job)), read_page, page_read);
}
