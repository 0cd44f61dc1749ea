/*
 * store/sql_call.h: the parameters of one statement, in binary form. Batches go as arrays (one
 * array per column, unnest on the other side), so a call has as many parameters as columns, not
 * rows.
 */
#ifndef ONCEPAY_STORE_SQL_CALL_H
#define ONCEPAY_STORE_SQL_CALL_H

#include "pipeline/arena.h"
#include "pipeline/id.h"
#include "store/statements.gen.h"

enum { SQL_PARAM_MAX = 48 };

enum sql_type {
    SQL_BOOL,
    SQL_INT2,
    SQL_INT4,
    SQL_INT8,
    SQL_TEXT,
    SQL_BYTEA,
    SQL_UUID,
    SQL_TIMESTAMPTZ,
};

struct sql_array;

struct sql_param {
    uint32_t type_oid;
    const char *data; /* NULL: SQL NULL */
    int length;
    struct sql_array *array; /* not NULL: data is built when the call is sent */
};

/* One execution of one statement. Everything lives in the arena. */
struct sql_call {
    enum statement statement;
    struct arena *arena;
    struct sql_param params[SQL_PARAM_MAX];
    size_t param_count;
};

/* Parameters are bound in order, $1 first, each function binding the next one. */
void sql_call_begin(struct sql_call *call, enum statement statement, struct arena *arena);

void sql_bind_null(struct sql_call *call, enum sql_type type);
void sql_bind_bool(struct sql_call *call, bool value);
void sql_bind_int2(struct sql_call *call, int value);
void sql_bind_int4(struct sql_call *call, int32_t value);
void sql_bind_int8(struct sql_call *call, int64_t value);
void sql_bind_text(struct sql_call *call, const char *value);  /* NULL: SQL NULL; copied */
void sql_bind_bytea(struct sql_call *call, struct span value); /* copied */
void sql_bind_uuid(struct sql_call *call, struct uuid value);
void sql_bind_time(struct sql_call *call, int64_t epoch_us);

/* Binds the next parameter as an array of this element type and returns it for pushing. */
struct sql_array *sql_bind_array(struct sql_call *call, enum sql_type element);

void sql_push_null(struct sql_array *array);
void sql_push_bool(struct sql_array *array, bool value);
void sql_push_int2(struct sql_array *array, int value);
void sql_push_int4(struct sql_array *array, int32_t value);
void sql_push_int8(struct sql_array *array, int64_t value);
void sql_push_text(struct sql_array *array, const char *value);  /* NULL: SQL NULL */
void sql_push_bytea(struct sql_array *array, struct span value); /* data NULL: SQL NULL */
void sql_push_uuid(struct sql_array *array, struct uuid value);
void sql_push_uuid_or_null(struct sql_array *array, struct uuid value); /* nil: SQL NULL */
void sql_push_time(struct sql_array *array, int64_t epoch_us);          /* 0: SQL NULL */
size_t sql_array_count(const struct sql_array *array);

/* Renders every array parameter; store.c calls it right before sending. */
void sql_call_finish(struct sql_call *call);

#endif
