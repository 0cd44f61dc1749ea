/*
 * ops/feed/feed_main.c: oncepay-feed, a load of payment requests from a producer that behaves:
 * wiring and the loop. One thread; everything that happens wakes it.
 */
#include <signal.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "ops/feed/feed_report.h"
#include "pipeline/clock.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_INFRASTRUCTURE = 3 };
/* Sends between two looks at what came back; how often overdue answers are looked for. */
enum { SENDS_PER_ROUND = 64, REPEAT_LOOK_US = 50000, PATIENCE_US = 200000 };

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal)
{
    (void)signal;
    stop_requested = 1;
}

static void listen_to_signals(void)
{
    struct sigaction action = { .sa_handler = request_stop };
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* Sleeps until the bus has something or wait_us passed; finer than milliseconds, for --rate. */
static void sleep_on_bus(struct bus *bus, int64_t wait_us)
{
    if (wait_us < 0) wait_us = 0;
    if (wait_us > PATIENCE_US) wait_us = PATIENCE_US;
    const int fd = bus_fd(bus);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    const struct timespec limit = { .tv_sec = 0, .tv_nsec = (long)(wait_us * 1000) };
    (void)pselect(fd + 1, &readable, NULL, NULL, &limit, NULL);
    bus_wakeup_clear(bus);
}

static void repeat_overdue(struct feed_wire *wire, struct feed_book *book, int64_t now_us)
{
    size_t overdue[SENDS_PER_ROUND];
    const size_t count = feed_book_overdue(book, now_us, SENDS_PER_ROUND, overdue);
    for (size_t i = 0; i < count; i++) feed_wire_send(wire, book, overdue[i], now_us);
}

/*
 * Unpaced, answers come faster than a wake-up is worth; with --rate the way to the end is measured,
 * and nothing waits.
 */
static void nap(const struct feed_book *book)
{
    enum { BUSY_ANSWERS = 256, NAP_US = 1000 };
    const struct timespec time = { .tv_nsec = NAP_US * 1000 };
    if (book->options->rate_per_s == 0 && book->options->in_flight > BUSY_ANSWERS)
        (void)nanosleep(&time, NULL);
}

static void feed(struct feed_wire *wire, struct feed_book *book, struct feed_series *series)
{
    struct feed_progress progress = { .terminal = isatty(STDERR_FILENO) == 1 };
    int64_t look_us = 0;
    while (stop_requested == 0) {
        int64_t now_us = clock_monotonic_us();
        feed_wire_receive(wire, book, now_us);
        feed_book_close(book, now_us);
        feed_progress_show(&progress, book, now_us);
        feed_series_note(series, book, now_us);
        if (feed_book_is_done(book) || now_us - book->moved_us > book->options->timeout_us) break;
        size_t index = 0;
        int64_t wait_us = 0;
        int sends = 0;
        while (sends < SENDS_PER_ROUND && feed_book_next(book, now_us, &index, &wait_us)) {
            feed_wire_send(wire, book, index, now_us);
            now_us = clock_monotonic_us();
            sends++;
        }
        if (now_us >= look_us) {
            look_us = now_us + REPEAT_LOOK_US;
            repeat_overdue(wire, book, now_us);
        }
        if (sends == SENDS_PER_ROUND) wait_us = 0;
        if (wait_us > look_us - now_us) wait_us = look_us - now_us;
        sleep_on_bus(wire->bus, wait_us);
        nap(book);
    }
    feed_progress_finish(&progress, book, clock_monotonic_us());
}

static int report(const struct feed_book *book, const struct feed_wire *wire)
{
    if (feed_report_summary(book, wire, clock_monotonic_us()) != STATUS_OK) return EXIT_USAGE;
    if (book->options->accepted_path != NULL && feed_report_accepted(book) != STATUS_OK) {
        return EXIT_USAGE;
    }
    return feed_book_is_done(book) && book->refused == 0 ? EXIT_SUCCESS : EXIT_REFUSED;
}

int main(int argc, char **argv)
{
    struct feed_options options;
    switch (feed_options_parse(argc, argv, &options)) {
    case FEED_PARSE_HELP:
        feed_options_print_help(stdout);
        return EXIT_SUCCESS;
    case FEED_PARSE_WRONG:
        return EXIT_USAGE;
    case FEED_PARSE_RUN:
        break;
    }
    struct feed_series series;
    if (feed_series_open(&series, options.series_path) != STATUS_OK) return EXIT_USAGE;
    listen_to_signals();
    struct feed_wire wire;
    const char *error = "stopped";
    int code = EXIT_INFRASTRUCTURE;
    if (feed_wire_open(&wire, &options, &stop_requested, &error) == STATUS_OK) {
        struct feed_book book;
        feed_book_init(&book, &options, clock_monotonic_us());
        feed(&wire, &book, &series);
        code = report(&book, &wire);
        feed_book_finish(&book);
    } else {
        fprintf(stderr, "oncepay-feed: %s\n", error == NULL ? "stopped" : error);
    }
    feed_wire_close(&wire);
    feed_series_close(&series);
    return code;
}
