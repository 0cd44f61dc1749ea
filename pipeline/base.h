/*
 * pipeline/base.h: what every file starts from: fixed-width types, the status vocabulary,
 * invariants that stay on in release builds, and calls that the house does not use.
 */
#ifndef ONCEPAY_PIPELINE_BASE_H
#define ONCEPAY_PIPELINE_BASE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/*
 * How the machinery fared; business refusals and PSP answers have vocabularies of their own.
 * Classes (who reacts how) stand in stages/stage.c, in one place.
 */
enum status {
    STATUS_OK = 0,
    STATUS_RETRY, /* infrastructure: decide the same work again from fresh rows, after a wait */
    /* somebody else was first (CAS, named unique key): re-read and decide again */
    STATUS_LOST_RACE,
    STATUS_BAD_DATA, /* this row or message can never work: halve the batch, then dead letter */
    STATUS_NOT_FOUND,
    STATUS_STOP, /* code and surroundings disagree (schema, topology, config): do not go on */
};

/* A short lower-case word for logs. Never NULL. */
const char *status_name(enum status status);

/*
 * Return from the calling function unless the call is STATUS_OK. The only macro that hides a
 * return.
 */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const enum status try_status_ = (call);                                                    \
        if (try_status_ != STATUS_OK) return try_status_;                                          \
    } while (0)

/*
 * Prints the text and place to stderr and aborts: a dead stage is a delay, a wrong row is a loss.
 */
_Noreturn void invariant_failed(const char *what, const char *file, int line);

/* Checked in every build. For bugs, never for input. */
#define INVARIANT(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) invariant_failed(#condition, __FILE__, __LINE__);                        \
    } while (0)

/* The line after a switch without default. */
#define UNREACHABLE(what) invariant_failed(what, __FILE__, __LINE__)

/* Bytes that somebody else owns. May be empty; data is then NULL or points at nothing readable. */
struct span {
    const uint8_t *data;
    size_t length;
};

static inline struct span span_of_text(const char *text)
{
    return (struct span){ (const uint8_t *)text, text == NULL ? 0 : strlen(text) };
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

/* Out of memory is not survivable for a stage: these abort instead of returning NULL. */
void *memory_allocate(size_t size); /* zeroed */
void *memory_resize(void *block, size_t size);
char *memory_copy_text(const char *text);

/* Calls the house does not use: unbounded, locale-bound or silently failing. */
#undef sprintf /* a macro of its own where the headers are fortified */
#define strcpy(...) use_snprintf_instead_of_strcpy
#define strcat(...) use_snprintf_instead_of_strcat
#define sprintf(...) use_snprintf_instead_of_sprintf
#define gets(...) use_fgets_instead_of_gets
#define atoi(...) use_strtol_instead_of_atoi
#define atol(...) use_strtol_instead_of_atol

#endif
