/*
 * ops/sim/sim_main.c: oncepay-psp-sim, a payment service provider to test against: reads options,
 * starts, says that it is ready, stops on SIGTERM or SIGINT.
 */
#include "ops/sim/sim.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const char USAGE[] =
    "usage: oncepay-psp-sim --port PORT --data DIR [options]\n"
    "A PSP simulator: speaks Stripe's protocol under /<account>/v1/..., keeps a ledger, sends\n"
    "signed webhooks and injects faults. Listens on 127.0.0.1.\n"
    "\n"
    "  --port PORT         0 takes a free one\n"
    "  --data DIR          where ledger.ndjson lies; made if missing\n"
    "  --webhook-url URL   events are posted to URL/<account>; default: none are sent\n"
    "  --faults WHAT       none (default), lost, or a file with rules\n"
    "  --profile NAME      keep_successes_only or declined_stays_payable, for all accounts\n"
    "  --seed NUMBER       of the fault draws; default 1\n"
    "  --latency-ms MS     added to every answer of the PSP; default 0\n"
    "  --help              this text\n"
    "Rules and the /_sim/ endpoints: ops/sim/README.md\n";

enum { EXIT_USAGE = 2, EXIT_INFRASTRUCTURE = 3 };

static bool read_number(const char *name, const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || number > max) {
        fprintf(stderr, "oncepay-psp-sim: --%s must be a number up to %" PRIu64 "\n", name, max);
        return false;
    }
    *out = number;
    return true;
}

static bool read_option(int option, const char *value, struct sim_options *options)
{
    uint64_t number = 0;
    switch (option) {
    case 'p':
        if (!read_number("port", value, 65535, &number)) return false;
        options->port = (uint16_t)number;
        return true;
    case 'd':
        options->data_directory = value;
        return true;
    case 'w':
        options->webhook_url = value;
        return true;
    case 'f':
        options->faults = value;
        return true;
    case 'r':
        options->profile = value;
        return true;
    case 's':
        return read_number("seed", value, UINT64_MAX, &options->seed);
    case 'l':
        if (!read_number("latency-ms", value, 600000, &number)) return false;
        options->latency_ms = (int64_t)number;
        return true;
    default:
        fputs(USAGE, stderr);
        return false;
    }
}

static bool read_options(int argc, char **argv, struct sim_options *options, bool *out_is_help)
{
    static const struct option LONG[] = {
        { "port", required_argument, NULL, 'p' },
        { "data", required_argument, NULL, 'd' },
        { "webhook-url", required_argument, NULL, 'w' },
        { "faults", required_argument, NULL, 'f' },
        { "profile", required_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },
        { "latency-ms", required_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    bool has_port = false;
    for (int option = getopt_long(argc, argv, "", LONG, NULL); option != -1;
         option = getopt_long(argc, argv, "", LONG, NULL)) {
        *out_is_help = *out_is_help || option == 'h';
        if (*out_is_help) return true;
        has_port = has_port || option == 'p';
        if (!read_option(option, optarg, options)) return false;
    }
    if (optind == argc && has_port && options->data_directory != NULL) return true;
    fputs(USAGE, stderr);
    return false;
}

/* Readable when somebody wants the simulator to stop. */
static int open_stop_fd(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    INVARIANT(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    INVARIANT(fd >= 0);
    return fd;
}

/* Hundreds of calls wait here at a time, and each holds its connection. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* refused: the usual limit has to do */
}

int main(int argc, char **argv)
{
    struct sim_options options = { .seed = 1, .faults = "none", .webhook_url = "" };
    bool is_help = false;
    if (!read_options(argc, argv, &options, &is_help)) return EXIT_USAGE;
    if (is_help) {
        fputs(USAGE, stdout);
        return EXIT_SUCCESS;
    }
    raise_file_limit();
    const int stop_fd = open_stop_fd();
    INVARIANT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    static struct sim sim;
    char error[LOGFILE_ERROR_SIZE];
    const bool is_started = sim_start(&sim, &options, error);
    if (is_started) {
        printf("oncepay-psp-sim ready url=http://127.0.0.1:%u data=%s charges=%zu seed=%" PRIu64
               " faults=%s webhooks=%s\n",
               (unsigned)server_port(sim.server), options.data_directory, sim.ledger.charge_count,
               options.seed, options.faults,
               options.webhook_url[0] == '\0' ? "off" : options.webhook_url);
        (void)fflush(stdout);
        sim_run(&sim, stop_fd);
    } else {
        fprintf(stderr, "oncepay-psp-sim: %s\n", error);
    }
    sim_finish(&sim);
    curl_global_cleanup();
    (void)close(stop_fd);
    return is_started ? EXIT_SUCCESS : EXIT_INFRASTRUCTURE;
}
