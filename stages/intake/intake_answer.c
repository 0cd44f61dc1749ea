/* stages/intake/intake_answer.c: see intake_answer.h. */
#include "stages/intake/intake_answer.h"

#include "pipeline/buffer.h"

struct span intake_answer_encode(const struct intake_answer *answer, struct arena *arena)
{
    struct buffer out = { .arena = arena };
    buffer_add_integer(&out, answer->status);
    buffer_add_byte(&out, '\n');
    buffer_add_text(&out, answer->headers);
    buffer_add_byte(&out, '\n');
    buffer_add(&out, answer->body.data, answer->body.length);
    return buffer_span(&out);
}

bool intake_answer_decode(struct span bytes, struct arena *arena, struct intake_answer *out)
{
    enum { STATUS_DIGITS = 3, HEAD_MIN = STATUS_DIGITS + 2 };
    if (bytes.length < HEAD_MIN || bytes.data[STATUS_DIGITS] != '\n') return false;
    int status = 0;
    for (size_t i = 0; i < STATUS_DIGITS; i++) {
        if (bytes.data[i] < '0' || bytes.data[i] > '9') return false;
        status = status * 10 + (bytes.data[i] - '0');
    }
    const size_t start = STATUS_DIGITS + 1;
    size_t at = start;
    while (at < bytes.length && !(bytes.data[at] == '\n' && bytes.data[at - 1] == '\n')) at++;
    if (at == bytes.length) return false;
    *out = (struct intake_answer){
        .status = status,
        .headers = arena_copy(arena, bytes.data + start, at - start),
        .body = { bytes.data + at + 1, bytes.length - at - 1 },
    };
    return true;
}
