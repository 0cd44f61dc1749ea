/*
 * stages/route/route_handle.h: what the batch loop calls for route: the batch, and after the commit
 * its commands and disposals.
 */
#ifndef ONCEPAY_STAGES_ROUTE_ROUTE_HANDLE_H
#define ONCEPAY_STAGES_ROUTE_ROUTE_HANDLE_H

#include "stages/stage.h"

/* stage_work.handle; self is the struct route_desk. */
enum status route_handle(struct stage *stage, void *self, struct stage_item *const *items,
                         size_t count, struct arena *arena);

#endif
