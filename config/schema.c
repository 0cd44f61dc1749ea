/* config/schema.c: see schema.h. */
#include "config/schema.h"

#include "pipeline/subject.h"

struct unit {
    const char *suffix;
    int64_t factor;
};
static const struct unit NO_UNITS[] = { { "", 1 } };
static const struct unit SIZE_UNITS[] = {
    { "", 1 }, { "KiB", 1024 }, { "MiB", 1024 * 1024 }, { "GiB", 1024 * 1024 * 1024 }
};
static const struct unit DURATION_UNITS[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
};

/* A value on its way into the struct: from the file, a variable or the default. */
struct value {
    const struct schema_reading *reading;
    const struct schema_field *field;
    const struct tree_node *node; /* where to point in errors */
    const char *path;
    const char *text;
};

#define REFUSE(reading, node, ...)                                                                 \
    tree_refuse((reading)->error, (reading)->name, (node)->line, (node)->column, __VA_ARGS__)

static const struct schema_variable *variable_find(const struct schema_reading *reading,
                                                   const char *name, size_t length)
{
    for (size_t i = 0; i < reading->variable_count; i++) {
        const struct schema_variable *variable = &reading->variables[i];
        if (strlen(variable->name) == length && memcmp(variable->name, name, length) == 0) {
            return variable;
        }
    }
    return NULL;
}

/* Replaces each ${NAME}. What a variable brings is not expanded again. */
static enum status expand(const struct schema_reading *reading, const struct tree_node *node,
                          const char *path, const char **out_text)
{
    const char *rest = node->text;
    char *done = arena_copy(reading->arena, "", 0);
    const char *start;
    while ((start = strstr(rest, "${")) != NULL) {
        const char *end = strchr(start, '}');
        if (end == NULL) return REFUSE(reading, node, "%s: \"${\" without \"}\"", path);
        const int length = (int)(end - start) - 2;
        const struct schema_variable *variable = variable_find(reading, start + 2, (size_t)length);
        if (variable == NULL) {
            return REFUSE(reading, node, "%s: ${%.*s} is not one of oncepay's variables", path,
                          length > 64 ? 64 : length, start + 2);
        }
        const char *value = getenv(variable->name);
        if (value == NULL || value[0] == '\0') {
            return REFUSE(reading, node, "%s: environment variable %s is not set", path,
                          variable->name);
        }
        done = arena_format(reading->arena, "%s%.*s%s", done, (int)(start - rest), rest, value);
        rest = end + 1;
    }
    *out_text = arena_format(reading->arena, "%s%s", done, rest);
    return STATUS_OK;
}

/* Decimal digits and one of the units; no sign, no leading zero, no overflow. */
static bool parse_number(const char *text, const struct unit *units, size_t unit_count,
                         int64_t *out_number)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || (digits > 1 && text[0] == '0')) return false;
    int64_t number = 0;
    for (size_t i = 0; i < digits; i++) number = number * 10 + (text[i] - '0');
    for (size_t i = 0; i < unit_count; i++) {
        if (strcmp(text + digits, units[i].suffix) != 0) continue;
        return !__builtin_mul_overflow(number, units[i].factor, out_number);
    }
    return false;
}

static enum status read_number(const struct value *value, const struct unit *units,
                               size_t unit_count, const char *what, void *target)
{
    int64_t number = 0;
    if (value->node->quoted || !parse_number(value->text, units, unit_count, &number)) {
        return REFUSE(value->reading, value->node, "%s: \"%.40s\" is not %s", value->path,
                      value->text, what);
    }
    if (number < value->field->min || number > value->field->max) {
        return REFUSE(value->reading, value->node, "%s: %.40s is not in %" PRId64 "..%" PRId64 "%s",
                      value->path, value->text, value->field->min, value->field->max,
                      units == DURATION_UNITS ? " ms" : "");
    }
    memcpy(target, &number, sizeof number);
    return STATUS_OK;
}

static enum status read_boolean(const struct value *value, void *target)
{
    const bool is_true = strcmp(value->text, "true") == 0;
    if (value->node->quoted || (!is_true && strcmp(value->text, "false") != 0)) {
        return REFUSE(value->reading, value->node, "%s: \"%.40s\" is not true or false",
                      value->path, value->text);
    }
    memcpy(target, &is_true, sizeof is_true);
    return STATUS_OK;
}

/* Texts may hold addresses with passwords, so errors never repeat them. */
static enum status read_text(const struct value *value, void *target)
{
    const int64_t length = (int64_t)strlen(value->text);
    if (length < value->field->min || length > value->field->max) {
        return REFUSE(value->reading, value->node,
                      "%s: has %" PRId64 " characters, allowed are %" PRId64 "..%" PRId64,
                      value->path, length, value->field->min, value->field->max);
    }
    memcpy(target, &value->text, sizeof value->text);
    return STATUS_OK;
}

static enum status read_token(const struct value *value, void *target)
{
    if (!subject_token_is_valid(value->text)) {
        return REFUSE(value->reading, value->node,
                      "%s: \"%.70s\" is not 1 to 64 of A-Z a-z 0-9 _ -", value->path, value->text);
    }
    memcpy(target, &value->text, sizeof value->text);
    return STATUS_OK;
}

static enum status read_path(const struct value *value, void *target)
{
    const char *path = value->text;
    const char *slash = strrchr(value->reading->name, '/');
    if (path[0] != '\0' && path[0] != '/' && slash != NULL) {
        path = arena_format(value->reading->arena, "%.*s/%s", (int)(slash - value->reading->name),
                            value->reading->name, path);
    }
    if (path[0] == '\0' && value->field->min > 0) {
        return REFUSE(value->reading, value->node, "%s: a file name is missing", value->path);
    }
    memcpy(target, &path, sizeof path);
    return STATUS_OK;
}

static enum status read_scalar(const struct value *value, void *target)
{
    switch (value->field->type) {
    case SCHEMA_TEXT:
        return read_text(value, target);
    case SCHEMA_TOKEN:
        return read_token(value, target);
    case SCHEMA_PATH:
        return read_path(value, target);
    case SCHEMA_INTEGER:
        return read_number(value, NO_UNITS, COUNT_OF(NO_UNITS), "an integer", target);
    case SCHEMA_SIZE:
        return read_number(value, SIZE_UNITS, COUNT_OF(SIZE_UNITS),
                           "a size like 65536, 64KiB, 256MiB or 2GiB", target);
    case SCHEMA_DURATION:
        return read_number(value, DURATION_UNITS, COUNT_OF(DURATION_UNITS),
                           "a duration like 500ms, 15s, 5m, 24h or 7d", target);
    case SCHEMA_BOOLEAN:
        return read_boolean(value, target);
    case SCHEMA_TOKENS:
    case SCHEMA_MAP:
    case SCHEMA_LIST:
    case SCHEMA_NODE:
        break;
    }
    UNREACHABLE("no scalar type");
}

/* What stands in the file, with its variables. */
static enum status read_node(const struct schema_reading *reading, const struct schema_field *field,
                             const struct tree_node *node, const char *path, void *target)
{
    const char *text = NULL;
    if (node->kind != TREE_SCALAR) return REFUSE(reading, node, "%s: must be one value", path);
    if (!node->quoted && (node->text[0] == '\0' || strcmp(node->text, "~") == 0)) {
        return REFUSE(reading, node, "%s: has no value", path);
    }
    TRY(expand(reading, node, path, &text));
    INVARIANT(text != NULL);
    const struct value value = { reading, field, node, path, text };
    return read_scalar(&value, target);
}

/* The error then names the variable instead of a place in the file. */
static enum status read_override(const struct schema_reading *reading,
                                 const struct schema_field *field, const char *text,
                                 const char *path, void *target)
{
    const struct tree_node nowhere = { .kind = TREE_SCALAR };
    const struct schema_reading variable = { .name = field->environment,
                                             .arena = reading->arena,
                                             .error = reading->error };
    const struct value value = { &variable, field, &nowhere, path,
                                 arena_copy(reading->arena, text, strlen(text)) };
    return read_scalar(&value, target);
}

/* The file's value, unless a variable overrides it; the default if there is neither. */
static enum status read_simple(const struct schema_reading *reading,
                               const struct schema_field *field, const struct tree_node *parent,
                               const struct tree_node *node, const char *path, void *target)
{
    const char *override = field->environment == NULL ? NULL : getenv(field->environment);
    if (override != NULL && override[0] != '\0') {
        return read_override(reading, field, override, path, target);
    }
    if (node != NULL) return read_node(reading, field, node, path, target);
    if (field->fallback == NULL) return REFUSE(reading, parent, "%s is missing", path);
    if (field->fallback[0] == '\0') { /* left out: no text, whatever the range */
        memcpy(target, &field->fallback, sizeof field->fallback);
        return STATUS_OK;
    }
    const struct value value = { reading, field, parent, path, field->fallback };
    return read_scalar(&value, target);
}

static enum status check_count(const struct schema_reading *reading,
                               const struct schema_field *field, const struct tree_node *place,
                               const char *path, size_t count)
{
    if ((int64_t)count >= field->min && (int64_t)count <= field->max) return STATUS_OK;
    return REFUSE(reading, place, "%s: has %zu items, allowed are %" PRId64 "..%" PRId64, path,
                  count, field->min, field->max);
}

static enum status check_sequence(const struct schema_reading *reading,
                                  const struct schema_field *field, const struct tree_node *parent,
                                  const struct tree_node *node, const char *path)
{
    if (node == NULL) return check_count(reading, field, parent, path, 0);
    if (node->kind != TREE_SEQUENCE) return REFUSE(reading, node, "%s: must be a list", path);
    return check_count(reading, field, node, path, node->count);
}

static enum status read_tokens(const struct schema_reading *reading,
                               const struct schema_field *field, const struct tree_node *parent,
                               const struct tree_node *node, const char *path, void *target)
{
    TRY(check_sequence(reading, field, parent, node, path));
    const size_t count = node == NULL ? 0 : node->count;
    const char **items = arena_allocate(reading->arena, count * sizeof *items);
    const struct schema_field item_field = { .type = SCHEMA_TOKEN };
    for (size_t i = 0; i < count; i++) {
        const struct tree_node *item = node->values[i];
        const char *item_path = arena_format(reading->arena, "%s[%zu]", path, i);
        TRY(read_node(reading, &item_field, item, item_path, &items[i]));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(items[i], items[j]) == 0) {
                return REFUSE(reading, item, "%s: \"%s\" stands twice", path, items[i]);
            }
        }
    }
    const struct config_texts texts = { items, count };
    memcpy(target, &texts, sizeof texts);
    return STATUS_OK;
}

static enum status read_list(const struct schema_reading *reading, const struct schema_field *field,
                             const struct tree_node *parent, const struct tree_node *node,
                             const char *path, uint8_t *base)
{
    TRY(check_sequence(reading, field, parent, node, path));
    const size_t count = node == NULL ? 0 : node->count;
    uint8_t *elements = arena_allocate(reading->arena, count * field->table->size);
    for (size_t i = 0; i < count; i++) {
        const char *item_path = arena_format(reading->arena, "%s[%zu]", path, i);
        TRY(schema_read(reading, field->table, node->values[i], item_path,
                        elements + i * field->table->size));
    }
    void *first = elements;
    memcpy(base + field->offset, &first, sizeof first);
    memcpy(base + field->count_offset, &count, sizeof count);
    return STATUS_OK;
}

static enum status read_field(const struct schema_reading *reading,
                              const struct schema_field *field, const struct tree_node *parent,
                              const char *path, uint8_t *base)
{
    const struct tree_node *node = tree_find(parent, field->key);
    void *target = base + field->offset;
    if (field->type == SCHEMA_NODE) {
        memcpy(target, &node, sizeof node);
        return STATUS_OK;
    }
    if (field->type == SCHEMA_MAP) {
        const struct tree_node absent = { TREE_MAPPING, parent->line, parent->column,
                                          NULL,         false,        0,
                                          NULL,         NULL };
        return schema_read(reading, field->table, node != NULL ? node : &absent, path, target);
    }
    if (field->type == SCHEMA_LIST) return read_list(reading, field, parent, node, path, base);
    if (field->type == SCHEMA_TOKENS) {
        return read_tokens(reading, field, parent, node, path, target);
    }
    return read_simple(reading, field, parent, node, path, target);
}

static bool key_is_known(const struct schema_table *table, const char *key)
{
    for (size_t i = 0; i < table->field_count; i++) {
        if (strcmp(table->fields[i].key, key) == 0) return true;
    }
    return false;
}

enum status schema_read(const struct schema_reading *reading, const struct schema_table *table,
                        const struct tree_node *mapping, const char *path, void *target)
{
    const char *shown = path[0] == '\0' ? "the file" : path;
    if (mapping->kind != TREE_MAPPING) {
        return REFUSE(reading, mapping, "%s: must be a mapping of keys", shown);
    }
    for (size_t i = 0; i < mapping->count; i++) {
        const struct tree_node *key = mapping->keys[i];
        if (!key_is_known(table, key->text)) {
            return REFUSE(reading, key, "unknown key \"%.64s\" in %s", key->text, shown);
        }
    }
    if (table->place_offset != SCHEMA_NO_PLACE) {
        const int place[2] = { mapping->line, mapping->column };
        memcpy((uint8_t *)target + table->place_offset, place, sizeof place);
    }
    for (size_t i = 0; i < table->field_count; i++) {
        const struct schema_field *field = &table->fields[i];
        const char *field_path =
            path[0] == '\0' ? field->key : arena_format(reading->arena, "%s.%s", path, field->key);
        TRY(read_field(reading, field, mapping, field_path, target));
    }
    return STATUS_OK;
}

enum status schema_read_duration(const struct schema_reading *reading, const struct tree_node *node,
                                 const char *path, int64_t min_ms, int64_t max_ms, int64_t *out_ms)
{
    const struct schema_field field = { .type = SCHEMA_DURATION, .min = min_ms, .max = max_ms };
    return read_node(reading, &field, node, path, out_ms);
}

static const char *type_name(enum schema_type type)
{
    switch (type) {
    case SCHEMA_TEXT:
        return "text";
    case SCHEMA_TOKEN:
        return "token";
    case SCHEMA_PATH:
        return "path";
    case SCHEMA_INTEGER:
        return "integer";
    case SCHEMA_SIZE:
        return "size";
    case SCHEMA_DURATION:
        return "duration";
    case SCHEMA_BOOLEAN:
        return "boolean";
    case SCHEMA_TOKENS:
        return "list of tokens";
    case SCHEMA_MAP:
        return "mapping";
    case SCHEMA_LIST:
        return "list";
    case SCHEMA_NODE:
        return "list";
    }
    UNREACHABLE("schema type out of range");
}

void schema_describe(const struct schema_table *table, const char *path, FILE *out)
{
    for (size_t i = 0; i < table->field_count; i++) {
        const struct schema_field *field = &table->fields[i];
        char name[128];
        (void)snprintf(name, sizeof name, "%s%s%s%s", path, path[0] == '\0' ? "" : ".", field->key,
                       field->type == SCHEMA_LIST ? "[]" : "");
        (void)fprintf(out, "%s: %s", name, type_name(field->type));
        if (field->max > 0 && field->type != SCHEMA_MAP) {
            (void)fprintf(out, " %" PRId64 "..%" PRId64, field->min, field->max);
        }
        if (field->fallback != NULL) (void)fprintf(out, ", default \"%s\"", field->fallback);
        if (field->environment != NULL) (void)fprintf(out, ", variable %s", field->environment);
        (void)fprintf(out, ". %s\n", field->help);
        if (field->table != NULL) schema_describe(field->table, name, out);
    }
}
