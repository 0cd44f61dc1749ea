/* store/sql_call.c: see sql_call.h. Binary formats follow the typsend functions of PostgreSQL. */
#include "store/sql_call.h"

/* Microseconds between 1970-01-01 and PostgreSQL's epoch 2000-01-01. */
#define POSTGRES_EPOCH_US INT64_C(946684800000000)

/* OIDs are fixed in pg_type.dat. */
static const struct {
    uint32_t scalar;
    uint32_t array;
} OIDS[] = {
    [SQL_BOOL] = { 16, 1000 },   [SQL_INT2] = { 21, 1005 },          [SQL_INT4] = { 23, 1007 },
    [SQL_INT8] = { 20, 1016 },   [SQL_TEXT] = { 25, 1009 },          [SQL_BYTEA] = { 17, 1001 },
    [SQL_UUID] = { 2950, 2951 }, [SQL_TIMESTAMPTZ] = { 1184, 1185 },
};

struct sql_array {
    enum sql_type element;
    struct arena *arena;
    uint8_t *bytes; /* room for the array header first, then the elements */
    size_t used;
    size_t size;
    size_t count;
    bool has_null;
};

enum { ARRAY_HEADER_BYTES = 20 };

static void put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    put_u16(at, (uint16_t)(value >> 16));
    put_u16(at + 2, (uint16_t)value);
}

static void put_u64(uint8_t *at, uint64_t value)
{
    put_u32(at, (uint32_t)(value >> 32));
    put_u32(at + 4, (uint32_t)value);
}

void sql_call_begin(struct sql_call *call, enum statement statement, struct arena *arena)
{
    call->statement = statement;
    call->arena = arena;
    call->param_count = 0;
}

static struct sql_param *next_param(struct sql_call *call)
{
    INVARIANT(call->param_count < SQL_PARAM_MAX);
    struct sql_param *param = &call->params[call->param_count++];
    *param = (struct sql_param){ 0 };
    return param;
}

static uint8_t *bind(struct sql_call *call, enum sql_type type, size_t length)
{
    INVARIANT(length <= INT32_MAX);
    struct sql_param *param = next_param(call);
    param->type_oid = OIDS[type].scalar;
    uint8_t *data = arena_allocate(call->arena, length);
    param->data = (const char *)data;
    param->length = (int)length;
    return data;
}

void sql_bind_null(struct sql_call *call, enum sql_type type)
{
    next_param(call)->type_oid = OIDS[type].scalar;
}

void sql_bind_bool(struct sql_call *call, bool value)
{
    *bind(call, SQL_BOOL, 1) = value ? 1 : 0;
}

void sql_bind_int2(struct sql_call *call, int value)
{
    INVARIANT(value >= INT16_MIN && value <= INT16_MAX);
    put_u16(bind(call, SQL_INT2, 2), (uint16_t)value);
}

void sql_bind_int4(struct sql_call *call, int32_t value)
{
    put_u32(bind(call, SQL_INT4, 4), (uint32_t)value);
}

void sql_bind_int8(struct sql_call *call, int64_t value)
{
    put_u64(bind(call, SQL_INT8, 8), (uint64_t)value);
}

void sql_bind_text(struct sql_call *call, const char *value)
{
    if (value == NULL) {
        sql_bind_null(call, SQL_TEXT);
        return;
    }
    const size_t length = strlen(value);
    uint8_t *data = bind(call, SQL_TEXT, length);
    memcpy(data, value, length);
}

void sql_bind_bytea(struct sql_call *call, struct span value)
{
    uint8_t *data = bind(call, SQL_BYTEA, value.length);
    if (value.length > 0) memcpy(data, value.data, value.length);
}

void sql_bind_uuid(struct sql_call *call, struct uuid value)
{
    memcpy(bind(call, SQL_UUID, sizeof value.bytes), value.bytes, sizeof value.bytes);
}

void sql_bind_time(struct sql_call *call, int64_t epoch_us)
{
    put_u64(bind(call, SQL_TIMESTAMPTZ, 8), (uint64_t)(epoch_us - POSTGRES_EPOCH_US));
}

struct sql_array *sql_bind_array(struct sql_call *call, enum sql_type element)
{
    struct sql_param *param = next_param(call);
    param->type_oid = OIDS[element].array;
    struct sql_array *array = arena_allocate(call->arena, sizeof *array);
    array->element = element;
    array->arena = call->arena;
    array->size = 512;
    array->bytes = arena_allocate(call->arena, array->size);
    array->used = ARRAY_HEADER_BYTES;
    param->array = array;
    return array;
}

/* Room for one element of this length; returns where its bytes go. */
static uint8_t *push(struct sql_array *array, enum sql_type type, size_t length)
{
    INVARIANT(array->element == type && length <= INT32_MAX);
    const size_t needed = array->used + 4 + length;
    if (needed > array->size) {
        size_t size = array->size * 2;
        if (size < needed) size = needed;
        uint8_t *bytes = arena_allocate(array->arena, size);
        memcpy(bytes, array->bytes, array->used);
        array->bytes = bytes;
        array->size = size;
    }
    put_u32(array->bytes + array->used, (uint32_t)length);
    uint8_t *data = array->bytes + array->used + 4;
    array->used = needed;
    array->count++;
    return data;
}

void sql_push_null(struct sql_array *array)
{
    put_u32(push(array, array->element, 0) - 4, UINT32_MAX);
    array->has_null = true;
}

void sql_push_bool(struct sql_array *array, bool value)
{
    *push(array, SQL_BOOL, 1) = value ? 1 : 0;
}

void sql_push_int2(struct sql_array *array, int value)
{
    INVARIANT(value >= INT16_MIN && value <= INT16_MAX);
    put_u16(push(array, SQL_INT2, 2), (uint16_t)value);
}

void sql_push_int4(struct sql_array *array, int32_t value)
{
    put_u32(push(array, SQL_INT4, 4), (uint32_t)value);
}

void sql_push_int8(struct sql_array *array, int64_t value)
{
    put_u64(push(array, SQL_INT8, 8), (uint64_t)value);
}

void sql_push_text(struct sql_array *array, const char *value)
{
    if (value == NULL) {
        sql_push_null(array);
        return;
    }
    const size_t length = strlen(value);
    uint8_t *data = push(array, SQL_TEXT, length);
    memcpy(data, value, length);
}

void sql_push_bytea(struct sql_array *array, struct span value)
{
    if (value.data == NULL) {
        sql_push_null(array);
        return;
    }
    uint8_t *data = push(array, SQL_BYTEA, value.length);
    memcpy(data, value.data, value.length);
}

void sql_push_uuid(struct sql_array *array, struct uuid value)
{
    memcpy(push(array, SQL_UUID, sizeof value.bytes), value.bytes, sizeof value.bytes);
}

void sql_push_uuid_or_null(struct sql_array *array, struct uuid value)
{
    if (uuid_is_nil(value)) {
        sql_push_null(array);
    } else {
        sql_push_uuid(array, value);
    }
}

void sql_push_time(struct sql_array *array, int64_t epoch_us)
{
    if (epoch_us == 0) {
        sql_push_null(array);
        return;
    }
    put_u64(push(array, SQL_TIMESTAMPTZ, 8), (uint64_t)(epoch_us - POSTGRES_EPOCH_US));
}

size_t sql_array_count(const struct sql_array *array)
{
    return array->count;
}

void sql_call_finish(struct sql_call *call)
{
    for (size_t i = 0; i < call->param_count; i++) {
        struct sql_param *param = &call->params[i];
        struct sql_array *array = param->array;
        if (array == NULL) continue;
        INVARIANT(array->count <= INT32_MAX && array->used <= INT32_MAX);
        uint8_t *head = array->bytes;
        put_u32(head, 1); /* dimensions */
        put_u32(head + 4, array->has_null ? 1 : 0);
        put_u32(head + 8, OIDS[array->element].scalar);
        put_u32(head + 12, (uint32_t)array->count);
        put_u32(head + 16, 1); /* lower bound */
        param->data = (const char *)array->bytes;
        param->length = (int)array->used;
    }
}
