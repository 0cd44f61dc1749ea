/* stages/relay/relay_sweep.c: see relay_sweep.h. */
#include "stages/relay/relay_sweep.h"

bool relay_sweep_has_unmoved(const struct relay_sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++) {
        if (sweep->rows[i].is_unmoved) return true;
    }
    return false;
}

struct relay_sweep_end relay_sweep_decide(struct relay_sweep *sweep)
{
    struct relay_sweep_end end = { .mark_us = sweep->horizon_us };
    if (sweep->is_full && sweep->count > 0) end.mark_us = sweep->rows[sweep->count - 1].created_us;
    int64_t emitted_us = INT64_MIN;
    for (size_t i = 0; i < sweep->count; i++) {
        struct relay_sweep_row *row = &sweep->rows[i];
        if (!row->is_unmoved) continue;
        const bool is_left = row->created_us >= sweep->oldest_left_us;
        const bool is_too_many = end.emitted >= sweep->allowance && row->created_us != emitted_us;
        if (is_left || is_too_many) {
            end.mark_us = row->created_us - 1;
            end.is_held = true;
            end.is_left = is_left;
            return end;
        }
        row->is_emitted = true;
        end.emitted++;
        emitted_us = row->created_us;
    }
    return end;
}

uint64_t relay_standstill_left_from(struct relay_standstill *still, uint64_t ack_floor,
                                    uint64_t delivered, int64_t now_us, int64_t limit_us)
{
    if (delivered < still->delivered) *still = (struct relay_standstill){ 0 }; /* made anew */
    if (still->since_us == 0 || ack_floor != still->floor) {
        still->floor = ack_floor;
        still->delivered = delivered;
        still->since_us = now_us;
    } else if (now_us - still->since_us >= limit_us) {
        still->given_up = still->delivered;
        still->delivered = delivered;
        still->since_us = now_us;
    }
    return (ack_floor > still->given_up ? ack_floor : still->given_up) + 1;
}
