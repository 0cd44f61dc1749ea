/* ops/yardstick/yardstick_script.c: see yardstick_script.h. */
#include "ops/yardstick/yardstick_script.h"

#include <ctype.h>
#include <errno.h>

#include "pipeline/buffer.h"

enum { LINE_SIZE = 512 };
static const char MARK[] = "-- transaction ";

static const char *type_name(enum sql_type type)
{
    switch (type) {
    case SQL_BOOL:
        return "bool";
    case SQL_INT2:
        return "int2";
    case SQL_INT4:
        return "int4";
    case SQL_INT8:
        return "int8";
    case SQL_TEXT:
        return "text";
    case SQL_BYTEA:
        return "bytea";
    case SQL_UUID:
        return "uuid";
    case SQL_TIMESTAMPTZ:
        return "timestamptz";
    }
    UNREACHABLE("SQL type out of range");
}

/* Its number in the statement, from 1; 0 when there are too many. */
static size_t number_of(struct script_statement *statement, const struct yardstick_column *column)
{
    for (size_t i = 0; i < statement->column_count; i++) {
        if (statement->columns[i] == column) return i + 1;
    }
    if (statement->column_count == SQL_PARAM_MAX) return 0;
    statement->columns[statement->column_count++] = column;
    return statement->column_count;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Copies the text with its names turned into parameters; "::" is a cast, not a name. */
static bool translate(const char *text, bool is_array, struct script_statement *out,
                      struct arena *arena, char out_error[256])
{
    struct buffer sql = { .arena = arena };
    for (const char *c = text; *c != '\0';) {
        if (c[0] == ':' && c[1] == ':') {
            buffer_add_text(&sql, "::");
            c += 2;
            continue;
        }
        if (c[0] != ':' || !islower((unsigned char)c[1])) {
            buffer_add_byte(&sql, *c++);
            continue;
        }
        size_t length = 0;
        while (is_word(c[1 + length])) length++;
        const struct yardstick_column *column = yardstick_column_find(c + 1, length);
        const size_t number = column == NULL ? 0 : number_of(out, column);
        if (number == 0) {
            (void)snprintf(out_error, 256, "no column for :%.*s", (int)length, c + 1);
            return false;
        }
        const char *brackets = is_array && !column->is_of_batch ? "[]" : "";
        const char *place =
            arena_format(arena, "$%zu::%s%s", number, type_name(column->type), brackets);
        buffer_add_text(&sql, place);
        c += 1 + length;
    }
    out->text = memory_copy_text((const char *)buffer_span(&sql).data);
    return true;
}

static bool add_statement(struct script *script, const char *text, struct arena *arena,
                          char out_error[256])
{
    if (script->transaction_count == 0 || script->statement_count == SCRIPT_STATEMENTS_MAX) {
        (void)snprintf(out_error, 256, "a statement outside of transactions, or too many of them");
        return false;
    }
    struct script_statement *statement = &script->statements[script->statement_count];
    *statement = (struct script_statement){ 0 };
    (void)snprintf(statement->name, sizeof statement->name, "s%zu", script->statement_count);
    if (!translate(text, script->is_array, statement, arena, out_error)) return false;
    script->statement_count++;
    script->transactions[script->transaction_count - 1].count++;
    return true;
}

static bool begin_transaction(struct script *script, char out_error[256])
{
    if (script->transaction_count == SCRIPT_TRANSACTIONS_MAX) {
        (void)snprintf(out_error, 256, "too many transactions");
        return false;
    }
    script->transactions[script->transaction_count++] =
        (struct script_transaction){ .first = script->statement_count };
    return true;
}

static bool read_lines(FILE *file, struct script *script, struct arena *arena, char out_error[256])
{
    char line[LINE_SIZE];
    struct buffer text = { .arena = arena };
    bool is_empty = true;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, MARK, strlen(MARK)) == 0) {
            if (!begin_transaction(script, out_error)) return false;
            continue;
        }
        if (strncmp(line, "--", 2) == 0) continue;
        const size_t length = strcspn(line, "\r\n");
        const bool is_last = length > 0 && line[length - 1] == ';';
        line[is_last ? length - 1 : length] = '\0';
        if (line[0] == '\0' && !is_last) continue;
        buffer_add_text(&text, line);
        buffer_add_byte(&text, '\n');
        is_empty = false;
        if (!is_last) continue;
        if (!add_statement(script, (const char *)buffer_span(&text).data, arena, out_error))
            return false;
        text = (struct buffer){ .arena = arena };
        is_empty = true;
    }
    if (!is_empty || script->statement_count == 0) {
        (void)snprintf(out_error, 256, "the last statement does not end");
        return false;
    }
    return true;
}

bool script_load(const char *path, bool is_array, struct script *out, char out_error[256])
{
    *out = (struct script){ .is_array = is_array };
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(out_error, 256, "%s: %s", path, strerror(errno));
        return false;
    }
    struct arena arena = { 0 };
    const bool is_read = read_lines(file, out, &arena, out_error);
    arena_finish(&arena);
    (void)fclose(file);
    if (!is_read) script_finish(out);
    return is_read;
}

void script_finish(struct script *script)
{
    for (size_t i = 0; i < script->statement_count; i++) free(script->statements[i].text);
    *script = (struct script){ 0 };
}
