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
struct uuid intake_render_id(const struct bus_message *message);

#endif
