/* ops/sim/admin_webhook.h: POST /_sim/webhook: an event as a test wants it, true or not. */
#ifndef ONCEPAY_SIM_ADMIN_WEBHOOK_H
#define ONCEPAY_SIM_ADMIN_WEBHOOK_H

#include "ops/sim/sim.h"

void admin_webhook_post(struct sim *sim, json_t *json, struct exchange *exchange);

#endif
