/*
 * pipeline/form.h: application/x-www-form-urlencoded, as Stripe's client libraries write it and
 * its servers read it: names with bracketed nesting ("metadata[reference]"), percent-encoded UTF-8.
 */
#ifndef ONCEPAY_PIPELINE_FORM_H
#define ONCEPAY_PIPELINE_FORM_H

#include "pipeline/arena.h"

/* A body under construction; zero all but the arena. The bytes live in the arena. */
struct form {
    struct arena *arena;
    char *text;
    size_t length;
    size_t capacity;
};

/* Appends name=value. Unreserved characters (RFC 3986) and brackets stand for themselves. */
void form_add(struct form *form, const char *name, const char *value);
void form_add_integer(struct form *form, const char *name, int64_t value);
struct span form_body(const struct form *form);

struct form_field {
    const char *name;
    const char *value; /* "" when there was no '=' */
};

enum { FORM_FIELD_MAX = 256 };

/*
 * Fields in their order, names may repeat; '+' reads as a space. STATUS_BAD_DATA: a broken percent
 * sequence, an encoded NUL, an empty name or more than FORM_FIELD_MAX fields.
 */
enum status form_parse(struct span body, struct arena *arena, const struct form_field **out_fields,
                       size_t *out_count) MUST_CHECK;

/* The first value of that name; NULL if there is none. */
const char *form_find(const struct form_field *fields, size_t count, const char *name);

#endif
