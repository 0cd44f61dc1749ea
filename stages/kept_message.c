/* stages/kept_message.c: see kept_message.h. */
#include "stages/kept_message.h"

#include "pipeline/buffer.h"
#include "pipeline/hash.h"
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

struct uuid kept_message_id(const struct bus_message *message, struct uuid outbox)
{
    enum { VERSION = 7, TIME_BYTES = 6, NUMBER_BYTES = sizeof(uint64_t) };
    uint8_t digest[HASH_SIZE];
    uint8_t identity[2 * NUMBER_BYTES + sizeof outbox.bytes];
    const uint64_t stored_us = (uint64_t)message->stored_at_us;
    const uint64_t stored_ms = stored_us / 1000;
    for (size_t i = 0; i < NUMBER_BYTES; i++) {
        identity[i] = (uint8_t)(message->stream_sequence >> (8 * i));
        identity[NUMBER_BYTES + i] = (uint8_t)(stored_us >> (8 * i));
    }
    memcpy(identity + 2 * NUMBER_BYTES, outbox.bytes, sizeof outbox.bytes);
    hash_hmac_sha256((struct span){ identity, sizeof identity }, message->body, digest);
    struct uuid id;
    memcpy(id.bytes, digest, sizeof id.bytes);
    for (size_t i = 0; i < TIME_BYTES; i++) {
        id.bytes[i] = (uint8_t)(stored_ms >> (8 * (TIME_BYTES - 1 - i)));
    }
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | VERSION << 4);
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80);
    return id;
}
