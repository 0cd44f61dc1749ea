/*
 * stages/intake/intake_render.h: what a decided batch says and writes: answers, events, kept
 * messages, and the rows of accepted payments. Pure, but for the ids that it draws.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_RENDER_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_RENDER_H

#include "stages/intake/intake_batch.h"

/* views: the present state of the payments that refusals name. */
void intake_render(struct intake_batch *batch, const struct payment_view *views, size_t view_count,
                   struct intake_writes *out_writes);

/*
 * The id of what is written about one message beside payments. It is made from the message, so a
 * redelivery meets its own rows; its time is when the message was stored.
 */
struct uuid intake_message_id(const struct bus_message *message);

/* The form of an answer in the cache: status line, headers, an empty line, body. */
struct span intake_answer_encode(const struct intake_answer *answer, struct arena *arena);
/* Text lives in the arena, the body is borrowed. False: not such a form. */
bool intake_answer_decode(struct span bytes, struct arena *arena,
                          struct intake_answer *out) MUST_CHECK;

#endif
