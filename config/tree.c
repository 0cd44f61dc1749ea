/* config/tree.c: see tree.h. Walks libyaml's events, which carry line and column. */
#include "config/tree.h"

#include <errno.h>
#include <stdarg.h>
#include <yaml.h>

struct reading {
    const char *name;
    yaml_parser_t parser;
    struct arena *arena;
    struct config_error *error;
};

enum status tree_refuse(struct config_error *out_error, const char *name, int line, int column,
                        const char *format, ...)
{
    int used = line > 0 ? snprintf(out_error->text, sizeof out_error->text, "%s:%d:%d: ", name,
                                   line, column)
                        : snprintf(out_error->text, sizeof out_error->text, "%s: ", name);
    if (used < 0 || (size_t)used >= sizeof out_error->text) return STATUS_STOP;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out_error->text + used, sizeof out_error->text - (size_t)used, format,
                    arguments);
    va_end(arguments);
    return STATUS_STOP;
}

static int from_one(size_t mark)
{
    return mark < INT32_MAX ? (int)mark + 1 : INT32_MAX;
}

static enum status refuse_at(const struct reading *reading, yaml_mark_t mark, const char *what)
{
    return tree_refuse(reading->error, reading->name, from_one(mark.line), from_one(mark.column),
                       "%s", what);
}

static enum status next_event(struct reading *reading, yaml_event_t *out_event)
{
    if (yaml_parser_parse(&reading->parser, out_event) != 0) return STATUS_OK;
    const char *problem = reading->parser.problem;
    return refuse_at(reading, reading->parser.problem_mark,
                     problem != NULL ? problem : "not readable as YAML");
}

static struct tree_node *node_new(struct reading *reading, enum tree_kind kind, yaml_mark_t mark)
{
    struct tree_node *node = arena_allocate(reading->arena, sizeof *node);
    node->kind = kind;
    node->line = from_one(mark.line);
    node->column = from_one(mark.column);
    return node;
}

/* Appends; the arena keeps the outgrown arrays, which a configuration can afford. */
static void append(struct reading *reading, struct tree_node ***array, size_t count,
                   struct tree_node *node)
{
    const bool is_full = count == 0 || (count >= 8 && (count & (count - 1)) == 0);
    if (is_full) {
        const size_t room = count < 8 ? 8 : count * 2;
        struct tree_node **bigger = arena_allocate(reading->arena, room * sizeof(void *));
        if (count > 0) memcpy(bigger, *array, count * sizeof(void *));
        *array = bigger;
    }
    (*array)[count] = node;
}

static enum status read_value(struct reading *reading, yaml_event_t *event, int depth,
                              struct tree_node **out_node);

static enum status read_scalar(struct reading *reading, const yaml_event_t *event,
                               struct tree_node **out_node)
{
    if (event->data.scalar.anchor != NULL) {
        return refuse_at(reading, event->start_mark, "anchors are not allowed");
    }
    if (event->data.scalar.tag != NULL) {
        return refuse_at(reading, event->start_mark, "tags are not allowed");
    }
    const char *text = (const char *)event->data.scalar.value;
    const size_t length = event->data.scalar.length;
    if (memchr(text, '\0', length) != NULL) {
        return refuse_at(reading, event->start_mark, "a NUL character is not allowed");
    }
    struct tree_node *node = node_new(reading, TREE_SCALAR, event->start_mark);
    node->text = arena_copy(reading->arena, text, length);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    *out_node = node;
    return STATUS_OK;
}

static enum status add_pair(struct reading *reading, struct tree_node *mapping,
                            struct tree_node *key, struct tree_node *value)
{
    struct config_error *error = reading->error;
    if (tree_find(mapping, key->text) != NULL) {
        return tree_refuse(error, reading->name, key->line, key->column,
                           "key \"%.64s\" stands twice", key->text);
    }
    if (mapping->count == TREE_PAIRS_MAX) {
        return tree_refuse(error, reading->name, key->line, key->column, "more than %d keys",
                           TREE_PAIRS_MAX);
    }
    append(reading, &mapping->keys, mapping->count, key);
    append(reading, &mapping->values, mapping->count, value);
    mapping->count++;
    return STATUS_OK;
}

/* One key or item; *out_done when the container's end came instead. */
static enum status read_element(struct reading *reading, yaml_event_type_t end, bool is_key,
                                int depth, struct tree_node **out_node, bool *out_done)
{
    yaml_event_t event;
    TRY(next_event(reading, &event));
    enum status status = STATUS_OK;
    *out_done = event.type == end;
    if (!*out_done && is_key && event.type != YAML_SCALAR_EVENT) {
        status = refuse_at(reading, event.start_mark, "a key must be a plain word");
    } else if (!*out_done) {
        status = read_value(reading, &event, depth, out_node);
    }
    yaml_event_delete(&event);
    return status;
}

static enum status read_mapping(struct reading *reading, struct tree_node *mapping, int depth)
{
    for (;;) {
        struct tree_node *key = NULL;
        struct tree_node *value = NULL;
        bool done = false;
        TRY(read_element(reading, YAML_MAPPING_END_EVENT, true, depth, &key, &done));
        if (done) return STATUS_OK;
        TRY(read_element(reading, YAML_MAPPING_END_EVENT, false, depth, &value, &done));
        INVARIANT(key != NULL && value != NULL);
        TRY(add_pair(reading, mapping, key, value));
    }
}

static enum status read_sequence(struct reading *reading, struct tree_node *sequence, int depth)
{
    for (;;) {
        struct tree_node *item = NULL;
        bool done = false;
        TRY(read_element(reading, YAML_SEQUENCE_END_EVENT, false, depth, &item, &done));
        if (done) return STATUS_OK;
        if (sequence->count == TREE_ITEMS_MAX) {
            return tree_refuse(reading->error, reading->name, item->line, item->column,
                               "more than %d items", TREE_ITEMS_MAX);
        }
        append(reading, &sequence->values, sequence->count, item);
        sequence->count++;
    }
}

static enum status read_value(struct reading *reading, yaml_event_t *event, int depth,
                              struct tree_node **out_node)
{
    const bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
    if (event->type == YAML_SCALAR_EVENT) return read_scalar(reading, event, out_node);
    if (event->type == YAML_ALIAS_EVENT) {
        return refuse_at(reading, event->start_mark, "aliases are not allowed");
    }
    INVARIANT(is_mapping || event->type == YAML_SEQUENCE_START_EVENT);
    const yaml_char_t *anchor =
        is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    const yaml_char_t *tag =
        is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    if (anchor != NULL) return refuse_at(reading, event->start_mark, "anchors are not allowed");
    if (tag != NULL) return refuse_at(reading, event->start_mark, "tags are not allowed");
    if (depth == TREE_DEPTH_MAX) return refuse_at(reading, event->start_mark, "nested too deep");
    struct tree_node *node =
        node_new(reading, is_mapping ? TREE_MAPPING : TREE_SEQUENCE, event->start_mark);
    TRY(is_mapping ? read_mapping(reading, node, depth + 1)
                   : read_sequence(reading, node, depth + 1));
    *out_node = node;
    return STATUS_OK;
}

/* The first event of that type; anything else in between is the document's frame. */
static enum status skip_to_content(struct reading *reading, yaml_event_t *out_event)
{
    for (;;) {
        TRY(next_event(reading, out_event));
        const yaml_event_type_t type = out_event->type;
        if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
            type != YAML_DOCUMENT_END_EVENT) {
            return STATUS_OK;
        }
        yaml_event_delete(out_event);
    }
}

static enum status read_document(struct reading *reading, struct tree_node **out_root)
{
    yaml_event_t event;
    TRY(skip_to_content(reading, &event));
    enum status status;
    if (event.type == YAML_MAPPING_START_EVENT) {
        status = read_value(reading, &event, 0, out_root);
    } else {
        status = refuse_at(reading, event.start_mark, "the file must be a mapping of keys");
    }
    yaml_event_delete(&event);
    TRY(status);
    TRY(skip_to_content(reading, &event));
    if (event.type != YAML_STREAM_END_EVENT) {
        status = refuse_at(reading, event.start_mark, "only one document is allowed");
    }
    yaml_event_delete(&event);
    return status;
}

enum status tree_parse(const char *name, struct span text, struct arena *arena,
                       struct tree_node **out_root, struct config_error *out_error)
{
    if (text.length > TREE_BYTES_MAX) {
        return tree_refuse(out_error, name, 1, 1, "more than %d bytes", TREE_BYTES_MAX);
    }
    struct reading reading = { .name = name, .arena = arena, .error = out_error };
    INVARIANT(yaml_parser_initialize(&reading.parser) != 0);
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reading.parser, text.data, text.length);
    const enum status status = read_document(&reading, out_root);
    yaml_parser_delete(&reading.parser);
    return status;
}

const struct tree_node *tree_find(const struct tree_node *mapping, const char *key)
{
    for (size_t i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->keys[i]->text, key) == 0) return mapping->values[i];
    }
    return NULL;
}

enum status tree_read_file(const char *path, size_t size_max, struct arena *arena,
                           struct span *out_text, struct config_error *out_error)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return tree_refuse(out_error, path, 0, 0, "cannot be opened: %s", strerror(errno));
    }
    uint8_t *data = memory_allocate(size_max + 1); /* may be a secret: wiped below */
    const size_t length = fread(data, 1, size_max + 1, file);
    const bool failed = ferror(file) != 0;
    (void)fclose(file);
    const char *problem = NULL;
    if (failed) problem = "cannot be read";
    if (length > size_max) problem = "is too big";
    if (memchr(data, '\0', length) != NULL) problem = "contains a NUL byte";
    if (problem == NULL) {
        *out_text = (struct span){ (const uint8_t *)arena_copy(arena, data, length), length };
    }
    explicit_bzero(data, length);
    free(data);
    return problem == NULL ? STATUS_OK : tree_refuse(out_error, path, 0, 0, "%s", problem);
}
