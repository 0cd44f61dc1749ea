/*
 * stages/settle/settle_view.h: how a decided payment looks to the outside: its next action and its
 * event. Nothing here says who found out: the same end gives the same body, by whatever way it
 * was proven.
 */
#ifndef ONCEPAY_STAGES_SETTLE_SETTLE_VIEW_H
#define ONCEPAY_STAGES_SETTLE_SETTLE_VIEW_H

#include "stages/settle/settle_decide.h"

/* The next_action that the payment has after this move, as a JSON map in the arena; NULL: none. */
const char *settle_next_action(const struct settle_facts *facts,
                               const struct settle_decision *decision, struct arena *arena);

/* decision->event must not be 0. */
struct payment_event settle_event(const struct settle_facts *facts,
                                  const struct settle_decision *decision, const char *next_action,
                                  struct arena *arena);

#endif
