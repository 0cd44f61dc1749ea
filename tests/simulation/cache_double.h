/*
 * tests/simulation/cache_double.h: Redis: placeholders, finished answers and leases that expire,
 * are flushed, are away, or are lied about. An answer that it gives is a true one: what does not
 * verify is a miss (protocol E), which is the adapter's work.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_CACHE_DOUBLE_H
#define ONCEPAY_TESTS_SIMULATION_CACHE_DOUBLE_H

#include "pipeline/cache.h"
#include "pipeline/request.h"
#include "tests/simulation/world.h"

struct cache_double *cache_double_create(void);
void cache_double_destroy(struct cache_double *cache);
void cache_double_begin(struct world *world);

enum cache_verdict cache_double_claim(struct world *world, const struct worker *worker,
                                      const struct pay_request *request, uint64_t owner,
                                      struct span *out_answer);
/* answer lives in the world's arena. */
void cache_double_answer(struct world *world, const struct pay_request *request, struct span answer,
                         int64_t lifetime_us);
void cache_double_release(struct world *world, const struct pay_request *request, uint64_t owner);
enum cache_verdict cache_double_lease(struct world *world, const struct worker *worker,
                                      struct attempt_id attempt);
void cache_double_unlease(struct world *world, const struct worker *worker,
                          struct attempt_id attempt);

#endif
