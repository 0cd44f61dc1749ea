/*
 * stages/intake/intake_answer.h: a stored answer as it stands in the cache, and how long it may be
 * believed there. The end of its key's life stands in it, by the database's clock: however late a
 * cache is told, and whatever it makes of the time that it is told, nothing outlives its key.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_ANSWER_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_ANSWER_H

#include "stages/intake/intake_decide.h"

/* Status and end of life, headers, an empty line, body. */
struct span intake_answer_encode(const struct intake_answer *answer, int64_t expires_us,
                                 struct arena *arena);
/* Text lives in the arena, the body is borrowed. False: not such a form. */
bool intake_answer_decode(struct span bytes, struct arena *arena, struct intake_answer *out,
                          int64_t *out_expires_us) MUST_CHECK;

/*
 * When the key of an answer that has just been read or written expires, or a little earlier;
 * 0: the answer stands under no key.
 */
int64_t intake_answer_expires(const struct intake_decision *decision,
                              const struct intake_found *found, int64_t key_lifetime_us);

/* The database's clock as a process knows it from its last read. Zeroed: not at all. */
struct intake_clock {
    bool is_known;
    int64_t noted_us; /* by the monotonic clock */
    int64_t ahead_us; /* of the monotonic one, at most */
    int64_t least_us; /* of the monotonic one, at least */
};
/* database_us: what the database said to who asked at asked_us and had it at heard_us. */
void intake_clock_note(struct intake_clock *clock, int64_t asked_us, int64_t heard_us,
                       int64_t database_us);
/* The database's now, or a little later; INT64_MAX as long as it is not known. */
int64_t intake_clock_latest(const struct intake_clock *clock, int64_t monotonic_us);
/* The database's now, or a little earlier; 0 if it was not asked within the last ten seconds. */
int64_t intake_clock_earliest(const struct intake_clock *clock, int64_t monotonic_us);

#endif
