/*
 * stages/twins.h: what a batch holds already. A batch has each payment or attempt once; a second
 * message about it waits for the next.
 */
#ifndef ONCEPAY_STAGES_TWINS_H
#define ONCEPAY_STAGES_TWINS_H

#include "pipeline/id.h"

enum { TWINS_MAX = 1024 };

struct twins {
    struct uuid slots[2 * TWINS_MAX]; /* nil: free */
    size_t count;
    bool has_nil;
};

void twins_clear(struct twins *twins);
/* False if it is there already. At most TWINS_MAX between two clears. */
bool twins_add(struct twins *twins, struct uuid id);

#endif
