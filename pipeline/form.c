/* pipeline/form.c: see form.h. */
#include "pipeline/form.h"

static void append(struct form *form, char c)
{
    if (form->length == form->capacity) {
        const size_t capacity = form->capacity == 0 ? 512 : 2 * form->capacity;
        char *grown = arena_allocate(form->arena, capacity);
        if (form->length > 0) memcpy(grown, form->text, form->length);
        form->text = grown;
        form->capacity = capacity;
    }
    form->text[form->length++] = c;
}

static bool stands_for_itself(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_.~[]", c) != NULL);
}

static void append_encoded(struct form *form, const char *text)
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        if (stands_for_itself(*text)) {
            append(form, *text);
            continue;
        }
        const uint8_t byte = (uint8_t)*text;
        append(form, '%');
        append(form, DIGITS[byte >> 4]);
        append(form, DIGITS[byte & 15]);
    }
}

void form_add(struct form *form, const char *name, const char *value)
{
    if (form->length > 0) append(form, '&');
    append_encoded(form, name);
    append(form, '=');
    append_encoded(form, value);
}

void form_add_integer(struct form *form, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    form_add(form, name, text);
}

struct span form_body(const struct form *form)
{
    return (struct span){ (const uint8_t *)form->text, form->length };
}

static int hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

static enum status decode(struct span text, struct arena *arena, const char **out)
{
    char *decoded = arena_allocate(arena, text.length + 1);
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint8_t byte = text.data[i];
        if (byte == '+') {
            byte = ' ';
        } else if (byte == '%') {
            if (text.length - i < 3) return STATUS_BAD_DATA;
            const int high = hex_value(text.data[i + 1]);
            const int low = hex_value(text.data[i + 2]);
            if (high < 0 || low < 0) return STATUS_BAD_DATA;
            byte = (uint8_t)(high * 16 + low);
            i += 2;
        }
        if (byte == '\0') return STATUS_BAD_DATA;
        decoded[length++] = (char)byte;
    }
    *out = decoded;
    return STATUS_OK;
}

static enum status parse_field(struct span pair, struct arena *arena, struct form_field *out)
{
    const uint8_t *equals = memchr(pair.data, '=', pair.length);
    const size_t name_length = equals == NULL ? pair.length : (size_t)(equals - pair.data);
    if (name_length == 0) return STATUS_BAD_DATA;
    TRY(decode((struct span){ pair.data, name_length }, arena, &out->name));
    out->value = "";
    if (equals == NULL) return STATUS_OK;
    return decode((struct span){ equals + 1, pair.length - name_length - 1 }, arena, &out->value);
}

enum status form_parse(struct span body, struct arena *arena, const struct form_field **out_fields,
                       size_t *out_count)
{
    struct form_field *fields = arena_allocate(arena, FORM_FIELD_MAX * sizeof *fields);
    size_t count = 0;
    size_t start = 0;
    while (start < body.length) {
        const uint8_t *ampersand = memchr(body.data + start, '&', body.length - start);
        const size_t end = ampersand == NULL ? body.length : (size_t)(ampersand - body.data);
        if (count == FORM_FIELD_MAX) return STATUS_BAD_DATA;
        const struct span pair = { body.data + start, end - start };
        TRY(parse_field(pair, arena, &fields[count]));
        count++;
        start = end + 1;
    }
    *out_fields = fields;
    *out_count = count;
    return STATUS_OK;
}

const char *form_find(const struct form_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, name) == 0) return fields[i].value;
    }
    return NULL;
}
