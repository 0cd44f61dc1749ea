/* tests/simulation/shrink.c: see shrink.h. */
#include "tests/simulation/shrink.h"

enum { RUNS_MAX = 3000, INVARIANT_SIZE = 16 };

struct hunt {
    struct world *world;
    struct plan *best;
    enum mutant mutant;
    char invariant[INVARIANT_SIZE]; /* "I9": what it must go on failing by */
    unsigned runs;
};

static void name_invariant(const struct world *world, char out[INVARIANT_SIZE])
{
    (void)snprintf(out, INVARIANT_SIZE, "%.*s", (int)strcspn(world->failure, ":"), world->failure);
}

/* True, and the best from now on: it still fails. */
static bool try_plan(struct hunt *hunt, const struct plan *plan)
{
    char invariant[INVARIANT_SIZE];
    if (hunt->runs++ >= RUNS_MAX) return false;
    if (world_run(hunt->world, plan, hunt->mutant, NULL)) return false;
    name_invariant(hunt->world, invariant);
    if (strcmp(invariant, hunt->invariant) != 0) return false;
    *hunt->best = *plan;
    return true;
}

static void leave_out_sites(struct hunt *hunt)
{
    for (unsigned i = 0; i < CHOICE_COUNT; i++) {
        struct plan plan = *hunt->best;
        plan.sites_off |= UINT64_C(1) << i;
        if (plan.sites_off != hunt->best->sites_off) (void)try_plan(hunt, &plan);
    }
}

static void leave_out_requests(struct hunt *hunt)
{
    for (unsigned i = 0; i < 40; i++) {
        struct plan plan = *hunt->best;
        plan.requests_off |= UINT64_C(1) << i;
        if (plan.requests_off != hunt->best->requests_off) (void)try_plan(hunt, &plan);
    }
}

/* The faults that strike in the best plan, by halves, quarters … down to single ones. */
static void leave_out_faults(struct hunt *hunt)
{
    (void)world_run(hunt->world, hunt->best, hunt->mutant, NULL);
    struct choice_fired fired[CHOICE_FIRED_MAX];
    const size_t count = hunt->world->choices.fired_count;
    memcpy(fired, hunt->world->choices.fired, count * sizeof *fired);
    for (size_t part = (count + 1) / 2; part > 0; part /= 2) {
        for (size_t first = 0; first < count; first += part) {
            struct plan plan = *hunt->best;
            for (size_t i = first; i < first + part && i < count; i++) {
                if (plan.skip_count < CHOICE_SKIPS_MAX) plan.skips[plan.skip_count++] = fired[i];
            }
            (void)try_plan(hunt, &plan);
        }
    }
}

/* Skips of faults that would not strike any more say nothing. */
static void drop_idle_skips(struct hunt *hunt)
{
    for (size_t i = hunt->best->skip_count; i > 0; i--) {
        struct plan plan = *hunt->best;
        plan.skips[i - 1] = plan.skips[--plan.skip_count];
        (void)try_plan(hunt, &plan);
    }
}

void shrink(struct world *world, struct plan *plan, enum mutant mutant)
{
    struct hunt hunt = { .world = world, .best = plan, .mutant = mutant };
    (void)world_run(world, plan, mutant, NULL);
    name_invariant(world, hunt.invariant);
    leave_out_sites(&hunt);
    leave_out_requests(&hunt);
    leave_out_faults(&hunt);
    leave_out_sites(&hunt);
    drop_idle_skips(&hunt);
}
