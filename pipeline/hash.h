/*
 * pipeline/hash.h: SHA-256, HMAC-SHA256, lower-case hex and a comparison that takes the same time
 * wherever two secrets differ. The arithmetic is libcrypto's; nothing else in the house calls it.
 */
#ifndef ONCEPAY_PIPELINE_HASH_H
#define ONCEPAY_PIPELINE_HASH_H

#include "pipeline/base.h"

enum { HASH_SIZE = 32, HASH_HEX_SIZE = 2 * HASH_SIZE + 1 };

void hash_sha256(struct span data, uint8_t out[HASH_SIZE]);

/* The key may have any length; an empty key is a bug of the caller, never a signature. */
void hash_hmac_sha256(struct span key, struct span data, uint8_t out[HASH_SIZE]);

/* Writes 2 * data.length lower-case digits and NUL. Returns text. */
char *hash_hex(struct span data, char *text);

/* Exactly 2 * size hex digits, either case. out untouched on failure. */
bool hash_unhex(struct span text, uint8_t *out, size_t size) MUST_CHECK;

/* For digests and signatures; only the lengths may leak. */
bool hash_equal(struct span a, struct span b) MUST_CHECK;

#endif
