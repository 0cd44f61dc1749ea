/*
 * tests/simulation/world.h: one simulated installation: virtual time, the calendar of what happens
 * next, workers that die and stand still, and the parts. One thread; nothing here asks the machine
 * for time or chance, so a plan gives the same run every time.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_WORLD_H
#define ONCEPAY_TESTS_SIMULATION_WORLD_H

#include "pipeline/arena.h"
#include "pipeline/clock.h"
#include "pipeline/id.h"
#include "tests/simulation/choice.h"
#include "tests/simulation/mutant.h"

enum stage_name {
    STAGE_INTAKE = 0,
    STAGE_ROUTE,
    STAGE_CREATE,
    STAGE_RECOVER,
    STAGE_SETTLE,
    STAGE_RELAY,
    STAGE_GATEWAY,
    STAGE_COUNT
};

enum { WORKERS_PER_STAGE = 3, WORKERS_MAX = STAGE_COUNT * WORKERS_PER_STAGE, FAILURE_SIZE = 400 };

struct world;

/* One process of a stage. What it holds in memory dies with its life. */
struct worker {
    enum stage_name stage;
    unsigned number; /* over all stages */
    unsigned life;   /* raised by each death */
    bool exists;
    bool is_awake;           /* its next look for work is in the calendar … */
    int64_t look_at_us;      /* … at this time */
    bool is_at_work;         /* a batch is in hand; create and recover go on all the same */
    int64_t stands_until_us; /* SIGSTOP; INT64_MIN: it runs */
    char name[24];           /* "create-2": the actor of its rows */
};

/* What happens at a moment. worker NULL: nobody's death prevents it. */
typedef void (*world_action)(struct world *world, void *what);

struct moment {
    int64_t at_us;
    uint64_t order; /* of the same microsecond: first come, first served */
    world_action action;
    void *what;
    struct worker *worker;
    unsigned life;
};

struct database;
struct streams;
struct cache_double;
struct bank;
struct producers;
struct parts;

struct world {
    struct choices choices;
    enum mutant mutant;
    int64_t now_us;
    int64_t heal_us;    /* from here on nothing goes wrong any more */
    int64_t end_us;     /* by then all that can end has ended */
    struct arena arena; /* what the run allocates, until the run is over */
    struct moment *moments;
    size_t moment_count;
    size_t moment_size;
    uint64_t order;
    uint64_t steps;
    uint64_t ids; /* drawn so far */
    struct worker workers[WORKERS_MAX];
    struct database *database;
    struct streams *streams;
    struct cache_double *cache;
    struct bank *bank;
    struct producers *producers;
    struct parts *parts;
    bool numbers_early; /* transactions of this seed draw their numbers long before they write */
    bool has_failed;
    char failure[FAILURE_SIZE]; /* "I9: …" */
    FILE *trace;                /* NULL: quiet */
    uint64_t reached[4];        /* rare states, for the report: bits by check.h */
};

#define WORLD_START_US (INT64_C(1764500000) * CLOCK_SECOND_US)

/* Frees nothing between runs but what the run allocated. */
struct world *world_create(void);
void world_destroy(struct world *world);
/* Runs the plan to its end or its first failure. True: nothing failed. */
bool world_run(struct world *world, const struct plan *plan, enum mutant mutant, FILE *trace);

void world_at(struct world *world, int64_t at_us, world_action action, void *what);
static inline void world_after(struct world *world, int64_t delay_us, world_action action,
                               void *what)
{
    world_at(world, world->now_us + delay_us, action, what);
}
/* Happens only if the worker still lives its present life; it may die or stop at this moment. */
void worker_after(struct world *world, struct worker *worker, int64_t delay_us, world_action action,
                  void *what);
/* The workers of a stage look for work soon. */
void world_wake(struct world *world, enum stage_name stage);
/* A worker that has nothing in hand looks again at that time. */
void worker_look(struct world *world, struct worker *worker, int64_t at_us);
void world_kill(struct world *world, struct worker *worker);

/* The first failure ends the run. invariant: "I9"; the rest is the sentence. */
void world_fail(struct world *world, const char *invariant, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* A line of the trace, with the time since the start. */
void world_say(struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);

/* A rare state was reached: counted over the seeds, so that never reaching it is noticed. */
void world_reach(struct world *world, unsigned what);

/* The world whose deciders run now: what they draw (ids, jitter) is its. */
struct world *world_current(void);
struct uuid world_id(struct world *world);

/* Short names of ids in traces: the last two bytes in hexadecimal. */
const char *world_short(struct world *world, struct uuid id);

void *world_allocate(struct world *world, size_t size);

/* --- one unit of a worker's work, from one await to the next ---------------------------------- */

struct job;
typedef void (*job_next)(struct world *world, struct job *job);
typedef void (*job_done)(struct world *world, struct job *job, enum status status);

struct job { /* first member of what a part needs */
    struct worker *worker;
    unsigned life;
    int64_t xid; /* 0: no transaction number is drawn */
    /* Runs inside the database: all of it, or nothing. */
    enum status (*run)(struct world *world, struct job *job);
    job_done done;
    job_next next;
    enum status status;
    bool is_read_only;
    bool is_sent;      /* on its way to the database, whatever becomes of its worker */
    bool is_locked;    /* set by run: a row is locked, run it again a little later */
    bool is_cut;       /* the server ended its transaction, which had been idle for too long */
    int64_t waited_us; /* for a lock */
};

/* Zeroed, in the world's arena. */
struct job *job_create(struct world *world, struct worker *worker, size_t size);
/*
 * Sends a statement. done gets STATUS_OK, what run returned, or STATUS_RETRY when nobody knows
 * whether it was committed. A dead worker's statement may run all the same.
 */
void job_write(struct world *world, struct job *job,
               enum status (*run)(struct world *world, struct job *job), job_done done);
void job_read(struct world *world, struct job *job,
              enum status (*run)(struct world *world, struct job *job), job_done done);
void job_wait(struct world *world, struct job *job, int64_t delay_us, job_next next);
/*
 * Draws the transaction's number before the rows are read, in some seeds. No statement does that
 * today; the relay must not depend on it. job_drop_number: nothing is written after all.
 */
void job_number_early(struct world *world, struct job *job);
/* The same in any seed: a lock draws one. Idle for too long, the transaction is ended. */
void job_number(struct world *world, struct job *job);
void job_drop_number(struct world *world, struct job *job);

#endif
