/* pipeline/provider_key.c: see provider_key.h. */
#include "pipeline/provider_key.h"

#include "pipeline/hash.h"

static const char PREFIX[] = "op_";

/* The parts are printed with their lengths, so that no two inputs print alike. */
enum { INPUT_TEXT_SIZE = 1024 };

/* RFC 4648 base32 in lower case, without padding. Writes at most length characters. */
static void base32(const uint8_t *bytes, size_t size, char *text, size_t length)
{
    static const char ALPHABET[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint32_t bits = 0;
    int bit_count = 0;
    size_t written = 0;
    for (size_t i = 0; i < size && written < length; i++) {
        bits = bits << 8 | bytes[i];
        bit_count += 8;
        while (bit_count >= 5 && written < length) {
            bit_count -= 5;
            text[written++] = ALPHABET[bits >> bit_count & 31];
        }
    }
    if (bit_count > 0 && written < length) {
        text[written++] = ALPHABET[bits << (5 - bit_count) & 31];
    }
    text[written] = '\0';
}

char *provider_key_make(const struct provider_key_input *input, int length_max,
                        char text[PROVIDER_KEY_SIZE])
{
    INVARIANT(length_max >= PROVIDER_KEY_LENGTH_MIN);
    char parts[INPUT_TEXT_SIZE];
    const int length =
        snprintf(parts, sizeof parts, "oncepay-key-1 %zu:%s %zu:%s %zu:%s %d %d %d %d",
                 strlen(input->installation), input->installation, strlen(input->merchant),
                 input->merchant, strlen(input->out_trade_no), input->out_trade_no,
                 (int)input->operation, input->number, input->ordinal, input->step);
    INVARIANT(length > 0 && (size_t)length < sizeof parts);
    uint8_t digest[HASH_SIZE];
    hash_sha256((struct span){ (const uint8_t *)parts, (size_t)length }, digest);

    const size_t prefix_length = sizeof PREFIX - 1;
    size_t key_length = PROVIDER_KEY_SIZE - 1;
    if ((size_t)length_max < key_length) key_length = (size_t)length_max;
    memcpy(text, PREFIX, prefix_length);
    base32(digest, sizeof digest, text + prefix_length, key_length - prefix_length);
    return text;
}
