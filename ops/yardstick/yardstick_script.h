/*
 * ops/yardstick/yardstick_script.h: a file of SQL as transactions of statements. A line
 * "-- transaction NAME" begins a transaction, a semicolon at the end of a line ends a statement,
 * and :name stands for a column of yardstick_payment.h, which becomes $1, $2 and so on with its
 * type.
 */
#ifndef ONCEPAY_OPS_YARDSTICK_SCRIPT_H
#define ONCEPAY_OPS_YARDSTICK_SCRIPT_H

#include "ops/yardstick/yardstick_payment.h"

enum { SCRIPT_TRANSACTIONS_MAX = 8, SCRIPT_STATEMENTS_MAX = 48, SCRIPT_NAME_SIZE = 16 };

struct script_statement {
    char name[SCRIPT_NAME_SIZE]; /* of the prepared statement */
    char *text;
    const struct yardstick_column *columns[SQL_PARAM_MAX];
    size_t column_count;
};

struct script_transaction {
    size_t first; /* statement */
    size_t count;
};

struct script {
    struct script_transaction transactions[SCRIPT_TRANSACTIONS_MAX];
    size_t transaction_count;
    struct script_statement statements[SCRIPT_STATEMENTS_MAX];
    size_t statement_count;
    bool is_array; /* parameters are arrays, one element a payment */
};

/* False: out_error is a sentence for people. */
bool script_load(const char *path, bool is_array, struct script *out, char out_error[256]);
void script_finish(struct script *script);

#endif
