/*
 * pipeline/kept_body.c: see kept_body.h. Members are found by their names' bytes in either form
 * (JSON "token": "…", MessagePack str 5 "token" str n), not by structure, so that a body which
 * cannot be parsed gives nothing away either. At worst too much is blanked.
 */
#include "pipeline/kept_body.h"

#include "pipeline/buffer.h"
#include "pipeline/mask.h"

struct bytes {
    uint8_t *data;
    size_t length;
};

struct range {
    size_t start;
    size_t length;
    uint8_t filler; /* what it is blanked with, so that either form can still be read */
};

enum { FILLER_TEXT = '*', FILLER_DIGIT = '0', FILLER_NUMBER = 0 };
enum { ESCAPE_LENGTH = 6, OTHER_CHARACTER = '?' }; /* \u0034; one beyond ASCII */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_number_byte(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-';
}

static size_t skip_blanks(const struct bytes *body, size_t at)
{
    while (at < body->length && is_blank(body->data[at])) at++;
    return at;
}

/* Up to the closing quote, or to the end of a body that was cut off. */
static struct range json_text_at(const struct bytes *body, size_t start)
{
    size_t at = start;
    while (at < body->length && body->data[at] != '"') at += body->data[at] == '\\' ? 2 : 1;
    if (at > body->length) at = body->length;
    return (struct range){ start, at - start, FILLER_TEXT };
}

/* Behind a JSON name whose closing quote is at `at`: text without its quotes, or a bare number. */
static bool json_value_at(const struct bytes *body, size_t at, struct range *out)
{
    if (at >= body->length || body->data[at] != '"') return false;
    at = skip_blanks(body, at + 1);
    if (at >= body->length || body->data[at] != ':') return false;
    at = skip_blanks(body, at + 1);
    if (at >= body->length) return false;
    if (body->data[at] == '"') {
        *out = json_text_at(body, at + 1);
        return true;
    }
    const size_t start = at;
    while (at < body->length && is_number_byte(body->data[at])) at++;
    *out = (struct range){ start, at - start, FILLER_DIGIT };
    return at > start;
}

static bool length_at(const struct bytes *body, size_t at, size_t width, size_t *out_length)
{
    if (at + width > body->length) return false;
    size_t length = 0;
    for (size_t i = 0; i < width; i++) length = length << 8 | body->data[at + i];
    *out_length = length;
    return true;
}

/* The MessagePack text, binary or unsigned number at `at`, cut at the end of the body. */
static bool msgpack_value_at(const struct bytes *body, size_t at, struct range *out)
{
    if (at >= body->length) return false;
    const uint8_t head = body->data[at++];
    size_t width = 0;
    size_t length = 0;
    uint8_t filler = FILLER_TEXT;
    if (head <= 0x7f) { /* a small number is its own head */
        *out = (struct range){ at - 1, 1, FILLER_NUMBER };
        return true;
    }
    if ((head & 0xe0) == 0xa0) {
        length = head & 0x1f;
    } else if (head >= 0xcc && head <= 0xcf) {
        length = (size_t)1 << (head - 0xcc);
        filler = FILLER_NUMBER;
    } else {
        if (head == 0xd9 || head == 0xc4) width = 1;
        if (head == 0xda || head == 0xc5) width = 2;
        if (head == 0xdb || head == 0xc6) width = 4;
        if (width == 0 || !length_at(body, at, width, &length)) return false;
    }
    at += width;
    if (length > body->length - at) length = body->length - at;
    *out = (struct range){ at, length, filler };
    return true;
}

/* The value of a member called name whose name begins at `at`. */
static bool member_value_at(const struct bytes *body, size_t at, const char *name,
                            struct range *out)
{
    const size_t length = strlen(name);
    if (at == 0 || length > body->length - at || memcmp(body->data + at, name, length) != 0)
        return false;
    const uint8_t before = body->data[at - 1];
    if (before == '"') return json_value_at(body, at + length, out);
    if (before == (0xa0 | length) || before == length)
        return msgpack_value_at(body, at + length, out);
    return false;
}

/* From *at on; true if found, and *at is behind it then. */
static bool next_member(const struct bytes *body, const char *name, size_t *at, struct range *out)
{
    for (size_t i = *at; i < body->length; i++) {
        if (body->data[i] != (uint8_t)name[0] || !member_value_at(body, i, name, out)) continue;
        *at = out->start + out->length;
        return true;
    }
    return false;
}

static void blank(const struct bytes *body, const struct range *range)
{
    memset(body->data + range->start, range->filler, range->length);
}

static void blank_verification_values(const struct bytes *body)
{
    static const char *const NAMES[] = { "cvc",           "cvc2", "cvv",    "cvv2",  "cvn",
                                         "security_code", "pin",  "track1", "track2" };
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        size_t at = 0;
        struct range range;
        while (next_member(body, NAMES[i], &at, &range)) blank(body, &range);
    }
}

/* The ASCII character that a JSON escape at `at` stands for (\u0034 is a 4); 0: no escape there. */
static char escaped_at(const struct bytes *body, size_t at)
{
    static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
    unsigned code = 0;
    if (body->length - at < ESCAPE_LENGTH || body->data[at + 1] != 'u') return 0;
    for (size_t i = 2; i < ESCAPE_LENGTH; i++) {
        const char *digit = memchr(DIGITS, body->data[at + i], sizeof DIGITS - 1);
        if (digit == NULL) return 0;
        code = code << 4 | (unsigned)(digit - DIGITS) % 16;
    }
    return code > 0 && code < 0x80 ? (char)code : OTHER_CHARACTER;
}

/* Card numbers with digits, blanks or hyphens in escapes: what a reader of the text would see. */
static void mask_escaped(const struct bytes *body, struct arena *arena)
{
    char *plain = arena_allocate(arena, body->length);
    size_t *starts = arena_allocate(arena, body->length * sizeof *starts);
    size_t length = 0;
    for (size_t at = 0; at < body->length; length++) {
        const char escaped = body->data[at] == '\\' ? escaped_at(body, at) : 0;
        plain[length] = escaped != 0 ? escaped : (char)body->data[at];
        starts[length] = at;
        at += escaped != 0 ? ESCAPE_LENGTH : 1;
        const bool is_pair = escaped == 0 && plain[length] == '\\' && at < body->length;
        if (!is_pair) continue;
        plain[++length] = (char)body->data[at]; /* "\\u0034" is a backslash and five characters */
        starts[length] = at++;
    }
    if (mask_card_numbers(plain, length) == 0) return;
    for (size_t i = 0; i < length; i++) {
        if (plain[i] != FILLER_TEXT) continue;
        uint8_t *start = body->data + starts[i];
        if (*start == '\\') {
            memcpy(start, "\\u002a", ESCAPE_LENGTH);
        } else {
            *start = FILLER_TEXT;
        }
    }
}

static void mask_cards(const struct bytes *body, struct arena *arena)
{
    (void)mask_card_numbers((char *)body->data, body->length);
    const bool has_escapes = body->length > 0 && memchr(body->data, '\\', body->length) != NULL;
    if (has_escapes) mask_escaped(body, arena);
}

/* The eight bytes that MessagePack writes such a number as. */
static bool number_is_card(const struct value *value, uint8_t big_endian[8])
{
    char text[24];
    uint64_t bits;
    struct span digits = value->bytes;
    if (value->kind == VALUE_INTEGER) {
        (void)snprintf(text, sizeof text, "%" PRId64, value->integer);
        digits = span_of_text(text);
        bits = (uint64_t)value->integer;
    } else if (value->kind == VALUE_DECIMAL && value->is_integral) {
        bits = strtoull((const char *)value->bytes.data, NULL, 10);
    } else if (value->kind == VALUE_DECIMAL) {
        const double number = strtod((const char *)value->bytes.data, NULL); /* not money */
        memcpy(&bits, &number, sizeof bits);
    } else {
        return false;
    }
    for (int i = 0; i < 8; i++) big_endian[i] = (uint8_t)(bits >> (56 - 8 * i));
    return mask_has_card_number(digits);
}

/* A card number sent as a MessagePack number shows no digits; its eight bytes are looked for. */
static void blank_card_numbers(const struct bytes *body, const struct value *value)
{
    uint8_t pattern[8];
    for (size_t i = 0; value->kind == VALUE_LIST && i < value->count; i++) {
        blank_card_numbers(body, &value->items[i]);
    }
    for (size_t i = 0; value->kind == VALUE_MAP && i < value->count; i++) {
        blank_card_numbers(body, &value->members[i].value);
    }
    if (!number_is_card(value, pattern)) return;
    for (size_t i = 0; i + sizeof pattern <= body->length; i++) {
        if (memcmp(body->data + i, pattern, sizeof pattern) == 0)
            memset(body->data + i, 0, sizeof pattern);
    }
}

/* The same where there is no document to walk: each head of an eight-byte number is tried. */
static void blank_cards_behind_heads(const struct bytes *body, struct arena *arena)
{
    enum { NUMBER_LENGTH = 9 };
    struct value value;
    for (size_t i = 0; i + NUMBER_LENGTH <= body->length; i++) {
        const uint8_t head = body->data[i];
        if (head != 0xcf && head != 0xd3 && head != 0xcb) continue;
        const struct span number = { body->data + i, NUMBER_LENGTH };
        if (value_read_msgpack(number, arena, &value, NULL) == STATUS_OK) {
            blank_card_numbers(&(struct bytes){ body->data + i, NUMBER_LENGTH }, &value);
        }
    }
}

static void blank_binary_cards(const struct bytes *kept, struct span body, struct arena *arena)
{
    struct value document;
    if (value_read_msgpack(body, arena, &document, NULL) == STATUS_OK) {
        blank_card_numbers(kept, &document);
    } else {
        blank_cards_behind_heads(kept, arena);
    }
}

/*
 * One line per token; one that is no line of text cannot be given back and is only blanked. What
 * stands in a token's place may be a card number: that is not kept here either.
 */
static bool take_token(const struct bytes *body, const struct range *range, struct buffer *lines)
{
    const struct bytes token = { body->data + range->start, range->length };
    const struct span text = { token.data, token.length };
    mask_cards(&token, lines->arena);
    if (range->length == 0 || memchr(text.data, '\n', text.length) != NULL ||
        !value_text_is_valid(text))
        return false;
    buffer_add(lines, text.data, text.length);
    buffer_add_byte(lines, '\n');
    return true;
}

void kept_body_make(struct span body, enum content_type content, struct arena *arena,
                    struct kept_body *out)
{
    const struct bytes kept = { (uint8_t *)arena_copy(arena, body.data, body.length), body.length };
    struct buffer lines = { .arena = arena };
    struct range range;
    size_t at = 0;
    bool is_whole = true;
    while (next_member(&kept, "token", &at, &range)) {
        if (!take_token(&kept, &range, &lines)) is_whole = false;
        blank(&kept, &range);
    }
    blank_verification_values(&kept);
    const bool is_text = content == CONTENT_JSON && value_text_is_valid(body);
    if (!is_text) blank_binary_cards(&kept, body, arena);
    mask_cards(&kept, arena); /* last: what was blanked before may have cut a longer run */
    out->body = (struct span){ kept.data, kept.length };
    out->method_token =
        is_whole && lines.length > 0 ? (const char *)buffer_span(&lines).data : NULL;
}

bool kept_body_restore(struct span kept, const char *method_token, struct arena *arena,
                       struct span *out)
{
    const struct bytes body = { (uint8_t *)arena_copy(arena, kept.data, kept.length), kept.length };
    const char *line = method_token == NULL ? "" : method_token;
    struct range range;
    size_t at = 0;
    while (next_member(&body, "token", &at, &range)) {
        const char *end = strchr(line, '\n');
        if (end == NULL || (size_t)(end - line) != range.length) return false;
        memcpy(body.data + range.start, line, range.length);
        line = end + 1;
    }
    if (*line != '\0') return false;
    *out = (struct span){ body.data, body.length };
    return true;
}
