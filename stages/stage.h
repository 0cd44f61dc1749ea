/*
 * stages/stage.h: what every oncepay process is made of (configuration, connections, health) and
 * the shared batch loop of intake, route and settle: take what waits, decide, commit once, publish,
 * ack. The order is the safety argument, so it stands in one place (stage_loop.c).
 */
#ifndef ONCEPAY_STAGES_STAGE_H
#define ONCEPAY_STAGES_STAGE_H

#include <signal.h>

#include "adapters/nats/bus_nats.h"
#include "adapters/redis/cache_redis.h"
#include "config/config.h"
#include "pipeline/command.h"
#include "pipeline/problem.h"
#include "stages/health.h"
#include "store/store.h"

enum { STAGE_ACTOR_SIZE = 80 };

/* One process. Everything is owned by it; stage_close gives it back. */
struct stage {
    const char *name;             /* "intake" */
    char actor[STAGE_ACTOR_SIZE]; /* who did it, in history: "intake/<host>/<pid>" */
    struct config config;
    struct arena topology_arena;
    struct bus_topology topology;
    struct bus *bus;
    struct cache *cache;
    struct store *store;
    struct health *health;
    /* What the batch in hand wants to announce once it is committed. */
    struct stage_announcements *announcements;
};

/* Set by SIGTERM and SIGINT: finish what was started, hand back the rest, leave. */
extern volatile sig_atomic_t stage_stop;

/*
 * Options (--config FILE, --metrics-port N, --help), configuration, signals, log, health server,
 * connections (waiting for them as long as it takes). False: leave main with *out_exit_code
 * (0 after --help or a stop while waiting, 2 usage or configuration, 3 topology mismatch).
 */
bool stage_open(struct stage *stage, const char *name, int argc, char **argv,
                int *out_exit_code) MUST_CHECK;
void stage_close(struct stage *stage);

/* A fresh, unconnected store with this process's settings; purpose is added to the name PostgreSQL
 * shows. */
struct store *stage_store_create(const struct stage *stage, const char *purpose);

/* Binds to a durable, waiting until it is there. NULL: stopped, or a mismatch (then *out_exit_code
 * is 3). */
struct bus_consumer *stage_consumer_open(struct stage *stage, const char *stream,
                                         const char *durable, int *out_exit_code) MUST_CHECK;

/* Full jitter: a random wait between half of and the whole of ms. Not for secrets. */
int64_t stage_jitter_ms(int64_t ms);

/*
 * A stage message of a newer schema is handed back for as long as a payment may wait for its start;
 * then it becomes a dead letter (protocol H6).
 */
bool stage_newer_is_too_old(const struct stage *stage, const struct bus_message *message);

/* ms, 20 % up or down: due times of rows (protocol G). */
int64_t stage_spread_ms(int64_t ms);

/* --- announcing: after the commit, best effort (protocol H1, H2) --------------------------- */

/* Keeps a command whose outbox row is in the transaction about to be committed. subject is copied.
 */
void stage_announce(struct stage *stage, const char *subject, struct command command);
/* Events were written: the relay gets a poke. */
void stage_announce_events(struct stage *stage);
/* A reply to whoever waits (core NATS). All is copied; an impossible subject is dropped with a log
 * line. */
void stage_announce_reply(struct stage *stage, const struct bus_outgoing *reply);
/* Forgets what was kept: the transaction did not commit and is decided again. */
void stage_announce_forget(struct stage *stage);
/*
 * Publishes what was kept, one message per subject with up to 64 commands, pokes the relay, sends
 * the replies. A publish that fails is the relay's work.
 */
void stage_announce_send(struct stage *stage);

/* --- the batch loop ------------------------------------------------------------------------ */

enum stage_disposal {
    STAGE_DONE = 0,    /* acked once everything in its message is done */
    STAGE_LATER,       /* a twin of another item in this batch: next round */
    STAGE_HAND_BACK,   /* the message is redelivered after delay_ms */
    STAGE_DEAD_LETTER, /* problem says why; the raw message is kept, then terminated */
};

/* One thing to decide: a producer's message (intake) or one command of a stage message. */
struct stage_item {
    struct bus_message *message;
    struct command command; /* command stages */
    enum stage_disposal disposal;
    int64_t delay_ms;       /* STAGE_HAND_BACK */
    struct problem problem; /* STAGE_DEAD_LETTER */
    bool with_case;         /* STAGE_DEAD_LETTER of a command: a person must look */
    int trials;             /* counted ones, this one included; 0: not singled out yet */
    bool is_refused;        /* PostgreSQL refused it as data */
    const char *verdict;    /* for metrics and logs: "accepted" …; NULL: the disposal's name */
};

struct stage_work {
    const char *stream;
    const char *durable;
    bool has_commands;                 /* decode messages into commands first */
    const struct config_stage *limits; /* items per transaction, queue, waits */
    /*
     * Decides and commits these items, sets each one's disposal, announces. Items come in message
     * order, at most one per payment where has_commands. It may be called again for the same items:
     * after STATUS_LOST_RACE at once; after STATUS_RETRY with a wait; after STATUS_BAD_DATA with
     * halves, down to one. Whatever it decided before is void then; the arena is not.
     */
    enum status (*handle)(struct stage *stage, void *self, struct stage_item *const *items,
                          size_t count, struct arena *arena);
    void *self;
};

/* Runs until stopped, then drains. Returns main's exit code. */
int stage_run(struct stage *stage, const struct stage_work *work);

#endif
