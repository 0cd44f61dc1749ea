/* ops/sim/textbuf.c: see textbuf.h. */
#include "ops/sim/textbuf.h"

#include <jansson.h>
#include <stdarg.h>

static void reserve(struct textbuf *buf, size_t more)
{
    INVARIANT(more < SIZE_MAX / 4 && buf->length < SIZE_MAX / 4);
    const size_t needed = buf->length + more + 1;
    if (needed <= buf->capacity) return;
    size_t capacity = buf->capacity == 0 ? 512 : buf->capacity;
    while (capacity < needed) capacity *= 2;
    buf->data = memory_resize(buf->data, capacity);
    buf->capacity = capacity;
}

void textbuf_add(struct textbuf *buf, const void *data, size_t length)
{
    reserve(buf, length);
    if (length > 0) memcpy(buf->data + buf->length, data, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
}

void textbuf_text(struct textbuf *buf, const char *text)
{
    textbuf_add(buf, text, strlen(text));
}

void textbuf_format(struct textbuf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    reserve(buf, 256);
    const size_t space = buf->capacity - buf->length;
    const int length = vsnprintf(buf->data + buf->length, space, format, arguments);
    va_end(arguments);
    INVARIANT(length >= 0);
    if ((size_t)length >= space) {
        reserve(buf, (size_t)length);
        (void)vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
    }
    va_end(again);
    buf->length += (size_t)length;
}

void textbuf_json(struct textbuf *buf, const char *text)
{
    if (text == NULL) {
        textbuf_text(buf, "null");
        return;
    }
    textbuf_add(buf, "\"", 1);
    const char *plain = text;
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c >= 0x20 && *c != '"' && *c != '\\') continue;
        textbuf_add(buf, plain, (size_t)(c - plain));
        plain = c + 1;
        if (*c == '"' || *c == '\\') {
            const char escaped[2] = { '\\', *c };
            textbuf_add(buf, escaped, sizeof escaped);
        } else {
            textbuf_format(buf, "\\u%04x", (unsigned)(unsigned char)*c);
        }
    }
    textbuf_text(buf, plain);
    textbuf_add(buf, "\"", 1);
}

void textbuf_clear(struct textbuf *buf)
{
    buf->length = 0;
    if (buf->data != NULL) buf->data[0] = '\0';
}

void textbuf_finish(struct textbuf *buf)
{
    free(buf->data);
    *buf = (struct textbuf){ 0 };
}

bool textbuf_is_utf8(const char *text)
{
    const char *c = text;
    while (*c != '\0' && (unsigned char)*c < 0x80) c++;
    if (*c == '\0') return true; /* plain ASCII */
    json_t *string = json_string(text);
    const bool valid = string != NULL;
    json_decref(string);
    return valid;
}
