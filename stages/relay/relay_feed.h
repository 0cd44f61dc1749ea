/*
 * stages/relay/relay_feed.h: from the outbox into the queue, and the marks behind it: the half of
 * the event relay that talks to the database. Two readers fill the queue: one reads what is new,
 * the other, after a stream lost what it held, what that stream gets again.
 *
 * While something is republished, a new event of a payment brings the payment's earlier events
 * with it, so that also in the new stream each first copy follows that of its predecessor.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_FEED_H
#define ONCEPAY_STAGES_RELAY_RELAY_FEED_H

#include "stages/relay/relay_queue.h"
#include "stages/relay/relay_reader.h"
#include "store/relay_store.h"

enum { RELAY_POSITION_NAME_SIZE = 48, RELAY_STREAM_CREATED_SIZE = 40 };

/* What was last known of the event stream: it never gets older or shorter by itself. */
struct relay_stream_known {
    char created[RELAY_STREAM_CREATED_SIZE]; /* "": nothing is known yet */
    uint64_t last_sequence;
};

struct relay_feed_options {
    struct store *store;
    struct relay_queue *queue;
    int32_t shard;
    int32_t page_limit;      /* events read at once */
    size_t queue_max;        /* events in hand; above it nothing is read */
    int64_t republish_per_s; /* cap */
};

struct relay_feed {
    struct relay_feed_options options;
    struct relay_claim claim;
    char event_name[RELAY_POSITION_NAME_SIZE];
    char republish_name[RELAY_POSITION_NAME_SIZE];
    struct relay_reader fresh;
    struct relay_reader old;     /* base NULL: nothing is republished */
    bool is_old_read;            /* all of it is in the queue, or through */
    int64_t republish_tokens_us; /* a bucket: microseconds' worth of events */
    int64_t republish_filled_us;
    int64_t base_at_us;      /* database's time of the fresh reader's base */
    int64_t clock_offset_us; /* database's clock minus the monotonic one */
    struct relay_stream_known stream;
    bool is_stream_changed; /* since it was saved */
    /* Saved marks. */
    int64_t saved_mark;
    int64_t saved_old_mark;
    int64_t saved_us;
    uint64_t confirmed; /* events, now and when last saved */
    uint64_t saved_confirmed;
};

void relay_feed_init(struct relay_feed *feed, const struct relay_feed_options *options);
void relay_feed_finish(struct relay_feed *feed);

/*
 * Begins where the shard's marks stand; the claim is held. The queue is emptied. In another
 * database than the marks are from (restored from a dump) the transactions' numbers say nothing:
 * then what was written since shortly before the mark's time is published again.
 */
enum status relay_feed_start(struct relay_feed *feed, const struct relay_claim *claim,
                             int64_t monotonic_us) MUST_CHECK;

/*
 * Reads one page of new events into the queue. *out_has_more: read again as soon as there is room.
 * STATUS_LOST_RACE: the session is not ours any more; claim and start again.
 */
enum status relay_feed_poll(struct relay_feed *feed, int64_t monotonic_us,
                            bool *out_has_more) MUST_CHECK;
/* The same for what is republished, as far as the cap allows. */
enum status relay_feed_poll_old(struct relay_feed *feed, int64_t monotonic_us) MUST_CHECK;

/* How many events were confirmed so far, and how long the stream is by what they tell. */
void relay_feed_confirmed(struct relay_feed *feed, uint64_t confirmed, uint64_t last_sequence);

/* Saves what moved; cheap when nothing did. now: also when it is not due yet. */
enum status relay_feed_save(struct relay_feed *feed, int64_t monotonic_us, bool now) MUST_CHECK;

/*
 * The stream has lost what was published from this transaction on: publish it again, and read
 * what is unconfirmed anew. Nothing may be in flight. stream: what it is now. Saved at once.
 */
enum status relay_feed_republish(struct relay_feed *feed, int64_t from_xid,
                                 const struct relay_stream_known *stream,
                                 int64_t monotonic_us) MUST_CHECK;

/* Otherwise relay_feed_poll reads nothing. */
bool relay_feed_has_room(const struct relay_feed *feed);
bool relay_feed_is_republishing(const struct relay_feed *feed);
/* The database's clock, as of the last answer. */
int64_t relay_feed_now_us(const struct relay_feed *feed, int64_t monotonic_us);

#endif
