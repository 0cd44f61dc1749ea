/*
 * pipeline/bus.h: JetStream as the stages need it: messages that wait are pulled in batches,
 * each is disposed of exactly once, and publishing is asynchronous with a known outcome.
 * Here stand the structs and the rules for subjects; adapters/nats/bus_nats.h has the functions.
 */
#ifndef ONCEPAY_PIPELINE_BUS_H
#define ONCEPAY_PIPELINE_BUS_H

#include "pipeline/arena.h"

struct bus;
struct bus_consumer;
struct bus_subscription;

struct bus_header {
    const char *name; /* lower case */
    const char *value;
};

/* A message in hand. Valid until it is disposed of (ack, nak, term; release for core messages). */
struct bus_message {
    const char *subject;
    const char *reply; /* of a core message: where an answer goes, NULL if nowhere; else NULL */
    struct span body;
    const struct bus_header *headers;
    size_t header_count;
    bool headers_malformed;   /* they could not be read: header_count is 0 then */
    uint64_t stream_sequence; /* 0 for a core message */
    uint64_t deliveries;      /* hint only, never an attempt count (protocol H6) */
    int64_t stored_at_us;     /* the server's time of storing, microseconds since the epoch */
    void *handle;             /* the adapter's own; NULL once disposed of */
};

/* Case-folded look-up; NULL when absent. */
const char *bus_message_header(const struct bus_message *message, const char *name);

struct bus_outgoing {
    const char *subject;
    struct span body;
    const struct bus_header *headers;
    size_t header_count;
    const char *message_id;      /* Nats-Msg-Id; NULL for core publishes */
    const char *expected_stream; /* refused if another stream took it; NULL to not care */
    const char *reply;           /* core publishes only; NULL when no answer is wanted */
};

/* What became of one publish. All but BUS_STORED may be repeated with the same message id. */
enum bus_outcome {
    BUS_STORED = 1,        /* in the stream (again or for the first time: see duplicate) */
    BUS_NOT_SENT,          /* nothing left: no connection, or too many outstanding */
    BUS_OUTCOME_UNKNOWN,   /* no answer in time, or the connection broke: it may be stored */
    BUS_REFUSED_FULL,      /* the stream or the server is full: wait, this is back-pressure */
    BUS_REFUSED_NO_STREAM, /* nobody stores this subject now: topology missing, or an election */
    BUS_REFUSED_TOO_BIG,   /* permanent for this body */
    BUS_REFUSED,           /* permanent, or a bug: see error_code */
};
const char *bus_outcome_name(int code);

struct bus_result {
    void *cookie;
    enum bus_outcome outcome;
    bool duplicate;    /* stored before under this message id, within the server's window */
    uint64_t sequence; /* BUS_STORED: place in the stream */
    int error_code;    /* JetStream's err_code, 0 if it gave none */
};

enum bus_retention {
    BUS_WORK_QUEUE, /* a message leaves when it is acked */
    BUS_LIMITS,     /* a message leaves by age or limit */
};

struct bus_stream_spec {
    const char *name;
    const char *const *subjects;
    size_t subject_count;
    enum bus_retention retention;
    bool discard_old; /* false: a full stream refuses the publish (back-pressure) */
    int64_t messages_max;
    int64_t bytes_max;
    int64_t age_max_s; /* 0: for ever */
    int64_t message_bytes_max;
    int64_t replicas;
    int64_t duplicate_window_s;
};

/* A durable pull consumer, explicit ack, from the first message on, redelivering for ever. */
struct bus_consumer_spec {
    const char *stream;
    const char *durable;
    const char *filter_subject; /* NULL: the whole stream */
    int64_t ack_wait_s;
    int64_t ack_pending_max;
};

struct bus_topology {
    const struct bus_stream_spec *streams;
    size_t stream_count;
    const struct bus_consumer_spec *consumers;
    size_t consumer_count;
};

/* NULL if there is none. */
const struct bus_stream_spec *bus_topology_stream(const struct bus_topology *topology,
                                                  const char *name);
const struct bus_consumer_spec *bus_topology_consumer(const struct bus_topology *topology,
                                                      const char *stream, const char *durable);

/*
 * STATUS_STOP with a sentence in out_error (arena) if two streams share a subject, two consumers
 * of a work queue could get the same message, a filter lies outside its stream, or a name is not
 * a token. The server does not check all of this on updates, so we do it before each apply.
 */
enum status bus_topology_check(const struct bus_topology *topology, struct arena *arena,
                               const char **out_error) MUST_CHECK;

enum { BUS_SUBJECT_LENGTH_MAX = 255 };

/* A subject that can be published to: printable ASCII, no blanks, no wildcards, no empty token. */
bool bus_subject_is_valid(const char *subject);
/* Does the filter (with * and >) take this subject, or all that this narrower filter takes? */
bool bus_subject_matches(const char *filter, const char *subject);
/* Is there a subject that both filters take? */
bool bus_subject_overlaps(const char *a, const char *b);

#endif
