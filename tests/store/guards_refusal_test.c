/*
 * tests/store/guards_refusal_test.c: runs tests/store/guards.sql: what the database refuses by
 * itself, whatever a program does. All cases are tried; each that ends otherwise is named.
 */
#include "pipeline/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/support/pg_fixture.h"

#define SCRIPT SOURCE_DIR "/tests/store/guards.sql"
#define CASE_MARK "\n-- case "

static char *read_script(void)
{
    FILE *file = fopen(SCRIPT, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long length = ftell(file);
    assert_true(length > 0);
    rewind(file);
    char *text = memory_allocate((size_t)length + 1);
    assert_int_equal(fread(text, 1, (size_t)length, file), (size_t)length);
    (void)fclose(file);
    return text;
}

struct guard_case {
    char sqlstate[PG_FIXTURE_SQLSTATE_SIZE];
    const char *claim;
    char *sql; /* rolled back if it succeeds */
};

/* Cuts the case at `at` out of the text: "SQLSTATE claim", then SQL. Returns the next or NULL. */
static char *cut_case(char *at, struct guard_case *out)
{
    char *line = at + strlen(CASE_MARK);
    char *sql = strchr(line, '\n');
    assert_non_null(sql);
    char *next = strstr(sql, CASE_MARK);
    *sql++ = '\0';
    if (next != NULL) *next = '\0';
    (void)snprintf(out->sqlstate, sizeof out->sqlstate, "%s", line);
    out->claim = line + PG_FIXTURE_SQLSTATE_SIZE;
    const size_t size = strlen(sql) + sizeof "BEGIN;\n\nROLLBACK";
    out->sql = memory_allocate(size);
    (void)snprintf(out->sql, size, "BEGIN;\n%s\nROLLBACK", sql);
    return next;
}

static void the_database_refuses_what_it_should(void **state)
{
    (void)state;
    struct pg_fixture *fixture = pg_fixture_start();
    const char *url = pg_fixture_database(fixture);
    char *script = read_script();
    char *first = strstr(script, CASE_MARK);
    assert_non_null(first);
    *first = '\0';
    pg_fixture_run(url, script);
    size_t count = 0;
    size_t failures = 0;
    struct guard_case guard;
    for (char *at = first; at != NULL;) {
        char sqlstate[PG_FIXTURE_SQLSTATE_SIZE];
        at = cut_case(at, &guard);
        if (strcmp(pg_fixture_try(url, guard.sql, sqlstate), guard.sqlstate) != 0) {
            print_error("%s: expected %s, got %s\n", guard.claim, guard.sqlstate, sqlstate);
            failures++;
        }
        free(guard.sql);
        count++;
    }
    print_message("%zu cases\n", count);
    free(script);
    pg_fixture_stop(fixture);
    assert_true(count > 100);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_database_refuses_what_it_should) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
