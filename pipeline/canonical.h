/*
 * pipeline/canonical.h: the canonical JSON that fingerprints and hashes are taken over: members
 * sorted by the bytes of their names, no white space, shortest string escapes, normalised numbers
 * (100 and 100.00 agree), binary as base64. The same content in JSON and MessagePack gives the
 * same bytes.
 */
#ifndef ONCEPAY_PIPELINE_CANONICAL_H
#define ONCEPAY_PIPELINE_CANONICAL_H

#include "pipeline/value.h"

struct span canonical_json(const struct value *value, struct arena *arena);

#endif
