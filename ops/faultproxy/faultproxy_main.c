/*
 * ops/faultproxy/faultproxy_main.c: oncepay-faultproxy, a TCP proxy that breaks connections on
 * command. One process, one thread, one poll loop. It ends with its standard input, so that nobody
 * has to remember it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ops/faultproxy/control.h"
#include "pipeline/clock.h"

enum { LINE_SIZE = 1024, EXIT_USAGE = 2, POLL_MS_MAX = 1000 };

static const char USAGE[] =
    "usage: oncepay-faultproxy [--seed NUMBER]\n"
    "Passes TCP connections on between ports of 127.0.0.1 and breaks them on command. Commands "
    "are\n"
    "read from standard input; its end is ours. See ops/faultproxy/control.h.\n";

/* Executes the whole lines of what has come so far; keeps the rest. */
struct input {
    char data[LINE_SIZE];
    size_t length;
};

/* False at the end of the input, or when a line is longer than any command. */
static bool take_input(struct control *control, struct input *input)
{
    const ssize_t length =
        read(STDIN_FILENO, input->data + input->length, sizeof input->data - input->length);
    if (length < 0) return errno == EAGAIN || errno == EINTR;
    if (length == 0) return false;
    input->length += (size_t)length;
    for (;;) {
        char *end = memchr(input->data, '\n', input->length);
        if (end == NULL) return input->length < sizeof input->data;
        *end = '\0';
        const size_t used = (size_t)(end - input->data) + 1;
        control_execute(control, input->data, stdout);
        (void)fflush(stdout);
        memmove(input->data, input->data + used, input->length - used);
        input->length -= used;
    }
}

static int wait_ms(int64_t due_us, int64_t now_us)
{
    if (due_us - now_us >= (int64_t)POLL_MS_MAX * 1000) return POLL_MS_MAX;
    return due_us <= now_us ? 0 : (int)((due_us - now_us + 999) / 1000);
}

/* One round. False: the input is over. */
static bool serve(struct control *control, struct input *input, struct pollfd **fds, size_t *room)
{
    size_t wanted = 1;
    for (struct pair *pair = control->pairs; pair != NULL; pair = pair->next)
        wanted += pair_poll_max(pair);
    if (wanted > *room) {
        *room = 2 * wanted;
        *fds = memory_resize(*fds, *room * sizeof **fds);
    }
    const int64_t now_us = clock_monotonic_us();
    int64_t due_us = INT64_MAX;
    (*fds)[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    size_t count = 1;
    for (struct pair *pair = control->pairs; pair != NULL; pair = pair->next)
        count += pair_poll(pair, *fds + count, now_us, &due_us);
    if (poll(*fds, count, wait_ms(due_us, now_us)) < 0) return errno == EINTR;
    const int64_t then_us = clock_monotonic_us();
    size_t at = 1;
    for (struct pair *pair = control->pairs; pair != NULL; pair = pair->next) {
        const size_t pair_count = pair_poll_max(pair); /* before service drops and accepts */
        pair_service(pair, *fds + at, then_us);
        at += pair_count;
    }
    return (*fds)[0].revents == 0 || take_input(control, input);
}

static bool read_options(int argc, char **argv, uint64_t *out_seed)
{
    if (argc == 1) return true;
    char *end = NULL;
    if (argc != 3 || strcmp(argv[1], "--seed") != 0) return false;
    *out_seed = strtoull(argv[2], &end, 10);
    return end != argv[2] && *end == '\0';
}

int main(int argc, char **argv)
{
    struct control control = { .seed = 1 };
    if (!read_options(argc, argv, &control.seed)) {
        fputs(USAGE, stderr);
        return EXIT_USAGE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* refused: the usual limit has to do */
    }
    struct input input = { .length = 0 };
    struct pollfd *fds = NULL;
    size_t room = 0;
    while (serve(&control, &input, &fds, &room)) continue;
    while (control.pairs != NULL) {
        struct pair *pair = control.pairs;
        control.pairs = pair->next;
        pair_destroy(pair);
    }
    free(fds);
    return EXIT_SUCCESS;
}
