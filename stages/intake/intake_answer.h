/*
 * stages/intake/intake_answer.h: a stored answer as one piece of bytes, as it stands in the cache.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_ANSWER_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_ANSWER_H

#include "store/intake_store.h"

/* Status line, headers, an empty line, body. */
struct span intake_answer_encode(const struct intake_answer *answer, struct arena *arena);
/* Text lives in the arena, the body is borrowed. False: not such a form. */
bool intake_answer_decode(struct span bytes, struct arena *arena,
                          struct intake_answer *out) MUST_CHECK;

#endif
