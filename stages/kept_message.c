/* stages/kept_message.c: see kept_message.h. */
#include "stages/kept_message.h"

#include "pipeline/buffer.h"
#include "pipeline/mask.h"

/* Text that PostgreSQL takes: what is not UTF-8 becomes '?', card numbers are masked. */
static const char *storable_text(const char *text, struct arena *arena)
{
    const size_t length = strlen(text);
    char *copy = arena_copy(arena, text, length);
    const bool is_valid = value_text_is_valid((struct span){ (const uint8_t *)copy, length });
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)copy[i];
        if (byte < ' ' || byte == 0x7f || (!is_valid && byte > 0x7f)) copy[i] = '?';
    }
    (void)mask_card_numbers(copy, length);
    return copy;
}

static const char *storable_headers(const struct bus_message *message, struct arena *arena)
{
    struct buffer lines = { .arena = arena };
    for (size_t i = 0; i < message->header_count; i++) {
        buffer_add_text(&lines, storable_text(message->headers[i].name, arena));
        buffer_add_text(&lines, ": ");
        buffer_add_text(&lines, storable_text(message->headers[i].value, arena));
        buffer_add_byte(&lines, '\n');
    }
    return lines.length == 0 ? "" : (const char *)buffer_span(&lines).data;
}

void kept_message_of_commands(const struct bus_message *message, struct arena *arena,
                              struct kept_message *out)
{
    *out = (struct kept_message){
        .subject = storable_text(message->subject, arena),
        .headers = storable_headers(message, arena),
        .body = message->body,
    };
}

void kept_message_of_request(const struct bus_message *message, enum content_type content,
                             struct arena *arena, struct kept_message *out)
{
    struct kept_body kept;
    kept_body_make(message->body, content, arena, &kept);
    kept_message_of_commands(message, arena, out);
    out->body = kept.body;
    out->method_token = kept.method_token;
}
