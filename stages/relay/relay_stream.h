/*
 * stages/relay/relay_stream.h: is everything there that messages go to, and is the event stream
 * still the one that it was? Missing streams and consumers are made, differing ones left alone. A
 * stream that is younger or shorter than it was known to be has lost events: they are published
 * again without a person (protocol H2).
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_STREAM_H
#define ONCEPAY_STAGES_RELAY_RELAY_STREAM_H

#include "stages/relay/relay_feed.h"
#include "stages/relay/relay_publisher.h"

enum relay_stream_news {
    RELAY_STREAM_SAME = 1,
    RELAY_STREAM_UNKNOWN, /* nothing was known of it */
    RELAY_STREAM_NEW,     /* another one: all that it is to hold is lost */
    RELAY_STREAM_SHORTER, /* its end is lost */
};
/* Pure. created: of the stream now; rolled_back_at: see relay_publisher. */
enum relay_stream_news relay_stream_compare(const struct relay_stream_known *known,
                                            const char *created, uint64_t last_sequence,
                                            uint64_t rolled_back_at);

struct relay_stream {
    struct bus *bus;
    const struct bus_topology *topology;
    int64_t age_max_us; /* what the event stream holds */
    int64_t looked_us;  /* monotonic; 0: never */
    int64_t applied_us;
    bool is_unanswered;               /* the last look: look again soon */
    char problem[RELAY_PROBLEM_SIZE]; /* "": all is there */
    char differs[RELAY_PROBLEM_SIZE]; /* what was last reported as differing */
};

/*
 * Looks when it is due, or the publisher wants it. STATUS_RETRY: NATS or PostgreSQL did not answer;
 * it is due again soon. STATUS_LOST_RACE: the session is not ours any more.
 */
enum status relay_stream_look(struct relay_stream *stream, struct relay_publisher *publisher,
                              struct relay_feed *feed, int64_t monotonic_us) MUST_CHECK;

#endif
