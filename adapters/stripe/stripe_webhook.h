/* adapters/stripe/stripe_webhook.h: psp_ops.verify_webhook for Stripe (research psp.md §1.4). */
#ifndef ONCEPAY_ADAPTERS_STRIPE_WEBHOOK_H
#define ONCEPAY_ADAPTERS_STRIPE_WEBHOOK_H

#include "pipeline/psp.h"

enum status stripe_verify_webhook(const struct psp_account *account,
                                  const struct http_header *headers, size_t header_count,
                                  struct span body, int64_t now_s, struct arena *arena,
                                  struct observation *out, const char **out_error);

#endif
