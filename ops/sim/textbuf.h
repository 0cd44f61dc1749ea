/*
 * ops/sim/textbuf.h: growing text for JSON bodies and log lines. Written by hand rather than
 * through a JSON tree because every create writes four documents.
 */
#ifndef ONCEPAY_SIM_TEXTBUF_H
#define ONCEPAY_SIM_TEXTBUF_H

#include "pipeline/base.h"

/* Zeroed is empty. data is NUL-terminated, or NULL while nothing was ever added. */
struct textbuf {
    char *data;
    size_t length;
    size_t capacity;
};

void textbuf_add(struct textbuf *buf, const void *data, size_t length);
void textbuf_text(struct textbuf *buf, const char *text);
void textbuf_format(struct textbuf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* A quoted JSON string, or null for NULL. The text must be UTF-8. */
void textbuf_json(struct textbuf *buf, const char *text);
/* Keeps the memory for the next use. */
void textbuf_clear(struct textbuf *buf);
void textbuf_finish(struct textbuf *buf);

bool textbuf_is_utf8(const char *text);

#endif
