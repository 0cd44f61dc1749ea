/*
 * tests/support/pg_fixture.h: a private, throwaway PostgreSQL for one test program. It listens on
 * a unix socket in a folder of its own, so any number of them run side by side; it dies with the
 * test, however that ends. Each test gets a fresh, migrated database.
 *
 *     fixture = pg_fixture_start();                    group setup
 *     const char *url = pg_fixture_database(fixture);  per test
 *     struct store *store = pg_fixture_store(url);
 *     pg_fixture_run(url, "INSERT …");
 *     pg_fixture_stop(fixture);                        group teardown
 */
#ifndef ONCEPAY_TESTS_SUPPORT_PG_FIXTURE_H
#define ONCEPAY_TESTS_SUPPORT_PG_FIXTURE_H

#include "store/store.h"

struct pg_fixture;

enum { PG_FIXTURE_SQLSTATE_SIZE = 6 };

/* Aborts with a sentence on stderr when no server can be had: without one there is no test. */
struct pg_fixture *pg_fixture_start(void);
void pg_fixture_stop(struct pg_fixture *fixture);
/* A crash of the server (no checkpoint, open transactions lost), and up again. */
void pg_fixture_crash(struct pg_fixture *fixture);

/* The URL of a new database with today's schema. Lives as long as the fixture. */
const char *pg_fixture_database(struct pg_fixture *fixture);

/* A store on it, connected at its first use. The caller destroys it. */
struct store *pg_fixture_store(const char *url);

/* For arranging and checking: each call is one connection and one transaction. Failing aborts. */
void pg_fixture_run(const char *url, const char *sql);
/* A failure is an answer here: the SQLSTATE, "00000" when all went well. Returns sqlstate. */
const char *pg_fixture_try(const char *url, const char *sql,
                           char sqlstate[PG_FIXTURE_SQLSTATE_SIZE]);
/* First column of the only row. */
int64_t pg_fixture_number(const char *url, const char *sql);
char *pg_fixture_text(const char *url, const char *sql); /* the caller frees; SQL NULL is "" */
/*
 * Rows that this database's connections have read per row that is stored in table and its
 * partitions, by scans and by all of its indexes: growing work shows here whatever the machine
 * does. Connections report at their end, so destroy the store before.
 */
int64_t pg_fixture_reads_per_row(const char *url, const char *table);
/* Cuts every other connection to this database, as a restart would. */
void pg_fixture_cut(const char *url);

#endif
