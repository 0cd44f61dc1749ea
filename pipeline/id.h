/*
 * pipeline/id.h: UUIDv7 (RFC 9562 §5.7) ids, one struct type per kind, so that the compiler
 * refuses swaps. Ids are drawn when a fact is observed, not when it is written: a repeated
 * write meets its own primary key (protocol H5).
 */
#ifndef ONCEPAY_PIPELINE_ID_H
#define ONCEPAY_PIPELINE_ID_H

#include "pipeline/base.h"

struct uuid {
    uint8_t bytes[16];
};

struct payment_id {
    struct uuid uuid;
};
struct attempt_id {
    struct uuid uuid;
};
struct request_id {
    struct uuid uuid;
};
struct evidence_id {
    struct uuid uuid;
};
struct outbox_id {
    struct uuid uuid;
};
struct task_id {
    struct uuid uuid;
};
struct case_id {
    struct uuid uuid;
};
struct inbox_id {
    struct uuid uuid;
};

enum { UUID_TEXT_SIZE = 37 };

/*
 * A new UUIDv7: time-ordered, strictly increasing within the process even if the clock goes back.
 */
struct uuid uuid_new(void);
/* Writes the 36 lower-case characters and NUL. Returns text. */
char *uuid_format(struct uuid uuid, char text[UUID_TEXT_SIZE]);
/* Accepts exactly the 36-character form, either case. out untouched on failure. */
bool uuid_parse(const char *text, struct uuid *out);
bool uuid_is_nil(struct uuid uuid);

static inline int uuid_compare(struct uuid a, struct uuid b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes);
}
static inline bool uuid_equal(struct uuid a, struct uuid b)
{
    return uuid_compare(a, b) == 0;
}

/* FNV-1a, 32 bit, over the 36-character text form: equals nats-server's partition() mapping. */
uint32_t uuid_fnv1a(struct uuid uuid);

enum { SHARD_COUNT = 16 };
/* The shard token of pay.route.<shard> and pay.settle.<shard> (design §3). */
static inline unsigned payment_shard(struct payment_id payment)
{
    return uuid_fnv1a(payment.uuid) % SHARD_COUNT;
}

#endif
