/*
 * tests/fuzz/stripe_webhook_fuzz.c: a webhook: a byte, a line with the Stripe-Signature header, the
 * body. By the byte the header is taken as it is, and then nothing may pass, since nobody who wrote
 * an input knows the secret; or the body is signed here, so that what lies behind the signature is
 * reached. A signature over one body is none over another.
 */
#include "adapters/stripe/stripe.h"
#include "pipeline/hash.h"
#include "pipeline/mask.h"
#include "pipeline/value.h"
#include "tests/fuzz/fuzz.h"

enum { NOW_S = 1760000000 };

static const struct psp_account ACCOUNT = {
    .id = "stripe-main",
    .webhook_secrets = { "whsec_of_this_file_only_0b7f6c", "whsec_of_this_file_only_91d2ae" },
    .webhook_tolerance_s = 300,
};

static enum status verify(const char *signature, struct span body, struct arena *arena,
                          struct observation *out, const char **out_error)
{
    const struct http_header headers[] = { { "Host", "gateway" },
                                           { "stripe-signature", signature } };
    *out_error = NULL;
    return stripe_ops.verify_webhook(&ACCOUNT, headers, COUNT_OF(headers), body, NOW_S, arena, out,
                                     out_error);
}

static const char *sign(struct span body, const char *secret, struct arena *arena)
{
    char *prefix = arena_format(arena, "%d.", NOW_S);
    const size_t length = strlen(prefix);
    uint8_t *signed_bytes = arena_allocate(arena, length + body.length);
    memcpy(signed_bytes, prefix, length);
    if (body.length > 0) memcpy(signed_bytes + length, body.data, body.length);
    uint8_t digest[HASH_SIZE];
    char hex[HASH_HEX_SIZE];
    hash_hmac_sha256(span_of_text(secret), (struct span){ signed_bytes, length + body.length },
                     digest);
    return arena_format(arena, "t=%d,v1=%s", NOW_S,
                        hash_hex((struct span){ digest, sizeof digest }, hex));
}

static void check_accepted(const struct observation *observation, struct arena *arena)
{
    struct value excerpt;
    const struct span text = span_of_text(observation->excerpt);
    INVARIANT(observation->provider_event != NULL && observation->provider_event[0] != '\0');
    INVARIANT(observation->source == SOURCE_WEBHOOK && observation->observed_at_us >= 0);
    INVARIANT(value_read_json(text, arena, &excerpt, NULL) == STATUS_OK);
    INVARIANT(excerpt.kind == VALUE_MAP && !mask_has_card_number(text));
    INVARIANT(observation->kind != OBSERVED_UNSENT && observation->kind != OBSERVED_NOT_FOUND);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span body = { data, size };
    struct observation observation;
    const char *error;
    const size_t choice = fuzz_choice(&body, 3);
    const char *header = fuzz_line(&body, &arena);
    if (choice == 0) {
        INVARIANT(verify(header, body, &arena, &observation, &error) == STATUS_BAD_DATA);
        INVARIANT(error != NULL);
    } else {
        const char *signature = sign(body, ACCOUNT.webhook_secrets[choice - 1], &arena);
        if (verify(signature, body, &arena, &observation, &error) == STATUS_OK) {
            check_accepted(&observation, &arena);
        } else {
            INVARIANT(strcmp(error, "body_malformed") == 0);
        }
        if (body.length > 0) body.length--;
        INVARIANT(verify(signature, body, &arena, &observation, &error) == STATUS_BAD_DATA);
    }
    arena_finish(&arena);
    return 0;
}
