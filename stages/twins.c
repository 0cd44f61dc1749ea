/* stages/twins.c: see twins.h. Open addressing, never more than half full. */
#include "stages/twins.h"

void twins_clear(struct twins *twins)
{
    memset(twins, 0, sizeof *twins);
}

bool twins_add(struct twins *twins, struct uuid id)
{
    if (uuid_is_nil(id)) {
        const bool is_new = !twins->has_nil;
        twins->has_nil = true;
        return is_new;
    }
    size_t at = uuid_fnv1a(id) % COUNT_OF(twins->slots);
    while (!uuid_is_nil(twins->slots[at])) {
        if (uuid_equal(twins->slots[at], id)) return false;
        at = (at + 1) % COUNT_OF(twins->slots);
    }
    INVARIANT(twins->count < TWINS_MAX);
    twins->slots[at] = id;
    twins->count++;
    return true;
}
