/*
 * tests/fuzz/fuzz.h: what the fuzz targets of this folder share. A target is one file with one
 * LLVMFuzzerTestOneInput; it is linked with libFuzzer where the build has it (ONCEPAY_FUZZ), and
 * with replay.c everywhere, so that each input of tests/fuzz/corpus is a test under every compiler.
 * What must hold is said with INVARIANT, which aborts in every build.
 */
#ifndef ONCEPAY_TESTS_FUZZ_FUZZ_H
#define ONCEPAY_TESTS_FUZZ_FUZZ_H

#include "pipeline/arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts the first byte off as a choice among count; 0 when there is none. */
static inline size_t fuzz_choice(struct span *rest, size_t count)
{
    if (rest->length == 0) return 0;
    const size_t choice = rest->data[0] % count;
    *rest = (struct span){ rest->data + 1, rest->length - 1 };
    return choice;
}

/*
 * Cuts the next line off, without its '\n', up to a NUL if it has one; "" at the end. Text of the
 * arena, as strings from outside are.
 */
static inline char *fuzz_line(struct span *rest, struct arena *arena)
{
    const uint8_t *end = rest->length == 0 ? NULL : memchr(rest->data, '\n', rest->length);
    const size_t length = end == NULL ? rest->length : (size_t)(end - rest->data);
    char *line = arena_copy(arena, rest->data, length);
    const size_t used = end == NULL ? length : length + 1;
    *rest = (struct span){ rest->data + used, rest->length - used };
    return line;
}

/* Both NULL, or the same text. */
static inline bool fuzz_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

#endif
