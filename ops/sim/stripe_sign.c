/* ops/sim/stripe_sign.c: see stripe_sign.h. */
#include "ops/sim/stripe_sign.h"

#include "pipeline/hash.h"

void stripe_sign_header(const char *secret, int64_t now_s, struct span body, struct textbuf *out)
{
    struct textbuf text = { 0 };
    textbuf_format(&text, "%" PRId64 ".", now_s);
    textbuf_add(&text, body.data, body.length);
    uint8_t mac[HASH_SIZE];
    hash_hmac_sha256(span_of_text(secret), (struct span){ (const uint8_t *)text.data, text.length },
                     mac);
    char hex[HASH_HEX_SIZE];
    textbuf_format(out, "Stripe-Signature: t=%" PRId64 ",v1=%s", now_s,
                   hash_hex((struct span){ mac, HASH_SIZE }, hex));
    textbuf_finish(&text);
}
