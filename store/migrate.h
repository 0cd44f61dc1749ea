/*
 * store/migrate.h: brings a database to this build's schema: numbered SQL files, forward only, each
 * in its own transaction, all under one advisory lock; then the transition table from
 * pipeline/transition.def and partitions for the days ahead. Safe to run again and side by side.
 */
#ifndef ONCEPAY_STORE_MIGRATE_H
#define ONCEPAY_STORE_MIGRATE_H

#include "pipeline/base.h"

struct migrate_report {
    int applied; /* files applied now */
    int known;   /* files that stood already */
    int partitions_made;
    bool no_standby; /* synchronous_standby_names is empty: production needs one (protocol H10) */
    char error[400]; /* on failure: which file and PostgreSQL's message */
};

/* STATUS_STOP: an applied file differs from this build's, or SQL was refused. STATUS_RETRY: not
 * reachable. */
enum status store_migrate(const char *url, struct migrate_report *out_report) MUST_CHECK;

#endif
