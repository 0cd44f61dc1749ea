/*
 * ops/cli/cli_picture.h: a payment's picture as show, timeline and explain get it, and its parts as
 * documents. Names of members are a contract: they are added, never changed.
 */
#ifndef ONCEPAY_OPS_CLI_CLI_PICTURE_H
#define ONCEPAY_OPS_CLI_CLI_PICTURE_H

#include "ops/cli/cli.h"
#include "store/query_store.h"

/* text: id or out_trade_no. False: said on stderr; leave with *out_exit_code. */
bool cli_picture_find(struct cli *cli, const char *text, const char *merchant,
                      struct query_picture *out_picture, int *out_exit_code) MUST_CHECK;
bool cli_picture_read(struct cli *cli, struct payment_id payment, struct query_picture *out_picture,
                      int *out_exit_code) MUST_CHECK;

/* The whole of it. */
struct value cli_picture_value(const struct query_picture *picture, struct arena *arena);

struct value cli_attempt_value(const struct query_picture *picture,
                               const struct query_attempt *attempt, struct arena *arena);
struct value cli_request_value(const struct query_request *request, struct arena *arena);
struct value cli_evidence_value(const struct query_evidence *evidence, struct arena *arena);
struct value cli_task_value(const struct query_task *task, struct arena *arena);
struct value cli_case_value(const struct query_case *row, struct arena *arena);
struct value cli_stray_value(const struct query_stray *stray, struct arena *arena);
struct value cli_decision_value(const struct query_decision *decision, struct arena *arena);
/* "stripe-main (currency), stripe-backup (method)": who was passed over and why; "": nobody. */
const char *cli_decision_candidates(const struct query_decision *decision, struct arena *arena);
struct value cli_webhook_value(const struct query_webhook *webhook, struct arena *arena);

/* "open", "no effect", "known". */
const char *cli_closure_name(enum request_closure closure);
const char *cli_purpose_name(enum task_purpose purpose); /* "resolve", "resend", "confirm" */

#endif
