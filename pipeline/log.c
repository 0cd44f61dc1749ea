/*
 * pipeline/log.c: see log.h. A line is built in one stack buffer and goes out in one write, so
 * lines of several threads and processes do not mix (they stay below PIPE_BUF).
 */
#include "pipeline/log.h"

#include <stdatomic.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "pipeline/mask.h"
#include "pipeline/value.h"

enum { LINE_SIZE = 4000, FIELD_LENGTH_MAX = 512, PROGRAM_SIZE = 32 };

struct line {
    char text[LINE_SIZE];
    size_t length;
};

static char log_program[PROGRAM_SIZE] = "oncepay";
static atomic_int log_threshold = LOG_LEVEL_INFO;
static atomic_int log_descriptor = STDERR_FILENO;
static atomic_bool log_as_logfmt;

static const char *const LEVEL_NAMES[] = {
    [LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_OFF] = "off",
};

void log_open(const char *program)
{
    (void)snprintf(log_program, sizeof log_program, "%s", program);
    const char *setting = getenv("ONCEPAY_LOG");
    for (size_t i = 0; setting != NULL && i < COUNT_OF(LEVEL_NAMES); i++) {
        if (strcmp(setting, LEVEL_NAMES[i]) == 0) log_threshold = (int)i;
    }
    log_as_logfmt = isatty(STDERR_FILENO) == 1;
}

void log_redirect(int descriptor, bool as_json)
{
    log_descriptor = descriptor;
    log_as_logfmt = !as_json;
}

bool log_is_on(enum log_level level)
{
    return (int)level >= log_threshold && level < LOG_LEVEL_OFF;
}

/* What does not fit is cut; room for the closing brace and the line break is always kept. */
static void put_byte(struct line *line, char byte)
{
    if (line->length < LINE_SIZE - 2) line->text[line->length++] = byte;
}

static void put(struct line *line, const char *text)
{
    while (*text != '\0') put_byte(line, *text++);
}

static bool needs_quotes(const char *text)
{
    if (*text == '\0') return true;
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text == '"' || *text == '=' || *text == '\\' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

/* Both forms quote alike; bytes beyond ASCII pass if the text is UTF-8 up to the cut. */
static void put_quoted(struct line *line, const char *text)
{
    static const char HEX[] = "0123456789abcdef";
    put_byte(line, '"');
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        /* Cut between characters, and leave room for what closes the line. */
        if (line->length > LINE_SIZE - 64 && (c & 0xc0) != 0x80) break;
        if (c == '"' || c == '\\') {
            put_byte(line, '\\');
            put_byte(line, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            put(line, "\\u00");
            put_byte(line, HEX[c >> 4]);
            put_byte(line, HEX[c & 15]);
        } else {
            put_byte(line, (char)c);
        }
    }
    put_byte(line, '"');
}

/* A bounded, masked copy; a UTF-8 sequence is never cut in the middle, other bytes become '?'. */
static void text_copy(const char *text, char copy[FIELD_LENGTH_MAX + 1])
{
    size_t length = strnlen(text, FIELD_LENGTH_MAX + 1);
    if (length > FIELD_LENGTH_MAX) {
        length = FIELD_LENGTH_MAX;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    const struct span span = { (const uint8_t *)copy, length };
    if (!value_text_is_valid(span)) {
        for (size_t i = 0; i < length; i++) {
            if ((unsigned char)copy[i] >= 0x80) copy[i] = '?';
        }
    }
    (void)mask_card_numbers(copy, length);
}

static void put_name(struct line *line, const char *name)
{
    if (log_as_logfmt) {
        if (line->length > 0) put_byte(line, ' ');
        put(line, name);
        put_byte(line, '=');
    } else {
        put_byte(line, line->length == 0 ? '{' : ',');
        put_byte(line, '"');
        put(line, name);
        put(line, "\":");
    }
}

static void put_text(struct line *line, const char *name, const char *text)
{
    char copy[FIELD_LENGTH_MAX + 1];
    text_copy(text, copy);
    put_name(line, name);
    if (log_as_logfmt && !needs_quotes(copy)) {
        put(line, copy);
    } else {
        put_quoted(line, copy);
    }
}

static void put_number(struct line *line, const char *name, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    put_name(line, name);
    put(line, text);
}

/* Ids are not masked: their hex digits may look like anything. */
static void put_id(struct line *line, const char *name, struct uuid id)
{
    char text[UUID_TEXT_SIZE];
    put_name(line, name);
    if (!log_as_logfmt) put_byte(line, '"');
    put(line, uuid_format(id, text));
    if (!log_as_logfmt) put_byte(line, '"');
}

static void put_field(struct line *line, const struct log_field *field)
{
    switch (field->kind) {
    case LOG_KIND_END:
        return;
    case LOG_KIND_TEXT:
        if (field->text != NULL) put_text(line, field->name, field->text);
        return;
    case LOG_KIND_NUMBER:
        put_number(line, field->name, field->number);
        return;
    case LOG_KIND_BOOLEAN:
        put_name(line, field->name);
        put(line, field->number != 0 ? "true" : "false");
        return;
    case LOG_KIND_ID:
        if (!uuid_is_nil(field->id)) put_id(line, field->name, field->id);
        return;
    }
    UNREACHABLE("log kind out of range");
}

static void put_time(struct line *line)
{
    char time[CLOCK_TEXT_SIZE];
    put_name(line, "time");
    if (!log_as_logfmt) put_byte(line, '"');
    put(line, clock_format(clock_real_us(), time));
    if (!log_as_logfmt) put_byte(line, '"');
}

void log_write(enum log_level level, const char *message, const struct log_field *fields)
{
    if (!log_is_on(level)) return;
    struct line line;
    line.length = 0;
    put_time(&line);
    put_text(&line, "level", LEVEL_NAMES[level]);
    put_text(&line, "program", log_program);
    put_text(&line, "message", message);
    for (; fields->kind != LOG_KIND_END; fields++) {
        if (line.length > LINE_SIZE - FIELD_LENGTH_MAX) {
            put_name(&line, "truncated");
            put(&line, "true");
            break;
        }
        put_field(&line, fields);
    }
    if (!log_as_logfmt) line.text[line.length++] = '}';
    line.text[line.length++] = '\n';
    /* A log that cannot be written must not stop a payment. */
    const ssize_t ignored = write(log_descriptor, line.text, line.length);
    (void)ignored;
}
