/*
 * pipeline/mask.c: see mask.h. The text is cut into groups of digits; a candidate is a sequence of
 * whole groups, so a number that is followed by an expiry date ("4242 4242 4242 4242 12 30") is
 * still found, while a longer id is not taken apart.
 */
#include "pipeline/mask.h"

enum { CARD_DIGITS_MIN = 13, CARD_DIGITS_MAX = 19 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_separator(char c)
{
    return c == ' ' || c == '-';
}

static bool luhn_holds(const char *digits, size_t count)
{
    unsigned sum = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        unsigned digit = (unsigned)(digits[count - 1 - i] - '0');
        any = any || digit != 0;
        if (i % 2 == 1) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
        sum += digit;
    }
    return any && sum % 10 == 0; /* a row of zeros passes the sum and is nobody's card */
}

/* First position behind the card number that starts at start, the longest if several; 0 if none. */
static size_t card_end(const char *text, size_t length, size_t start)
{
    char digits[CARD_DIGITS_MAX];
    size_t count = 0;
    size_t end = 0;
    for (size_t at = start; at < length; at++) {
        if (is_digit(text[at])) {
            if (count == CARD_DIGITS_MAX) break;
            digits[count++] = text[at];
            const bool group_ends = at + 1 == length || !is_digit(text[at + 1]);
            if (group_ends && count >= CARD_DIGITS_MIN && luhn_holds(digits, count)) end = at + 1;
        } else if (!is_separator(text[at]) || !is_digit(text[at - 1])) {
            break;
        }
    }
    return end;
}

/* The next card number at or behind *at; moves *at to its start. 0 if there is none. */
static size_t find_card(const char *text, size_t length, size_t *at)
{
    for (; *at < length; (*at)++) {
        const bool group_starts = is_digit(text[*at]) && (*at == 0 || !is_digit(text[*at - 1]));
        if (!group_starts) continue;
        const size_t end = card_end(text, length, *at);
        if (end != 0) return end;
    }
    return 0;
}

size_t mask_card_numbers(char *text, size_t length)
{
    size_t found = 0;
    size_t at = 0;
    size_t end;
    while ((end = find_card(text, length, &at)) != 0) {
        for (; at < end; at++) {
            if (is_digit(text[at])) text[at] = '*';
        }
        found++;
    }
    return found;
}

bool mask_has_card_number(struct span text)
{
    size_t at = 0;
    return find_card((const char *)text.data, text.length, &at) != 0;
}
