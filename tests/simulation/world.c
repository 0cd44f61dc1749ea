/* tests/simulation/world.c: see world.h. */
#include "tests/simulation/world.h"

#include <stdarg.h>

#include "tests/simulation/bank.h"
#include "tests/simulation/cache_double.h"
#include "tests/simulation/check.h"
#include "tests/simulation/database.h"
#include "tests/simulation/parts.h"
#include "tests/simulation/producers.h"
#include "tests/simulation/streams.h"

/* A run that does not come to rest in so many steps is a failure of its own. */
enum { STEPS_MAX = 60000, MOMENTS_MIN = 1024, LOCK_WAIT_US = 500, COPIES_PER_MILLE = 300 };
#define LOCK_TIMEOUT_US (5 * CLOCK_SECOND_US)
#define IDLE_IN_TRANSACTION_US (15 * CLOCK_SECOND_US)

static struct world *current;

static const char *const STAGE_NAMES[] = { "intake", "route", "create", "recover",
                                           "settle", "relay", "gateway" };

struct world *world_current(void)
{
    INVARIANT(current != NULL);
    return current;
}

void *world_allocate(struct world *world, size_t size)
{
    return arena_allocate(&world->arena, size);
}

struct uuid world_id(struct world *world)
{
    const uint64_t milliseconds = (uint64_t)world->now_us / 1000;
    const uint64_t number = ++world->ids;
    struct uuid id = { { 0 } };
    for (int i = 0; i < 6; i++) id.bytes[i] = (uint8_t)(milliseconds >> (40 - 8 * i));
    id.bytes[6] = 0x70;
    id.bytes[8] = 0x80;
    for (int i = 0; i < 4; i++) id.bytes[12 + i] = (uint8_t)(number >> (24 - 8 * i));
    return id;
}

const char *world_short(struct world *world, struct uuid id)
{
    return arena_format(&world->arena, "%02x%02x", (unsigned)id.bytes[14], (unsigned)id.bytes[15]);
}

/* --- the calendar ----------------------------------------------------------------------------- */

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

static void push(struct world *world, struct moment moment)
{
    if (world->moment_count == world->moment_size) {
        world->moment_size = world->moment_size == 0 ? MOMENTS_MIN : world->moment_size * 2;
        world->moments = memory_resize(world->moments, world->moment_size * sizeof *world->moments);
    }
    if (moment.at_us < world->now_us) moment.at_us = world->now_us;
    moment.order = world->order++;
    size_t at = world->moment_count++;
    while (at > 0 && is_before(&moment, &world->moments[(at - 1) / 2])) {
        world->moments[at] = world->moments[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->moments[at] = moment;
}

static struct moment pop(struct world *world)
{
    const struct moment first = world->moments[0];
    const struct moment last = world->moments[--world->moment_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= world->moment_count) break;
        if (child + 1 < world->moment_count &&
            is_before(&world->moments[child + 1], &world->moments[child])) {
            child++;
        }
        if (!is_before(&world->moments[child], &last)) break;
        world->moments[at] = world->moments[child];
        at = child;
    }
    world->moments[at] = last;
    return first;
}

void world_at(struct world *world, int64_t at_us, world_action action, void *what)
{
    push(world, (struct moment){ .at_us = at_us, .action = action, .what = what });
}

void worker_after(struct world *world, struct worker *worker, int64_t delay_us, world_action action,
                  void *what)
{
    push(world, (struct moment){ .at_us = world->now_us + delay_us,
                                 .action = action,
                                 .what = what,
                                 .worker = worker,
                                 .life = worker->life });
}

/* --- workers ---------------------------------------------------------------------------------- */

static void look(struct world *world, void *what)
{
    struct worker *worker = what;
    if (!worker->is_awake || world->now_us < worker->look_at_us) return; /* an earlier one did it */
    worker->is_awake = false;
    parts_look(world, worker);
}

void worker_look(struct world *world, struct worker *worker, int64_t at_us)
{
    if (!worker->exists || at_us == INT64_MAX) return;
    if (at_us < world->now_us) at_us = world->now_us;
    if (worker->is_awake && worker->look_at_us <= at_us) return;
    worker->is_awake = true;
    worker->look_at_us = at_us;
    worker_after(world, worker, at_us - world->now_us, look, worker);
}

void world_wake(struct world *world, enum stage_name stage)
{
    for (unsigned i = 0; i < WORKERS_PER_STAGE; i++) {
        struct worker *worker = &world->workers[stage * WORKERS_PER_STAGE + i];
        if (!worker->exists || worker->is_at_work) continue;
        worker_look(world, worker,
                    world->now_us + choice_delay_us(&world->choices, CHOICE_TAKE, worker->number));
    }
}

static void revive(struct world *world, void *what)
{
    struct worker *worker = what;
    worker_look(world, worker, world->now_us);
}

void world_kill(struct world *world, struct worker *worker)
{
    world_say(world, "%s is killed", worker->name);
    worker->life++;
    worker->is_awake = false;
    worker->is_at_work = false;
    worker->stands_until_us = INT64_MIN;
    database_hang_up(world->database, worker);
    parts_forget(world, worker);
    world_after(world, choice_delay_us(&world->choices, CHOICE_PATIENCE, worker->number), revive,
                worker);
}

/* May the worker go on at this moment? False: it died, or the moment was put off. */
static bool worker_lives(struct world *world, struct moment *moment)
{
    struct worker *worker = moment->worker;
    if (worker == NULL) return true;
    if (worker->life != moment->life) return false;
    if (worker->stands_until_us <= world->now_us &&
        choice_strikes(&world->choices, CHOICE_WORKER_STOPPED, worker->number)) {
        worker->stands_until_us =
            world->now_us + choice_delay_us(&world->choices, CHOICE_NAP, worker->number);
        world_say(world, "%s stands still for %" PRId64 " s", worker->name,
                  (worker->stands_until_us - world->now_us) / CLOCK_SECOND_US);
    }
    if (worker->stands_until_us > world->now_us) {
        moment->at_us = worker->stands_until_us;
        push(world, *moment);
        return false;
    }
    if (choice_strikes(&world->choices, CHOICE_WORKER_KILLED, worker->number)) {
        world_kill(world, worker);
        return false;
    }
    return true;
}

struct absence {
    unsigned stage;
    int64_t until_us;
};

static void go_away(struct world *world, void *what)
{
    const struct absence *absence = what;
    world_say(world, "%s is away for %" PRId64 " s", STAGE_NAMES[absence->stage],
              (absence->until_us - world->now_us) / CLOCK_SECOND_US);
    for (unsigned i = 0; i < WORKERS_PER_STAGE; i++)
        world->workers[absence->stage * WORKERS_PER_STAGE + i].stands_until_us = absence->until_us;
}

/* A whole stage that is not there for hours, from early on. */
static void plan_absences(struct world *world)
{
    enum { HOURS_MAX = 29 };
    for (unsigned stage = 0; stage < STAGE_GATEWAY; stage++) {
        if (!choice_strikes(&world->choices, CHOICE_STAGE_AWAY, stage)) continue;
        struct absence *absence = world_allocate(world, sizeof *absence);
        const int64_t delay_us =
            choice_below(&world->choices, CHOICE_MOMENT, stage, 5000) * CLOCK_MILLISECOND_US;
        const int64_t minutes =
            1 + choice_below(&world->choices, CHOICE_MOMENT, stage, HOURS_MAX * 60);
        *absence =
            (struct absence){ stage, world->now_us + delay_us + minutes * 60 * CLOCK_SECOND_US };
        world_after(world, delay_us, go_away, absence);
    }
}

static void hire(struct world *world)
{
    for (unsigned stage = 0; stage < STAGE_COUNT; stage++) {
        const unsigned count =
            1 + choice_below(&world->choices, CHOICE_WORLD, 8 + stage, WORKERS_PER_STAGE);
        for (unsigned i = 0; i < WORKERS_PER_STAGE; i++) {
            const unsigned number = stage * WORKERS_PER_STAGE + i;
            struct worker *worker = &world->workers[number];
            *worker = (struct worker){ .stage = (enum stage_name)stage,
                                       .number = number,
                                       .life = 1,
                                       .exists = i < count,
                                       .stands_until_us = INT64_MIN };
            (void)snprintf(worker->name, sizeof worker->name, "%s-%u", STAGE_NAMES[stage], i + 1);
            if (worker->exists) worker_look(world, worker, world->now_us);
        }
    }
}

/* --- telling ---------------------------------------------------------------------------------- */

static void print_time(const struct world *world)
{
    const int64_t since_us = world->now_us - WORLD_START_US;
    fprintf(world->trace, "%6" PRIu64 " %8" PRId64 ".%06" PRId64 "  ", world->steps,
            since_us / CLOCK_SECOND_US, since_us % CLOCK_SECOND_US);
}

void world_say(struct world *world, const char *format, ...)
{
    if (world->trace == NULL) return;
    va_list arguments;
    print_time(world);
    va_start(arguments, format);
    vfprintf(world->trace, format, arguments);
    va_end(arguments);
    fputc('\n', world->trace);
}

void world_fail(struct world *world, const char *invariant, const char *format, ...)
{
    if (world->has_failed) return;
    va_list arguments;
    world->has_failed = true;
    const int length = snprintf(world->failure, sizeof world->failure, "%s: ", invariant);
    va_start(arguments, format);
    vsnprintf(world->failure + length, sizeof world->failure - (size_t)length, format, arguments);
    va_end(arguments);
    world_say(world, "FAILED %s", world->failure);
}

void world_reach(struct world *world, unsigned what)
{
    world->reached[what / 64] |= UINT64_C(1) << (what % 64);
}

/* --- the run ---------------------------------------------------------------------------------- */

struct world *world_create(void)
{
    struct world *world = memory_allocate(sizeof *world);
    world->database = database_create();
    world->streams = streams_create();
    world->cache = cache_double_create();
    world->bank = bank_create();
    world->producers = producers_create();
    world->parts = parts_create();
    return world;
}

void world_destroy(struct world *world)
{
    database_destroy(world->database);
    streams_destroy(world->streams);
    cache_double_destroy(world->cache);
    bank_destroy(world->bank);
    producers_destroy(world->producers);
    parts_destroy(world->parts);
    arena_finish(&world->arena);
    free(world->moments);
    free(world);
}

static void heal(struct world *world, void *what)
{
    (void)what;
    world->choices.is_healed = true;
    for (size_t i = 0; i < WORKERS_MAX; i++) world->workers[i].stands_until_us = INT64_MIN;
    world_say(world, "from here on nothing goes wrong");
}

static void begin(struct world *world, const struct plan *plan, enum mutant mutant, FILE *trace)
{
    world->mutant = mutant;
    world->now_us = WORLD_START_US;
    world->moment_count = 0;
    world->order = world->steps = world->ids = 0;
    world->has_failed = false;
    world->failure[0] = '\0';
    world->trace = trace;
    arena_reset(&world->arena);
    choices_init(&world->choices, plan);
    world->numbers_early = choice_below(&world->choices, CHOICE_WORLD, 6, 4) == 3;
    /* Copies of one command meet in two workers: the later number may then write first. */
    if (world->numbers_early) world->choices.per_mille[CHOICE_PUBLISH_TWICE] = COPIES_PER_MILLE;
    streams_begin(world);
    cache_double_begin(world);
    bank_begin(world);
    database_begin(world);
    parts_begin(world);
    hire(world);
    plan_absences(world);
    producers_begin(world);
    world_at(world, world->heal_us, heal, NULL);
}

bool world_run(struct world *world, const struct plan *plan, enum mutant mutant, FILE *trace)
{
    current = world;
    begin(world, plan, mutant, trace);
    while (!world->has_failed && world->moment_count > 0 && world->steps < STEPS_MAX) {
        struct moment moment = pop(world);
        if (moment.at_us > world->end_us) break;
        world->now_us = moment.at_us;
        world->steps++;
        if (!worker_lives(world, &moment)) continue;
        moment.action(world, moment.what);
        if (!world->has_failed) check_step(world);
    }
    if (!world->has_failed && world->steps == STEPS_MAX)
        world_fail(world, "rest", "it does not come to rest in %d steps", STEPS_MAX);
    if (!world->has_failed) audit_rest(world);
    parts_end(world);
    current = NULL;
    return !world->has_failed;
}

/* --- jobs ------------------------------------------------------------------------------------- */

struct job *job_create(struct world *world, struct worker *worker, size_t size)
{
    struct job *job = world_allocate(world, size);
    job->worker = worker;
    job->life = worker->life;
    return job;
}

static bool is_orphan(const struct job *job)
{
    return job->worker->life != job->life;
}

static void give_result(struct world *world, void *what)
{
    struct job *job = what;
    job->done(world, job, job->status);
}

void job_drop_number(struct world *world, struct job *job)
{
    job->is_sent = false;
    if (job->xid == 0) return;
    database_end(world->database, job);
    job->xid = 0;
    if (!world->database->has_news) return;
    world->database->has_news = false;
    world_wake(world, STAGE_RELAY);
}

static void return_result(struct world *world, struct job *job, enum status status)
{
    job->status = status;
    if (is_orphan(job)) return;
    worker_after(world, job->worker,
                 choice_delay_us(&world->choices, CHOICE_RESULT, job->worker->number), give_result,
                 job);
}

/* Runs it, unless a lock makes it wait: then false, and it comes again. */
static bool run_statement(struct world *world, struct job *job, world_action again,
                          enum status *out)
{
    world->database->writer = job->worker;
    world->database->xid = job->xid;
    *out = job->run(world, job);
    if (!job->is_locked) return true;
    job->is_locked = false;
    const int64_t wait_us = job->waited_us + LOCK_WAIT_US;
    job->waited_us += wait_us;
    if (job->waited_us > LOCK_TIMEOUT_US) {
        *out = STATUS_RETRY; /* 55P03 */
        return true;
    }
    world_after(world, wait_us, again, job);
    return false;
}

static void execute(struct world *world, void *what)
{
    struct job *job = what;
    const unsigned number = job->worker->number;
    bool runs = !job->is_cut;
    bool is_known = true;
    if (is_orphan(job)) {
        runs = runs && choice_below(&world->choices, CHOICE_NUMBERING, number, 2) == 0;
    } else if (choice_strikes(&world->choices, CHOICE_COMMIT_LOST_BEFORE, number)) {
        runs = is_known = false;
        world_say(world, "%s loses its connection before the commit", job->worker->name);
    }
    enum status status = STATUS_RETRY;
    if (runs && !run_statement(world, job, execute, &status)) return;
    job->waited_us = 0;
    job->is_cut = false;
    database_unlock(world->database, job);
    job_drop_number(world, job);
    parts_note_due(world);
    if (runs && !job->is_read_only && !is_orphan(job) &&
        choice_strikes(&world->choices, CHOICE_COMMIT_LOST_AFTER, number)) {
        is_known = false;
        world_say(world, "%s does not learn of its commit", job->worker->name);
    }
    return_result(world, job, is_known ? status : STATUS_RETRY);
}

struct idle_transaction {
    struct job *job;
    int64_t xid;
};

static void cut_idle(struct world *world, void *what)
{
    const struct idle_transaction *idle = what;
    if (idle->job->xid != idle->xid || idle->job->is_sent) return;
    database_unlock(world->database, idle->job);
    job_drop_number(world, idle->job);
    idle->job->is_cut = true;
}

void job_number(struct world *world, struct job *job)
{
    struct idle_transaction *idle = world_allocate(world, sizeof *idle);
    if (job->xid != 0) return;
    job->xid = database_number(world->database, job);
    *idle = (struct idle_transaction){ job, job->xid };
    world_after(world, IDLE_IN_TRANSACTION_US, cut_idle, idle);
}

void job_number_early(struct world *world, struct job *job)
{
    if (world->numbers_early &&
        choice_below(&world->choices, CHOICE_NUMBERING, job->worker->number, 2) == 1) {
        job_number(world, job);
    }
}

static void send_statement(struct world *world, struct job *job,
                           enum status (*run)(struct world *world, struct job *job), job_done done)
{
    job->run = run;
    job->done = done;
    world_after(world, choice_delay_us(&world->choices, CHOICE_STATEMENT, job->worker->number),
                execute, job);
}

void job_write(struct world *world, struct job *job,
               enum status (*run)(struct world *world, struct job *job), job_done done)
{
    job->is_read_only = false;
    job->is_sent = true;
    if (job->xid == 0) job->xid = database_number(world->database, job);
    send_statement(world, job, run, done);
}

/* A read draws no number; one that was drawn early stays open until the write ends it. */
static void read_now(struct world *world, void *what)
{
    struct job *job = what;
    const bool breaks =
        !is_orphan(job) &&
        choice_strikes(&world->choices, CHOICE_COMMIT_LOST_BEFORE, job->worker->number);
    if (breaks || is_orphan(job)) {
        job_drop_number(world, job);
        return_result(world, job, STATUS_RETRY);
        return;
    }
    return_result(world, job, job->run(world, job));
}

void job_read(struct world *world, struct job *job,
              enum status (*run)(struct world *world, struct job *job), job_done done)
{
    const unsigned number = job->worker->number;
    job->is_read_only = true;
    job->run = run;
    job->done = done;
    int64_t delay_us = choice_delay_us(&world->choices, CHOICE_STATEMENT, number);
    if (job->xid != 0 && world->numbers_early && !world->choices.is_healed)
        delay_us += choice_delay_us(&world->choices, CHOICE_PATIENCE, number) / 4;
    world_after(world, delay_us, read_now, job);
}

static void go_on(struct world *world, void *what)
{
    struct job *job = what;
    job->next(world, job);
}

void job_wait(struct world *world, struct job *job, int64_t delay_us, job_next next)
{
    job->next = next;
    worker_after(world, job->worker, delay_us, go_on, job);
}
