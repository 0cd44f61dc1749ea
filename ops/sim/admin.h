/*
 * ops/sim/admin.h: /_sim/...: what tests and demos ask of the simulator itself. Listed in
 * ops/sim/README.md.
 */
#ifndef ONCEPAY_SIM_ADMIN_H
#define ONCEPAY_SIM_ADMIN_H

#include "ops/sim/sim.h"

/* path is what follows /_sim: "/ledger". */
void admin_handle(struct sim *sim, const char *path, struct exchange *exchange);

#endif
