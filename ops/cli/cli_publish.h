/*
 * ops/cli/cli_publish.h: one message into a stream, with its outcome known or the reason said. A
 * publish without an outcome is repeated under its message id, so it is stored once.
 */
#ifndef ONCEPAY_OPS_CLI_CLI_PUBLISH_H
#define ONCEPAY_OPS_CLI_CLI_PUBLISH_H

#include "ops/cli/cli.h"

/* STATUS_OK: stored. Otherwise said on stderr, and *out_exit_code is set. */
enum status cli_publish(struct cli *cli, struct bus *bus, const struct bus_outgoing *message,
                        int *out_exit_code) MUST_CHECK;

#endif
