/* ops/sim/stripe_sign.h: the Stripe-Signature header of a webhook. Pure. */
#ifndef ONCEPAY_SIM_STRIPE_SIGN_H
#define ONCEPAY_SIM_STRIPE_SIGN_H

#include "ops/sim/textbuf.h"

/* Appends "Stripe-Signature: t=<now>,v1=<HMAC-SHA256 over t.body, lower-case hex>". */
void stripe_sign_header(const char *secret, int64_t now_s, struct span body, struct textbuf *out);

#endif
