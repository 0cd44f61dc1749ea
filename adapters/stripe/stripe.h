/*
 * adapters/stripe/stripe.h: Stripe's payment intents (API v1) as a psp_ops. Pure functions: bytes
 * in, bytes out. Built so far: create with automatic capture, retrieve, replay, and the
 * payment_intent.* events.
 */
#ifndef ONCEPAY_ADAPTERS_STRIPE_H
#define ONCEPAY_ADAPTERS_STRIPE_H

#include "pipeline/psp.h"

/* Sent with every request and stored with it: what Stripe answers to is part of what was asked. */
#define STRIPE_API_VERSION "2026-10-28.endive"

extern const struct psp_ops stripe_ops;

#endif
