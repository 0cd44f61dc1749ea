/*
 * pipeline/provider_key.h: the idempotency key of one attempt step at the PSP, which is also our
 * reference in the request body. It is a pure function of what the payment is (protocol C4): a
 * database that lost its last commits builds the same key again, so the PSP sees no second charge.
 */
#ifndef ONCEPAY_PIPELINE_PROVIDER_KEY_H
#define ONCEPAY_PIPELINE_PROVIDER_KEY_H

#include "pipeline/state.h"

struct provider_key_input {
    const char *installation; /* config: tells two oncepays on one PSP account apart */
    const char *merchant;
    const char *out_trade_no;
    enum operation operation;
    int number;  /* which operation of its kind: 1 for the create */
    int ordinal; /* which attempt of that operation, from 1 */
    int step;    /* which request family of that attempt, from 1 */
};

enum { PROVIDER_KEY_SIZE = 56, PROVIDER_KEY_LENGTH_MIN = 24 };

/*
 * "op_" and the base32 form (a-z2-7) of a SHA-256, cut to length_max, which is the capability's
 * key_length_max and at least PROVIDER_KEY_LENGTH_MIN (105 bits). Letters, digits and "_" only:
 * every PSP's alphabet. Returns text.
 */
char *provider_key_make(const struct provider_key_input *input, int length_max,
                        char text[PROVIDER_KEY_SIZE]);

#endif
