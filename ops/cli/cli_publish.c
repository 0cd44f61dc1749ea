/* ops/cli/cli_publish.c: see cli_publish.h. */
#include "ops/cli/cli_publish.h"

#include <poll.h>

enum { TRIES_MAX = 5, FIRST_WAIT_MS = 200 };

static struct bus_result publish_once(struct bus *bus, const struct bus_outgoing *message)
{
    struct bus_result result = { .outcome = BUS_OUTCOME_UNKNOWN };
    int cookie = 0;
    bus_publish(bus, message, &cookie);
    (void)!bus_publish_flush(bus, BUS_PUBLISH_WAIT_MS + 1000);
    while (bus_publish_results(bus, 1, &result) == 1) {
        if (result.cookie == &cookie) return result;
    }
    return (struct bus_result){ .outcome = BUS_OUTCOME_UNKNOWN };
}

enum status cli_publish(struct cli *cli, struct bus *bus, const struct bus_outgoing *message,
                        int *out_exit_code)
{
    struct bus_result result = { .outcome = BUS_NOT_SENT };
    for (int i = 0; i < TRIES_MAX; i++) {
        if (i > 0) (void)poll(NULL, 0, FIRST_WAIT_MS << (i - 1));
        result = publish_once(bus, message);
        switch (result.outcome) {
        case BUS_STORED:
            return STATUS_OK;
        case BUS_REFUSED_TOO_BIG:
        case BUS_REFUSED:
            *out_exit_code = cli_fail(cli, CLI_REFUSED, "NATS refuses the message on %s: %s (%d)",
                                      message->subject, bus_outcome_name((int)result.outcome),
                                      result.error_code);
            return STATUS_BAD_DATA;
        case BUS_NOT_SENT:
        case BUS_OUTCOME_UNKNOWN:
        case BUS_REFUSED_FULL:
        case BUS_REFUSED_NO_STREAM:
            break;
        }
    }
    *out_exit_code = cli_fail(cli, CLI_INFRASTRUCTURE, "NATS does not take the message on %s: %s",
                              message->subject, bus_outcome_name((int)result.outcome));
    return STATUS_RETRY;
}
