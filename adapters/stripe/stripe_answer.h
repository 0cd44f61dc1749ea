/* adapters/stripe/stripe_answer.h: psp_ops.parse for Stripe (research psp.md §1.2). */
#ifndef ONCEPAY_ADAPTERS_STRIPE_ANSWER_H
#define ONCEPAY_ADAPTERS_STRIPE_ANSWER_H

#include "pipeline/psp.h"

void stripe_parse(enum operation operation, enum request_kind kind,
                  const struct http_answer *answer, struct arena *arena, struct observation *out);

#endif
