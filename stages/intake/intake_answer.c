/* stages/intake/intake_answer.c: see intake_answer.h. */
#include "stages/intake/intake_answer.h"

#include "pipeline/buffer.h"
#include "pipeline/clock.h"

struct span intake_answer_encode(const struct intake_answer *answer, int64_t expires_us,
                                 struct arena *arena)
{
    struct buffer out = { .arena = arena };
    buffer_add_integer(&out, answer->status);
    buffer_add_byte(&out, ' ');
    buffer_add_integer(&out, expires_us);
    buffer_add_byte(&out, '\n');
    buffer_add_text(&out, answer->headers);
    buffer_add_byte(&out, '\n');
    buffer_add(&out, answer->body.data, answer->body.length);
    return buffer_span(&out);
}

/* Digits up to the byte that ends them. */
static bool read_number(struct span bytes, char end, size_t digits_max, size_t *at, int64_t *out)
{
    const size_t start = *at;
    int64_t number = 0;
    for (; *at < bytes.length && bytes.data[*at] != (uint8_t)end; (*at)++) {
        const uint8_t digit = bytes.data[*at];
        if (digit < '0' || digit > '9' || *at - start == digits_max) return false;
        number = number * 10 + (digit - '0');
    }
    if (*at == bytes.length || *at == start) return false;
    (*at)++;
    *out = number;
    return true;
}

bool intake_answer_decode(struct span bytes, struct arena *arena, struct intake_answer *out,
                          int64_t *out_expires_us)
{
    enum { STATUS_DIGITS = 3, STATUS_MIN = 100, TIME_DIGITS = 18 };
    int64_t status = 0;
    size_t at = 0;
    if (!read_number(bytes, ' ', STATUS_DIGITS, &at, &status) || status < STATUS_MIN ||
        !read_number(bytes, '\n', TIME_DIGITS, &at, out_expires_us)) {
        return false;
    }
    const size_t start = at;
    while (at < bytes.length && !(bytes.data[at] == '\n' && bytes.data[at - 1] == '\n')) at++;
    if (at >= bytes.length) return false;
    *out = (struct intake_answer){
        .status = (int)status,
        .headers = arena_copy(arena, bytes.data + start, at - start),
        .body = { bytes.data + at + 1, bytes.length - at - 1 },
    };
    return true;
}

int64_t intake_answer_expires(const struct intake_decision *decision,
                              const struct intake_found *found, int64_t key_lifetime_us)
{
    if (decision->verdict == INTAKE_REPLAY) return found->key_expires_us;
    /* It was written after this read. */
    return decision->writes_key ? found->now_us + key_lifetime_us : 0;
}

void intake_clock_note(struct intake_clock *clock, int64_t asked_us, int64_t heard_us,
                       int64_t database_us)
{
    *clock = (struct intake_clock){
        .is_known = true,
        .noted_us = heard_us,
        .ahead_us = database_us - asked_us,
        .least_us = database_us - heard_us,
    };
}

int64_t intake_clock_latest(const struct intake_clock *clock, int64_t monotonic_us)
{
    enum { DRIFT_DIVISOR = 1000 }; /* adjusted clocks run apart by less than a thousandth */
    if (!clock->is_known) return INT64_MAX;
    const int64_t age_us = monotonic_us - clock->noted_us;
    return monotonic_us + clock->ahead_us + (age_us > 0 ? age_us / DRIFT_DIVISOR : 0);
}

int64_t intake_clock_earliest(const struct intake_clock *clock, int64_t monotonic_us)
{
    enum { BELIEVED_S = 10 };
    if (!clock->is_known || monotonic_us - clock->noted_us > BELIEVED_S * CLOCK_SECOND_US) return 0;
    return monotonic_us + clock->least_us;
}
