/*
 * pipeline/log.h: one line per outcome, on stderr: JSON, or logfmt when stderr is a terminal.
 * Fields are typed; there is no formatter for tokens, keys, secrets or bodies, and runs of digits
 * that look like a card number are masked. A line is bounded, built on the stack and written with
 * one write(2). ONCEPAY_LOG: debug, info (default), warning, error, off. The log is not the audit:
 * history is.
 *
 *   LOG_INFO("settled", LOG_ID("payment", id.uuid), LOG_TEXT("to", "CAPTURED"));
 */
#ifndef ONCEPAY_PIPELINE_LOG_H
#define ONCEPAY_PIPELINE_LOG_H

#include "pipeline/id.h"

enum log_level {
    LOG_LEVEL_DEBUG = 0,
    LOG_LEVEL_INFO = 1,
    LOG_LEVEL_WARNING = 2,
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_OFF = 4,
};

enum log_kind {
    LOG_KIND_END = 0,
    LOG_KIND_TEXT,
    LOG_KIND_NUMBER,
    LOG_KIND_BOOLEAN,
    LOG_KIND_ID,
};

struct log_field {
    const char *name;
    enum log_kind kind;
    const char *text;
    int64_t number;
    struct uuid id;
};

/* Names the program in every line and reads ONCEPAY_LOG. Not called: "oncepay", level info. */
void log_open(const char *program);
bool log_is_on(enum log_level level);
/* Text goes to another descriptor than stderr, as JSON or logfmt. For tests. */
void log_redirect(int descriptor, bool as_json);

/* fields end with LOG_KIND_END. Thread-safe. A field with NULL text or a nil id is left out. */
void log_write(enum log_level level, const char *message, const struct log_field *fields);

#define LOG_TEXT(field, value)                                                                     \
    ((struct log_field){ .name = (field), .kind = LOG_KIND_TEXT, .text = (value) })
#define LOG_NUMBER(field, value)                                                                   \
    ((struct log_field){ .name = (field), .kind = LOG_KIND_NUMBER, .number = (int64_t)(value) })
#define LOG_BOOLEAN(field, value)                                                                  \
    ((struct log_field){ .name = (field), .kind = LOG_KIND_BOOLEAN, .number = (value) ? 1 : 0 })
#define LOG_ID(field, value)                                                                       \
    ((struct log_field){ .name = (field), .kind = LOG_KIND_ID, .id = (value) })
#define LOG_END_ ((struct log_field){ .name = NULL, .kind = LOG_KIND_END })

#define LOG_LINE_(level, message, ...)                                                             \
    do {                                                                                           \
        if (log_is_on(level))                                                                      \
            log_write(level, message, (const struct log_field[]){ __VA_ARGS__ });                  \
    } while (0)
#define LOG_DEBUG(...) LOG_LINE_(LOG_LEVEL_DEBUG, __VA_ARGS__, LOG_END_)
#define LOG_INFO(...) LOG_LINE_(LOG_LEVEL_INFO, __VA_ARGS__, LOG_END_)
#define LOG_WARNING(...) LOG_LINE_(LOG_LEVEL_WARNING, __VA_ARGS__, LOG_END_)
#define LOG_ERROR(...) LOG_LINE_(LOG_LEVEL_ERROR, __VA_ARGS__, LOG_END_)

#endif
