/* pipeline/hash.c: see hash.h. */
#include "pipeline/hash.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

void hash_sha256(struct span data, uint8_t out[HASH_SIZE])
{
    unsigned length = 0;
    const int done = EVP_Digest(data.length == 0 ? (const uint8_t *)"" : data.data, data.length,
                                out, &length, EVP_sha256(), NULL);
    INVARIANT(done == 1 && length == HASH_SIZE);
}

void hash_hmac_sha256(struct span key, struct span data, uint8_t out[HASH_SIZE])
{
    INVARIANT(key.length > 0 && key.length <= INT_MAX);
    unsigned length = 0;
    const uint8_t *done =
        HMAC(EVP_sha256(), key.data, (int)key.length,
             data.length == 0 ? (const uint8_t *)"" : data.data, data.length, out, &length);
    INVARIANT(done != NULL && length == HASH_SIZE);
}

char *hash_hex(struct span data, char *text)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < data.length; i++) {
        text[2 * i] = DIGITS[data.data[i] >> 4];
        text[2 * i + 1] = DIGITS[data.data[i] & 15];
    }
    text[2 * data.length] = '\0';
    return text;
}

static int hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

bool hash_unhex(struct span text, uint8_t *out, size_t size)
{
    if (text.length != 2 * size) return false;
    for (size_t i = 0; i < text.length; i++) {
        if (hex_value(text.data[i]) < 0) return false;
    }
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(hex_value(text.data[2 * i]) * 16 + hex_value(text.data[2 * i + 1]));
    }
    return true;
}

bool hash_equal(struct span a, struct span b)
{
    return a.length == b.length && (a.length == 0 || CRYPTO_memcmp(a.data, b.data, a.length) == 0);
}
