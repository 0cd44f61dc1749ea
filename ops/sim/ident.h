/*
 * ops/sim/ident.h: object names as PSPs make them, and the two clocks. Names are random, so that
 * a reset simulator never gives out an object that somebody's books already know.
 */
#ifndef ONCEPAY_SIM_IDENT_H
#define ONCEPAY_SIM_IDENT_H

#include "pipeline/base.h"

enum { IDENT_SIZE = 40 };

/* prefix ("pi_") followed by 24 letters and digits. Returns out. */
char *ident_make(const char *prefix, char out[IDENT_SIZE]);

/* 1 to 64 of A-Z a-z 0-9 _ -: what an account name, and so a path segment, may be. */
bool ident_is_token(const char *text, size_t length);

int64_t ident_real_ms(void);
int64_t ident_monotonic_ms(void);

#endif
