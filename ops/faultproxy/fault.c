/* ops/faultproxy/fault.c: see fault.h. */
#include "ops/faultproxy/fault.h"

#include <errno.h>

#define SETTING_MAX 1000000000

struct field {
    const char *name;
    size_t offset;
};

static const struct field SETTINGS[] = {
    { "latency_ms", offsetof(struct fault_settings, latency_ms) },
    { "jitter_ms", offsetof(struct fault_settings, jitter_ms) },
    { "rate_bytes_s", offsetof(struct fault_settings, rate_bytes_s) },
    { "slice_bytes", offsetof(struct fault_settings, slice_bytes) },
    { "break_after_bytes", offsetof(struct fault_settings, break_after_bytes) },
    { "stall", offsetof(struct fault_settings, stall) },
    { "half_open", offsetof(struct fault_settings, half_open) },
    { "refuse", offsetof(struct fault_settings, refuse) },
};

static const struct field COUNTS[] = {
    { "connections", offsetof(struct fault_counts, connections) },
    { "bytes", offsetof(struct fault_counts, bytes) },
    { "delayed", offsetof(struct fault_counts, delayed) },
    { "slowed", offsetof(struct fault_counts, slowed) },
    { "sliced", offsetof(struct fault_counts, sliced) },
    { "broken", offsetof(struct fault_counts, broken) },
    { "stalled", offsetof(struct fault_counts, stalled) },
    { "half_open", offsetof(struct fault_counts, half_open) },
    { "swallowed", offsetof(struct fault_counts, swallowed) },
    { "refusing", offsetof(struct fault_counts, refusing) },
    { "cut", offsetof(struct fault_counts, cut) },
    { "unreached", offsetof(struct fault_counts, unreached) },
};

bool fault_set(struct fault_settings *settings, const char *assignment)
{
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        const size_t length = strlen(SETTINGS[i].name);
        if (strncmp(assignment, SETTINGS[i].name, length) != 0 || assignment[length] != '=') {
            continue;
        }
        const char *text = assignment + length + 1;
        char *end = NULL;
        errno = 0;
        const long long value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0' || value < 0 || value > SETTING_MAX) {
            return false;
        }
        const int64_t number = value;
        memcpy((char *)settings + SETTINGS[i].offset, &number, sizeof number);
        return true;
    }
    return false;
}

/* splitmix64: one addition and a mix per draw, good enough to choose faults with. */
uint64_t fault_draw(uint64_t *state, uint64_t limit)
{
    INVARIANT(limit >= 1);
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ (mixed >> 31)) % limit;
}

uint64_t fault_seed(uint64_t seed, const char *name)
{
    uint64_t state = seed ^ UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *at = name; *at != '\0'; at++) {
        state = (state ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    }
    return state;
}

void fault_print(const struct fault_counts *counts, FILE *out)
{
    fputc('{', out);
    for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)counts + COUNTS[i].offset, sizeof value);
        fprintf(out, "%s\"%s\": %" PRIu64, i == 0 ? "" : ", ", COUNTS[i].name, value);
    }
    fputc('}', out);
}
