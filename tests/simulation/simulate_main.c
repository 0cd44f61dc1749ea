/*
 * tests/simulation/simulate_main.c: oncepay-simulate: the decision core in a world of its own. The
 * deciders are the real ones (intake_decide, route_decide, judge, recovery_plan,
 * settle_decide, finding_outcome, stray_fact_calls, the relay's reader, queue and sweep, the
 * transition table, provider keys, answers); everything around them is simulated, in one thread,
 * with virtual time and from a seed: streams, PostgreSQL, Redis, the PSP, webhooks, producers, and
 * workers that die or stand still at any await.
 *
 *   oncepay-simulate                              2000 seeds from 1
 *   oncepay-simulate --seeds 50000 --first 7      more, others
 *   oncepay-simulate --seed 4711 --trace          one seed, step by step
 *   oncepay-simulate --mutant skip_fence          with a planted bug; exit 1 when it is found
 *   oncepay-simulate --mutant skip_fence --count  how many seeds find it
 *   oncepay-simulate --mutants                    every planted bug must be found; exit 0 if so
 *   oncepay-simulate --regressions FILE           the plans of a file, each must hold
 *   oncepay-simulate --seeds 2000 --reach         … and every rare state must be reached
 *
 * A failing seed is made smaller and told as a trace; the plan in its last line, given to --seed,
 * is the same run again. A plan is "seed:sites off:requests off:faults skipped" (choice.h); plans
 * that once failed belong into regressions.txt. Like every seed they mean another run when the code
 * asks its choices in another order.
 *
 * Where things are: choice.* decisions · world.* time, workers, jobs · database.h, db_*.c what
 * store/sql does · streams.* bus · cache_double.* Redis · bank.* the PSP · part_*.c the stages'
 * workers · decide.* the real deciders, and the mutants that would live in one · mutant.def all
 * mutants · producers.* who asks · check.c, audit.c the invariants · shrink.* smaller plans.
 */
#include <getopt.h>
#include <time.h>

#include "tests/simulation/check.h"
#include "tests/simulation/shrink.h"
#include "tests/simulation/world.h"

enum { SEEDS_DEFAULT = 2000, MUTANT_SEEDS_DEFAULT = 8000 };

struct options {
    uint64_t first;
    uint64_t seeds;
    bool has_seeds;
    const char *plan;
    bool wants_trace;
    bool wants_mutants;
    bool wants_reach;
    bool wants_shrink;
    bool wants_count;
    enum mutant mutant;
    const char *regressions;
};

static void usage(FILE *out)
{
    fputs("usage: oncepay-simulate [--seeds N] [--first N] [--reach] [--mutant WORD [--count]]\n"
          "       oncepay-simulate --seed PLAN [--trace] [--mutant WORD] [--shrink]\n"
          "       oncepay-simulate --mutants [--seeds N]\n"
          "       oncepay-simulate --regressions FILE\n"
          "mutants:\n",
          out);
    for (int i = 1; i < MUTANT_COUNT; i++)
        fprintf(out, "  %-24s %s\n", mutant_word((enum mutant)i), mutant_what((enum mutant)i));
}

static int64_t elapsed_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell_failure(struct world *world, struct plan plan, enum mutant mutant)
{
    char text[PLAN_TEXT_SIZE];
    printf("seed %" PRIu64 " failed: %s\n", plan.seed, world->failure);
    (void)fflush(stdout);
    shrink(world, &plan, mutant);
    printf("made smaller:\n");
    (void)world_run(world, &plan, mutant, stdout);
    printf("%s\nagain: oncepay-simulate --seed %s --trace%s%s\n", world->failure,
           plan_format(&plan, text), mutant == MUTANT_NONE ? "" : " --mutant ",
           mutant == MUTANT_NONE ? "" : mutant_word(mutant));
}

/* Which rare states no seed reached. */
static size_t tell_unreached(const struct world *world)
{
    size_t count = 0;
    for (unsigned i = 0; i < REACHED_COUNT; i++) {
        if (((world->reached[i / 64] >> (i % 64)) & 1) != 0) continue;
        printf("never reached: %s\n", reached_word(i));
        count++;
    }
    return count;
}

/* --- running ---------------------------------------------------------------------------------- */

static bool is_found(const struct world *world, enum mutant mutant)
{
    return mutant == MUTANT_NONE || mutant_harms(mutant, world->failure);
}

/* The first seed that fails, with a mutant by its harm; 0: none does. */
static uint64_t hunt(struct world *world, uint64_t first, uint64_t seeds, enum mutant mutant,
                     uint64_t *out_steps)
{
    for (uint64_t i = 0; i < seeds; i++) {
        const struct plan plan = { .seed = first + i };
        const bool is_good = world_run(world, &plan, mutant, NULL);
        *out_steps += world->steps;
        if (!is_good && is_found(world, mutant)) return plan.seed;
    }
    return 0;
}

static int count_seeds(struct world *world, const struct options *options)
{
    uint64_t found = 0;
    uint64_t steps = 0;
    const uint64_t end = options->first + options->seeds;
    for (uint64_t at = options->first; at < end; found++) {
        const uint64_t seed = hunt(world, at, end - at, options->mutant, &steps);
        if (seed == 0) break;
        at = seed + 1;
    }
    printf("%s: found by %" PRIu64 " of %" PRIu64 " seeds\n", mutant_word(options->mutant), found,
           options->seeds);
    return found == 0 ? 1 : 0;
}

static int run_seeds(struct world *world, const struct options *options)
{
    uint64_t steps = 0;
    const int64_t started_ms = elapsed_ms();
    const uint64_t failed = hunt(world, options->first, options->seeds, options->mutant, &steps);
    const int64_t took_ms = elapsed_ms() - started_ms + 1;
    if (failed != 0) {
        tell_failure(world, (struct plan){ .seed = failed }, options->mutant);
        return 1;
    }
    printf("%" PRIu64 " seeds, %" PRIu64 " events in %" PRId64 " ms: %" PRIu64
           " events a minute; nothing failed\n",
           options->seeds, steps, took_ms, steps * 60000 / (uint64_t)took_ms);
    return options->wants_reach && tell_unreached(world) > 0 ? 1 : 0;
}

static int run_plan(struct world *world, const struct options *options)
{
    struct plan plan;
    if (!plan_parse(options->plan, &plan)) {
        fprintf(stderr, "not a plan: %s\n", options->plan);
        return 2;
    }
    if (options->wants_shrink && !world_run(world, &plan, options->mutant, NULL)) {
        tell_failure(world, plan, options->mutant);
        return 1;
    }
    const bool is_good =
        world_run(world, &plan, options->mutant, options->wants_trace ? stdout : NULL);
    printf("%s (%" PRIu64 " events)\n", is_good ? "good" : world->failure, world->steps);
    return is_good ? 0 : 1;
}

static int run_mutants(struct world *world, const struct options *options)
{
    int survivors = 0;
    for (int i = 1; i < MUTANT_COUNT; i++) {
        const enum mutant mutant = (enum mutant)i;
        uint64_t steps = 0;
        const uint64_t seed = hunt(world, options->first, options->seeds, mutant, &steps);
        survivors += seed == 0;
        printf("%-24s %s", mutant_word(mutant), seed == 0 ? "SURVIVED" : "");
        if (seed != 0) printf("seed %-6" PRIu64 " %s", seed, world->failure);
        printf("\n");
    }
    printf("%d mutants, %d survived %" PRIu64 " seeds\n", MUTANT_COUNT - 1, survivors,
           options->seeds);
    return survivors == 0 ? 0 : 1;
}

/* Lines of plans; "#" begins a comment. */
static int run_regressions(struct world *world, const char *path)
{
    char line[PLAN_TEXT_SIZE];
    FILE *file = fopen(path, "r");
    int failures = 0;
    unsigned count = 0;
    if (file == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 2;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        struct plan plan;
        line[strcspn(line, " \n")] = '\0';
        if (line[0] == '#' || line[0] == '\0') continue;
        count++;
        if (!plan_parse(line, &plan)) {
            printf("not a plan: %s\n", line);
            failures++;
        } else if (!world_run(world, &plan, MUTANT_NONE, NULL)) {
            printf("%s: %s\n", line, world->failure);
            failures++;
        }
    }
    (void)fclose(file);
    printf("%u plans, %d failed\n", count, failures);
    return failures == 0 ? 0 : 1;
}

/* --- options ---------------------------------------------------------------------------------- */

enum flag {
    OPTION_SEEDS = 1,
    OPTION_FIRST,
    OPTION_SEED,
    OPTION_TRACE,
    OPTION_MUTANT,
    OPTION_MUTANTS,
    OPTION_REGRESSIONS,
    OPTION_REACH,
    OPTION_SHRINK,
    OPTION_COUNT,
    OPTION_HELP
};

static bool read_option(int option, struct options *options)
{
    switch (option) {
    case OPTION_SEEDS:
        options->seeds = strtoull(optarg, NULL, 10);
        options->has_seeds = true;
        return true;
    case OPTION_FIRST:
        options->first = strtoull(optarg, NULL, 10);
        return true;
    case OPTION_SEED:
        options->plan = optarg;
        return true;
    case OPTION_TRACE:
        options->wants_trace = true;
        return true;
    case OPTION_MUTANT:
        return mutant_parse(optarg, &options->mutant);
    case OPTION_MUTANTS:
        options->wants_mutants = true;
        return true;
    case OPTION_REGRESSIONS:
        options->regressions = optarg;
        return true;
    case OPTION_REACH:
        options->wants_reach = true;
        return true;
    case OPTION_SHRINK:
        options->wants_shrink = true;
        return true;
    case OPTION_COUNT:
        options->wants_count = true;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        { "seeds", required_argument, NULL, OPTION_SEEDS },
        { "first", required_argument, NULL, OPTION_FIRST },
        { "seed", required_argument, NULL, OPTION_SEED },
        { "trace", no_argument, NULL, OPTION_TRACE },
        { "mutant", required_argument, NULL, OPTION_MUTANT },
        { "mutants", no_argument, NULL, OPTION_MUTANTS },
        { "regressions", required_argument, NULL, OPTION_REGRESSIONS },
        { "reach", no_argument, NULL, OPTION_REACH },
        { "shrink", no_argument, NULL, OPTION_SHRINK },
        { "count", no_argument, NULL, OPTION_COUNT },
        { "help", no_argument, NULL, OPTION_HELP },
        { NULL, 0, NULL, 0 },
    };
    struct options options = { .first = 1, .seeds = SEEDS_DEFAULT };
    for (int option = 0; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        if (read_option(option, &options)) continue;
        usage(option == OPTION_HELP ? stdout : stderr);
        return option == OPTION_HELP ? 0 : 2;
    }
    if (options.wants_mutants && !options.has_seeds) options.seeds = MUTANT_SEEDS_DEFAULT;
    struct world *world = world_create();
    int exit_code = 0;
    if (options.regressions != NULL) {
        exit_code = run_regressions(world, options.regressions);
    } else if (options.wants_mutants) {
        exit_code = run_mutants(world, &options);
    } else if (options.wants_count) {
        exit_code = count_seeds(world, &options);
    } else if (options.plan != NULL) {
        exit_code = run_plan(world, &options);
    } else {
        exit_code = run_seeds(world, &options);
    }
    world_destroy(world);
    return exit_code;
}
