/*
 * ops/yardstick/yardstick_main.c: oncepay-yardstick, what the pipeline's speed is compared with:
 * the rows of happy card payments, written straight into PostgreSQL. Options, threads, and a line
 * on how far it is every 20 ms.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "ops/yardstick/yardstick_client.h"
#include "pipeline/clock.h"

enum { EXIT_USAGE = 2, EXIT_INFRASTRUCTURE = 3, CLIENTS_MAX = 64, BATCH_MAX = 1024 };
enum { LOOK_US = 20000 };

static const char USAGE[] =
    "usage: oncepay-yardstick ceiling|naive --sql FILE [OPTION]...\n"
    "Writes the rows of happy card payments into a migrated database, until SIGTERM.\n"
    "\n"
    "  ceiling            64 at a time, statements of a transaction sent together\n"
    "  naive              one at a time, statement by statement\n"
    "  --sql FILE         the statements: ceiling.sql or naive.sql\n"
    "  --pg URL           the database (ONCEPAY_PG_URL)\n"
    "  --clients N        connections (4; naive 16)\n"
    "  --batch N          payments a transaction (64; naive 1)\n"
    "  --payments N       stop after so many\n"
    "  --prefix TEXT      out_trade_no is TEXT-0000000 and so on (yard)\n"
    "  --account NAME     channel account of the attempts (stripe-main)\n"
    "  --series FILE      a line every 20 ms: monotonic clock in us, payments written\n";

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal)
{
    (void)signal;
    stop_requested = 1;
}

struct options {
    bool is_naive;
    const char *sql;
    const char *series;
    size_t clients;
    struct yardstick_run run;
};

static bool parse_size(const char *text, size_t max, size_t *out)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value == 0 || value > max) {
        return false;
    }
    *out = (size_t)value;
    return true;
}

static bool take_option(int key, const char *text, struct options *out)
{
    switch (key) {
    case 's':
        out->sql = text;
        return true;
    case 'u':
        out->run.url = text;
        return true;
    case 'c':
        return parse_size(text, CLIENTS_MAX, &out->clients);
    case 'b':
        return parse_size(text, BATCH_MAX, &out->run.batch) &&
               (!out->is_naive || out->run.batch == 1);
    case 'n':
        return parse_size(text, 9999999, &out->run.payments);
    case 'p':
        out->run.names.prefix = text;
        return true;
    case 'a':
        out->run.names.account = text;
        return true;
    case 'o':
        out->series = text;
        return true;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct options *out)
{
    static const struct option LONG[] = {
        { "sql", required_argument, NULL, 's' },
        { "pg", required_argument, NULL, 'u' },
        { "clients", required_argument, NULL, 'c' },
        { "batch", required_argument, NULL, 'b' },
        { "payments", required_argument, NULL, 'n' },
        { "prefix", required_argument, NULL, 'p' },
        { "account", required_argument, NULL, 'a' },
        { "series", required_argument, NULL, 'o' },
        { NULL, 0, NULL, 0 },
    };
    if (argc < 2) return false;
    out->is_naive = strcmp(argv[1], "naive") == 0;
    if (!out->is_naive && strcmp(argv[1], "ceiling") != 0) return false;
    out->clients = out->is_naive ? 16 : 4;
    out->run.batch = out->is_naive ? 1 : 64;
    out->run.url = getenv("ONCEPAY_PG_URL");
    out->run.names = (struct yardstick_names){ .prefix = "yard", .account = "stripe-main" };
    for (int key; (key = getopt_long(argc - 1, argv + 1, "", LONG, NULL)) != -1;) {
        if (!take_option(key, optarg, out)) return false;
    }
    return optind == argc - 1 && out->sql != NULL && out->run.url != NULL;
}

static void listen_to_signals(void)
{
    struct sigaction action = { .sa_handler = request_stop };
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static bool is_over(struct yardstick_run *run)
{
    return atomic_load(&run->is_stopped) ||
           (run->payments > 0 && atomic_load(&run->written) >= run->payments);
}

/* Until the work is done, or somebody says stop. */
static void watch(struct yardstick_run *run, FILE *series)
{
    while (!is_over(run) && stop_requested == 0) {
        const struct timespec pause = { .tv_nsec = LOOK_US * 1000L };
        (void)nanosleep(&pause, NULL);
        if (series == NULL) continue;
        fprintf(series, "%" PRId64 " %zu\n", clock_monotonic_us(), atomic_load(&run->written));
        (void)fflush(series);
    }
    atomic_store(&run->is_stopped, true);
}

static int run_all(struct options *options)
{
    FILE *series = options->series == NULL ? NULL : fopen(options->series, "we");
    if (options->series != NULL && series == NULL) {
        fprintf(stderr, "oncepay-yardstick: %s: %s\n", options->series, strerror(errno));
        return EXIT_USAGE;
    }
    pthread_t threads[CLIENTS_MAX];
    const int64_t started_us = clock_monotonic_us();
    for (size_t i = 0; i < options->clients; i++) {
        INVARIANT(pthread_create(&threads[i], NULL, yardstick_client_main, &options->run) == 0);
    }
    watch(&options->run, series);
    for (size_t i = 0; i < options->clients; i++) (void)pthread_join(threads[i], NULL);
    if (series != NULL) (void)fclose(series);
    const size_t written = atomic_load(&options->run.written);
    printf("{\"payments\": %zu, \"seconds\": %.3f}\n", written,
           /* not money */ (double)(clock_monotonic_us() - started_us) / 1e6);
    return atomic_load(&options->run.is_failed) ? EXIT_INFRASTRUCTURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct options options;
    static struct script script;
    char error[256] = "";
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    if (!parse(argc, argv, &options)) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    if (!script_load(options.sql, !options.is_naive, &script, error)) {
        fprintf(stderr, "oncepay-yardstick: %s: %s\n", options.sql, error);
        return EXIT_USAGE;
    }
    options.run.script = &script;
    listen_to_signals();
    const int code = run_all(&options);
    script_finish(&script);
    return code;
}
