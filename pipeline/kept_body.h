/*
 * pipeline/kept_body.h: how a refused request is kept (protocol H6, I15): byte for byte, except
 * that card numbers, card verification values and tokens are blanked where they stand. Nothing is
 * parsed and written again, because a rewritten 100.00 would be another request. Tokens go beside
 * the body, for a replay only; card data goes nowhere.
 */
#ifndef ONCEPAY_PIPELINE_KEPT_BODY_H
#define ONCEPAY_PIPELINE_KEPT_BODY_H

#include "pipeline/value.h"

struct kept_body {
    struct span body;         /* as long as the original; in the arena */
    const char *method_token; /* what was blanked as "token", one line each; NULL if nothing was */
};

/* The body may be anything: cut off, malformed, or of the other content type. */
void kept_body_make(struct span body, enum content_type content, struct arena *arena,
                    struct kept_body *out);

/* The original again, but for card data. False if the lines do not fit the body. */
bool kept_body_restore(struct span kept, const char *method_token, struct arena *arena,
                       struct span *out) MUST_CHECK;

#endif
