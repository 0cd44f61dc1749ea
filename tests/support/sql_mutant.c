/*
 * tests/support/sql_mutant.c: a planted bug between a store and its server, for
 * tests/store/mutants.py: the linker sends the store's PQsendPrepare here, and one statement goes
 * out with one part of its text replaced. Without the environment's words nothing is altered.
 *
 *     ONCEPAY_MUTANT_STATEMENT  the statement's name: attempt_result
 *     ONCEPAY_MUTANT_OLD, _NEW  the text that is replaced, once, and what stands there then
 */
#include "pipeline/base.h"

#include <libpq-fe.h>

int __real_PQsendPrepare(PGconn *connection, const char *name, const char *text, int count,
                         const Oid *types);
int __wrap_PQsendPrepare(PGconn *connection, const char *name, const char *text, int count,
                         const Oid *types);

static char *plant(const char *text)
{
    const char *old = getenv("ONCEPAY_MUTANT_OLD");
    const char *new = getenv("ONCEPAY_MUTANT_NEW");
    const char *at = old == NULL || new == NULL ? NULL : strstr(text, old);
    if (at == NULL) {
        (void)fprintf(stderr, "mutant: there is no such text in the statement\n");
        abort();
    }
    const size_t size = strlen(text) + strlen(new) + 1;
    char *out = memory_allocate(size);
    (void)snprintf(out, size, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    (void)fprintf(stderr, "mutant: planted\n");
    return out;
}

int __wrap_PQsendPrepare(PGconn *connection, const char *name, const char *text, int count,
                         const Oid *types)
{
    const char *statement = getenv("ONCEPAY_MUTANT_STATEMENT");
    if (statement == NULL || strcmp(statement, name) != 0)
        return __real_PQsendPrepare(connection, name, text, count, types);
    char *altered = plant(text);
    const int is_sent = __real_PQsendPrepare(connection, name, altered, count, types);
    free(altered);
    return is_sent;
}
