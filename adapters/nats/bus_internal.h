/*
 * adapters/nats/bus_internal.h: what the files of this folder share. One lock guards all queues and
 * flags; it is never held while libnats is called, and libnats never holds one of its own while it
 * calls us. What libnats may still call back with (links, feeds) is freed only after it has said
 * that it is done with it.
 */
#ifndef ONCEPAY_ADAPTERS_NATS_BUS_INTERNAL_H
#define ONCEPAY_ADAPTERS_NATS_BUS_INTERNAL_H

#include "adapters/nats/bus_nats.h"

#include <jansson.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    BUS_PULL_EXPIRES_MS = 5000,
    BUS_PULL_HEARTBEAT_MS = 1000,
    BUS_PULL_SILENCE_MS = 2500,
    BUS_PULL_SILENT_ROUNDS_MAX = 3,
    BUS_PULL_BACKOFF_MIN_MS = 250,
    BUS_PULL_BACKOFF_MAX_MS = 5000,
    BUS_INFO_INTERVAL_MS = 5000,
    BUS_INFO_MISSING_INTERVAL_MS = 1000,
    BUS_HAND_BACK_PAUSED_MS = 1000,
    BUS_HAND_BACK_DRAIN_MS = 200,
};

/* JetStream's err_code as far as we act on it. */
enum {
    JS_INSUFFICIENT_RESOURCES = 10023,
    JS_MEMORY_EXCEEDED = 10028,
    JS_CONSUMER_NOT_FOUND = 10014,
    JS_NO_MESSAGE_FOUND = 10037,
    JS_STORAGE_EXCEEDED = 10047,
    JS_MESSAGE_TOO_BIG = 10054,
    JS_STREAM_NOT_FOUND = 10059,
    JS_STORE_FAILED = 10077, /* a limit of the stream is reached */
};

/*
 * PUBLISH and PULL write each message at once, which is quickest when there is one. BULK gathers
 * them for about a millisecond, which costs sender and server half as much when there are many.
 */
enum bus_role { BUS_ROLE_PUBLISH, BUS_ROLE_PULL, BUS_ROLE_BULK, BUS_ROLE_COUNT };

/* One connection. libnats gives up for good after two equal authorization errors; then upkeep
 * makes a new one. */
struct bus_link {
    struct bus *bus;
    natsConnection *connection;
    atomic_bool connected;
    bool closed;         /* guarded: libnats has given up */
    unsigned closes_due; /* guarded: connections whose closed callback has not come */
    int64_t reopen_at_ms;
    int64_t reopen_wait_ms;
};

/* One subject that libnats feeds us, on whichever connection stands. */
struct bus_feed {
    struct bus *bus;
    struct bus_link *link;
    struct bus_feed *next; /* all feeds of the bus */
    char *subject;
    void (*on_message)(void *owner, natsMsg *message); /* takes the message; on libnats' thread */
    void *owner;
    natsSubscription *subscription; /* NULL: not subscribed (never was, or drained) */
    unsigned completions_due;       /* guarded: subscriptions that may still call */
    bool is_closed;                 /* the owner is gone or going: not to be subscribed again */
};

/* A libnats message on its way to the owner, or in its hands. */
struct bus_delivery {
    struct bus_delivery *next;
    struct bus *bus;
    natsMsg *message;
    bool is_core;
    void *headers; /* one block: the array, then the lower-case names */
};

struct bus_delivery_queue {
    struct bus_delivery *first;
    struct bus_delivery **end;
    size_t count;
};

struct bus_slot {
    void *cookie;
    int64_t deadline_ms;
    uint32_t generation;
    bool is_used;
};

struct bus_publisher {
    char inbox[BUS_INBOX_SIZE];
    struct bus_feed *feed;
    struct bus_slot slots[BUS_OUTSTANDING_MAX];
    uint32_t free_slots[BUS_OUTSTANDING_MAX];
    size_t free_count;
    struct bus_result *results; /* ring */
    size_t result_capacity;
    size_t result_first;
    size_t result_count;
    int64_t next_expiry_ms; /* no slot expires before */
};

/* Everything libnats made for us that must outlive the moment we let go of it. */
struct bus_retired {
    struct bus_retired *next;
    natsSubscription *subscription;
    natsConnection *connection;
};

struct bus {
    char *url;
    char *name;
    char *ca_file;
    const volatile sig_atomic_t *stop;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* results, completions, closes; monotonic clock */
    int wake_fd;
    atomic_bool is_awake;
    atomic_int_least64_t burst_tick;  /* the moment that sends are counted in … */
    atomic_int_least32_t burst_sends; /* … and how many there were */
    struct bus_stats stats;
    struct bus_link links[BUS_ROLE_COUNT];
    struct bus_feed *feeds;
    struct bus_retired *retired;
    struct bus_publisher publisher;
    struct bus_consumer *consumers;
};

struct bus_consumer {
    struct bus *bus;
    struct bus_consumer *next;
    struct bus_feed *feed;
    char *stream;
    char *durable;
    char *inbox;
    json_t *expected; /* read-only after open: the callback compares with it */
    json_t *must_be_absent;
    char *problem; /* as told to the owner */
    /* guarded: */
    struct bus_delivery_queue queue;
    size_t want;
    size_t outstanding; /* asked for and neither come nor called off */
    uint64_t request_number;
    uint64_t request_valid_from; /* statuses of earlier requests mean nothing any more */
    int64_t heard_ms;
    int64_t not_before_ms;
    int64_t backoff_ms;
    unsigned silent_rounds;
    bool is_paused;
    bool is_draining;
    bool is_missing;
    bool is_mismatched;
    char *trouble; /* the last bad news; NULL when all is well */
    int64_t info_asked_ms;
    int64_t info_answered_ms; /* 0: never */
    struct bus_lag lag;
};

struct bus_subscription {
    struct bus *bus;
    struct bus_feed *feed;
    struct bus_delivery_queue queue; /* guarded */
    size_t queue_max;
};

/*
 * Our own inboxes: deliveries, acks and API answers come here, with everybody's requests in them. A
 * merchant's user may listen below _INBOX, so they are elsewhere.
 */
#define BUS_OWN_INBOX "oncepay.inbox"
/* A fresh "oncepay.inbox.<unique>". Returns inbox. */
char *bus_own_inbox_new(char inbox[BUS_INBOX_SIZE]);

int64_t bus_now_ms(void);
/* Makes bus_fd readable. Any thread. */
void bus_wake(struct bus *bus);
/* Reopens what libnats gave up, expires publishes. The owner's thread. */
void bus_upkeep(struct bus *bus);

/* The connection to send by: that of the role, or in a burst BULK's. */
natsConnection *bus_sender(struct bus *bus, enum bus_role role);

static inline struct bus_link *bus_link(struct bus *bus, enum bus_role role)
{
    return &bus->links[role];
}
static inline natsConnection *bus_connection(struct bus *bus, enum bus_role role)
{
    pthread_mutex_lock(&bus->lock);
    natsConnection *connection = bus->links[role].connection;
    pthread_mutex_unlock(&bus->lock);
    return connection;
}
/* With the lock. Destroyed with the bus: libnats 3.4.1 may crash on what is destroyed while
 * messages arrive. */
void bus_retire(struct bus *bus, natsSubscription *subscription, natsConnection *connection);
/* Text to a reply subject; counts failures. Any thread, without the lock. */
void bus_dispose(struct bus *bus, const char *reply, const char *text);
void bus_hand_back(struct bus *bus, natsMsg *message, int64_t delay_ms);

/* bus_feed.c */
struct bus_feed *bus_feed_open(struct bus *bus, enum bus_role role, const char *subject,
                               void (*on_message)(void *owner, natsMsg *message), void *owner);
enum status bus_feed_subscribe(struct bus_feed *feed) MUST_CHECK;
/* All feeds of a link, after its connection was made anew. */
void bus_feed_resubscribe(struct bus_link *link);
/* No new messages; what was sent already still comes, at most timeout_ms. */
void bus_feed_drain(struct bus_feed *feed, int64_t timeout_ms);
/* Drains if that was not done, and frees when libnats is done with it. */
void bus_feed_close(struct bus_feed *feed, int64_t timeout_ms);
/* Waits, with the lock held, until *due is 0 or timeout_ms passed. */
bool bus_wait_for_zero(struct bus *bus, const unsigned *due, int64_t timeout_ms);

/* bus_message.c */
struct bus_delivery *bus_delivery_new(struct bus *bus, natsMsg *message, bool is_core);
void bus_delivery_free(struct bus_delivery *delivery);
void bus_delivery_open(struct bus_delivery *delivery, struct bus_message *out_message);
void bus_queue_init(struct bus_delivery_queue *queue);
void bus_queue_push(struct bus_delivery_queue *queue, struct bus_delivery *delivery);
struct bus_delivery *bus_queue_pop(struct bus_delivery_queue *queue);
/* The status code of a JetStream or NATS status message ("408"), 0 if it is none. */
int bus_message_status(natsMsg *message);

/* bus_publish.c */
void bus_publisher_init(struct bus *bus);
void bus_publisher_finish(struct bus *bus);
void bus_publisher_expire(struct bus *bus);
/* Nobody will get the answers any more: everything outstanding is unknown. */
void bus_publisher_disconnected(struct bus *bus);

/* bus_consumer.c */
void bus_consumer_disconnected(struct bus *bus);
void bus_consumer_reconnected(struct bus *bus);

/* bus_request.c: reads {"error": …}; true if there is one. */
bool bus_problem_read(const json_t *answer, struct bus_problem *out_problem, struct arena *arena);

/* bus_spec.c: a stream or consumer as JetStream's JSON. The caller owns the value. */
json_t *bus_spec_stream(const struct bus_stream_spec *stream);
json_t *bus_spec_consumer(const struct bus_consumer_spec *consumer);
/* Fields that a topology never sets, so they must be absent or empty; the caller owns the value. */
json_t *bus_spec_stream_absent(void);
json_t *bus_spec_consumer_absent(const struct bus_consumer_spec *consumer);
/* Every difference of found to expected. */
size_t bus_spec_compare(const json_t *expected, const json_t *absent, const json_t *found,
                        struct arena *arena, const struct bus_difference **out_differences);
/* "stream PAY_ROUTE: field max_bytes: expected 5, found 6"; arena. */
const char *bus_spec_sentence(const char *what, const char *name,
                              const struct bus_difference *differences, size_t count,
                              struct arena *arena);

#endif
