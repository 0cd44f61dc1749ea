/*
 * adapters/nats/bus_nats.h: the bus of pipeline/bus.h on the core API of libnats 3.4.1: an own
 * pull loop, tracked publishes, core messages and JetStream's JSON API. Its callbacks only put
 * things into queues and write one eventfd, so that the owner sleeps in one poll() for everything.
 *
 * Threads: a bus belongs to one thread. bus_publish, bus_publish_core, bus_stats and
 * bus_is_connected may be called from any.
 *
 * The owner's loop (a blocking stage uses bus_wait instead of its own poll):
 *
 *     poll(bus_fd(bus), …, at most BUS_TICK_MS);
 *     bus_wakeup_clear(bus);                         first, then look into the queues
 *     TRY(bus_consumer_want(consumer, free places));  each round: this is also the upkeep
 *     count = bus_consumer_take(consumer, max, messages);
 *     … decide, commit, publish …
 *     bus_ack(&messages[i]);
 */
#ifndef ONCEPAY_ADAPTERS_NATS_BUS_NATS_H
#define ONCEPAY_ADAPTERS_NATS_BUS_NATS_H

#include "pipeline/bus.h"

#include <signal.h>

enum {
    BUS_TICK_MS = 500,
    BUS_NAK_DELAY_MIN_MS = 10,
    BUS_NAK_DELAY_MAX_MS = 30000,
    BUS_PUBLISH_WAIT_MS = 5000,
    BUS_OUTSTANDING_MAX = 8192,
    BUS_REQUEST_TIMEOUT_MS = 5000,
};

struct bus_options {
    const char *url; /* nats://user:password@host:port, several with commas; tls:// needs ca_file */
    const char *name;                  /* this process, as the server's monitoring shows it */
    const char *ca_file;               /* NULL without TLS */
    const volatile sig_atomic_t *stop; /* ends the endless connecting; may be NULL */
};

/*
 * Connects (publish and pull separately) and keeps trying for ever, with backoff, until *stop.
 * STATUS_RETRY: stopped before a connection stood. STATUS_STOP: the options are wrong; out_error
 * (may be NULL, static text) says how.
 */
enum status bus_connect(const struct bus_options *options, struct bus **out_bus,
                        const char **out_error) MUST_CHECK;
/* Flushes for a second at most, closes, frees, open consumers included. NULL is fine. */
void bus_close(struct bus *bus);

/* Readable when something may wait: messages, results, core messages, a reconnect. */
int bus_fd(const struct bus *bus);
void bus_wakeup_clear(struct bus *bus);
/* Sleeps until something may wait or timeout_ms passed; clears. Returns at once on a signal. */
void bus_wait(struct bus *bus, int64_t timeout_ms);
/* The connections that it cannot do without stand, as far as the pings know. For /readyz. */
bool bus_is_connected(struct bus *bus);

struct bus_stats {
    uint64_t reconnects;
    uint64_t published; /* outcomes, by kind: */
    uint64_t publish_unknown;
    uint64_t publish_refused;
    uint64_t publish_unsent;
    uint64_t received;
    uint64_t handed_back;      /* by the bus itself: paused, draining, more than wanted */
    uint64_t disposals_failed; /* an ack or nak that could not leave: it will be redelivered */
    uint64_t core_dropped;     /* core messages beyond a subscription's queue */
};
void bus_stats(struct bus *bus, struct bus_stats *out_stats);

/* --- consumers ------------------------------------------------------------------------------- */

/*
 * Binds to a durable that topology apply made, after comparing the stream and it, field by field,
 * with the topology. STATUS_RETRY: not there yet, or no answer: ask again later. STATUS_STOP: it is
 * something else than this program expects. out_error (arena): field, expected, found.
 */
enum status bus_consumer_open(struct bus *bus, const struct bus_topology *topology,
                              const char *stream, const char *durable, struct arena *arena,
                              struct bus_consumer **out_consumer,
                              const char **out_error) MUST_CHECK;

/*
 * How many messages may wait in this process, ready for take. Call it each round: it sends pull
 * requests when half is drained, notices silence and asks how the consumer is. STATUS_RETRY: the
 * connection or the consumer is away now (go on calling); STATUS_STOP: the consumer was replaced by
 * another; bus_consumer_problem has the sentence in both cases.
 */
enum status bus_consumer_want(struct bus_consumer *consumer, size_t count) MUST_CHECK;
/* Up to max waiting messages, at once. Each must be disposed of exactly once. */
size_t bus_consumer_take(struct bus_consumer *consumer, size_t max,
                         struct bus_message *out_messages);
/* How many wait in this process. */
size_t bus_consumer_queued(struct bus_consumer *consumer);

/* While paused nothing is asked for; what waits or still arrives is handed back with a delay. */
void bus_consumer_pause(struct bus_consumer *consumer, bool paused);
/* "" when all is well. Valid until the next call on this consumer. */
const char *bus_consumer_problem(struct bus_consumer *consumer);

struct bus_lag {
    uint64_t pending;     /* never delivered */
    uint64_t ack_pending; /* delivered, or parked by a delayed nak */
    uint64_t redelivered;
    int64_t asked_ms_ago; /* -1: never answered */
};
/* From the consumer's own look every few seconds: no waiting. */
void bus_consumer_lag(struct bus_consumer *consumer, struct bus_lag *out_lag);

/*
 * Stops pulling and hands back what was not taken, also what is under way; waits for the server at
 * most timeout_ms. Messages in hand stay valid. Afterwards take gives nothing.
 */
void bus_consumer_drain(struct bus_consumer *consumer, int64_t timeout_ms);
/* Hands back what waits and forgets the consumer (never deletes it at the server). NULL is fine. */
void bus_consumer_close(struct bus_consumer *consumer);

/* --- one message ----------------------------------------------------------------------------- */

/* Strictly after the commit. Leaves at once; a lost ack is a redelivery, which changes nothing. */
void bus_ack(struct bus_message *message);
/* Hand back; the delay is clamped to BUS_NAK_DELAY_*_MS. The caller adds jitter. */
void bus_nak(struct bus_message *message, int64_t delay_ms);
/* Never again; only after its dead letter is committed. */
void bus_term(struct bus_message *message);
/* Starts the server's ack wait anew; the message stays in hand. */
void bus_in_progress(const struct bus_message *message);
/* A core message is done with. */
void bus_release(struct bus_message *message);

/* --- publishing ------------------------------------------------------------------------------ */

/*
 * Stores through JetStream, never waits for the answer. Each call ends in exactly one result, at
 * the latest BUS_PUBLISH_WAIT_MS later; with cookie NULL it is only counted. All is copied.
 */
void bus_publish(struct bus *bus, const struct bus_outgoing *message, void *cookie);
/* Results that came in, at once. */
size_t bus_publish_results(struct bus *bus, size_t max, struct bus_result *out_results);
size_t bus_publish_outstanding(struct bus *bus);
/* Waits until every publish has its result (STATUS_OK), or timeout_ms passed (STATUS_RETRY). */
enum status bus_publish_flush(struct bus *bus, int64_t timeout_ms) MUST_CHECK;

/*
 * Plain NATS, for replies and pokes. STATUS_RETRY: no connection. STATUS_BAD_DATA: a subject or
 * header that cannot be sent (Pay-Reply-To comes from outside).
 */
enum status bus_publish_core(struct bus *bus, const struct bus_outgoing *message) MUST_CHECK;

/*
 * Core messages of a subject (wildcards allowed), up to queue_max: then the oldest give way. Waits
 * until the server knows, so that an answer to what is published next is heard.
 */
enum status bus_subscription_open(struct bus *bus, const char *subject, size_t queue_max,
                                  struct bus_subscription **out_subscription) MUST_CHECK;
size_t bus_subscription_take(struct bus_subscription *subscription, size_t max,
                             struct bus_message *out_messages);
void bus_subscription_close(struct bus_subscription *subscription);

enum { BUS_INBOX_SIZE = 64 };
/* A fresh "_INBOX.<unique>" for replies to requests (Pay-Reply-To). Returns inbox. */
char *bus_inbox_new(char inbox[BUS_INBOX_SIZE]);

/* --- JetStream's JSON API: these wait for the answer ----------------------------------------- */

struct bus_problem {
    int code;       /* HTTP-like; 0 when it was no answer of JetStream */
    int error_code; /* err_code: 10014 no such consumer, 10037 no message, 10059 no such stream … */
    const char *text; /* never NULL; arena */
};

/*
 * STATUS_RETRY: no connection, no responder, no answer in time. STATUS_NOT_FOUND: JetStream says
 * 404. STATUS_BAD_DATA: JetStream refuses. out_problem may be NULL. out_json is the whole answer
 * (arena).
 */
enum status bus_request(struct bus *bus, const char *subject, const char *json, int64_t timeout_ms,
                        struct arena *arena, const char **out_json,
                        struct bus_problem *out_problem) MUST_CHECK;

struct bus_stream_info {
    uint64_t messages;
    uint64_t bytes;
    uint64_t first_sequence;
    uint64_t last_sequence;
    int64_t created_at_us;
    uint64_t consumer_count;
};
enum status bus_stream_info(struct bus *bus, const char *stream, struct arena *arena,
                            struct bus_stream_info *out_info) MUST_CHECK;

/* The first message on a subject (wildcards allowed) that is still there, from a sequence on. */
struct bus_stored {
    uint64_t sequence;
    int64_t stored_at_us;
    const char *subject;
    const char *message_id; /* NULL if it has none */
};
enum status bus_stream_find(struct bus *bus, const char *stream, const char *subject,
                            uint64_t from_sequence, struct arena *arena,
                            struct bus_stored *out_stored) MUST_CHECK;

struct bus_consumer_info {
    uint64_t pending;
    uint64_t ack_pending;
    uint64_t redelivered;
    uint64_t waiting; /* open pull requests */
    uint64_t delivered_sequence;
    uint64_t ack_floor_sequence;
};
enum status bus_consumer_info(struct bus *bus, const char *stream, const char *durable,
                              struct arena *arena, struct bus_consumer_info *out_info) MUST_CHECK;

/* --- topology -------------------------------------------------------------------------------- */

enum bus_apply {
    BUS_APPLY_PLAN,    /* only say what would change */
    BUS_APPLY_MISSING, /* create what is not there or cannot deliver, nothing else (the relay) */
    BUS_APPLY_ALL,     /* create and update (oncepay topology apply) */
};

enum bus_change_kind {
    BUS_CHANGE_NONE,             /* as it should be */
    BUS_CHANGE_CREATE,           /* was missing; created unless planning */
    BUS_CHANGE_UPDATE,           /* differed; updated only by BUS_APPLY_ALL */
    BUS_CHANGE_BEYOND_END,       /* a consumer whose place its stream has not reached; made anew */
    BUS_CHANGE_REFUSED,          /* the server, or our own check, says no: see text */
    BUS_CHANGE_UNKNOWN_CONSUMER, /* a durable that the topology does not name; never deleted */
};
const char *bus_change_kind_name(int code);

struct bus_difference {
    const char *field;
    const char *expected; /* JSON; "absent" when it should not be there */
    const char *found;
};

struct bus_change {
    enum bus_change_kind kind;
    const char *stream;
    const char *durable; /* NULL: the stream itself */
    const struct bus_difference *differences;
    size_t difference_count;
    const char *text; /* of a refusal; else "" */
};

struct bus_report {
    const struct bus_change
        *changes; /* every stream and consumer of the topology, then unknown ones */
    size_t change_count;
};

/*
 * Idempotent. STATUS_OK: all is (or, planning, was looked at) as the topology says, except that
 * BUS_APPLY_MISSING leaves differences alone. STATUS_RETRY: no answer, apply again. STATUS_STOP: at
 * least one BUS_CHANGE_REFUSED. Everything of the report lives in the arena.
 */
enum status bus_topology_apply(struct bus *bus, const struct bus_topology *topology,
                               enum bus_apply mode, struct arena *arena,
                               struct bus_report *out_report) MUST_CHECK;

#endif
