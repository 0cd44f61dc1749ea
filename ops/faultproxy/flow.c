/* ops/faultproxy/flow.c: see flow.h. */
#include "ops/faultproxy/flow.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 16 * 1024,
    WAITING_BYTES_MAX = 1024 * 1024, /* then the source has to wait, as behind a full buffer */
    SLICE_GAP_US = 300,              /* between slices, so that they become segments of their own */
};

struct chunk {
    struct chunk *next;
    int64_t due_us;
    size_t length;
    size_t written;
    uint8_t data[CHUNK_BYTES];
};

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool flow_has_room(const struct flow *flow)
{
    return !flow->is_ended && flow->waiting_bytes < WAITING_BYTES_MAX;
}

static void append(struct flow *flow, struct chunk *chunk)
{
    if (flow->last == NULL) {
        flow->first = chunk;
    } else {
        flow->last->next = chunk;
    }
    flow->last = chunk;
    flow->waiting_bytes += chunk->length;
}

static int64_t draw_due_us(struct flow *flow, const struct flow_rules *rules, int64_t now_us)
{
    const struct fault_settings *settings = rules->settings;
    int64_t wait_ms = settings->latency_ms;
    if (settings->jitter_ms > 0) {
        wait_ms += (int64_t)fault_draw(rules->draws, (uint64_t)settings->jitter_ms + 1);
    }
    if (wait_ms > 0) rules->counts->delayed++;
    const int64_t due_us = now_us + wait_ms * 1000;
    flow->last_due_us = due_us > flow->last_due_us ? due_us : flow->last_due_us;
    return flow->last_due_us;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

enum flow_step flow_read(struct flow *flow, int fd, const struct flow_rules *rules, int64_t now_us)
{
    struct chunk *chunk = memory_allocate(sizeof *chunk);
    const ssize_t length = recv(fd, chunk->data, sizeof chunk->data, MSG_DONTWAIT);
    if (length <= 0) {
        free(chunk);
        if (length == 0) flow->is_ended = true;
        return length == 0 || would_block() ? FLOW_MOVED : FLOW_BROKEN;
    }
    chunk->length = (size_t)length;
    chunk->due_us = draw_due_us(flow, rules, now_us);
    rules->counts->bytes += chunk->length;
    append(flow, chunk);
    return FLOW_MOVED;
}

/* How much of the first chunk may go in one write. */
static size_t allowed_length(const struct chunk *chunk, const struct flow_rules *rules)
{
    const struct fault_settings *settings = rules->settings;
    const size_t left = chunk->length - chunk->written;
    int64_t allowed = (int64_t)left;
    if (settings->slice_bytes > 0) allowed = min_i64(allowed, settings->slice_bytes);
    if (settings->rate_bytes_s > 0) { /* a twentieth of a second at a time */
        allowed = min_i64(allowed, settings->rate_bytes_s / 20 + 1);
    }
    if ((size_t)allowed < left) rules->counts->sliced++;
    return (size_t)allowed;
}

static void plan_next_write(struct flow *flow, const struct flow_rules *rules, size_t length,
                            int64_t now_us)
{
    const struct fault_settings *settings = rules->settings;
    if (settings->slice_bytes > 0) flow->next_write_us = now_us + SLICE_GAP_US;
    if (settings->rate_bytes_s > 0) {
        flow->next_write_us = now_us + (int64_t)length * 1000000 / settings->rate_bytes_s;
        rules->counts->slowed++;
    }
}

static void drop_first(struct flow *flow)
{
    struct chunk *chunk = flow->first;
    flow->first = chunk->next;
    if (flow->first == NULL) flow->last = NULL;
    free(chunk);
}

enum flow_step flow_write(struct flow *flow, int fd, const struct flow_rules *rules, int64_t now_us)
{
    while (flow_due_us(flow) <= now_us) {
        struct chunk *chunk = flow->first;
        const size_t length = allowed_length(chunk, rules);
        const ssize_t written =
            send(fd, chunk->data + chunk->written, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written < 0) return would_block() ? FLOW_MOVED : FLOW_BROKEN;
        chunk->written += (size_t)written;
        flow->waiting_bytes -= (size_t)written;
        plan_next_write(flow, rules, (size_t)written, now_us);
        if (chunk->written == chunk->length) drop_first(flow);
    }
    if (flow->is_ended && flow->first == NULL && !flow->is_passed_on) {
        flow->is_passed_on = true;
        (void)shutdown(fd, SHUT_WR); /* a side that is gone already hears nothing */
    }
    return FLOW_MOVED;
}

int64_t flow_due_us(const struct flow *flow)
{
    if (flow->first == NULL) return INT64_MAX;
    return flow->first->due_us > flow->next_write_us ? flow->first->due_us : flow->next_write_us;
}

void flow_finish(struct flow *flow)
{
    while (flow->first != NULL) drop_first(flow);
    *flow = (struct flow){ .is_ended = true };
}
