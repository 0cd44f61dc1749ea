/* tests/store/relay_born_test.c: when a command was written, asked by its id and subject. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "store/relay_command_store.h"
#include "tests/support/pg_fixture.h"

/* The id has the worker's time, the row the database's: minutes apart at most. */
static const struct {
    int apart_s;
    enum status status;
} CASES[] = { { 0, STATUS_OK },   { 30, STATUS_OK },   { -30, STATUS_OK },
              { 500, STATUS_OK }, { -500, STATUS_OK }, { 700, STATUS_NOT_FOUND } };

static struct outbox_id write_command(const char *url, const char *subject, int apart_s)
{
    struct arena arena = { NULL };
    struct outbox_id out;
    pg_fixture_run(url, arena_format(&arena,
                                     "INSERT INTO oncepay.outbox (id, kind, subject, entity,"
                                     " entity_id, version, created_at) VALUES"
                                     " (oncepay.uuid_floor(now()), 1, '%s', 2,"
                                     " gen_random_uuid(), 3, now() + interval '%d s')",
                                     subject, apart_s));
    char *text = pg_fixture_text(
        url, arena_format(&arena, "SELECT id FROM oncepay.outbox WHERE subject = '%s'", subject));
    assert_true(uuid_parse(text, &out.uuid));
    free(text);
    arena_finish(&arena);
    return out;
}

static void the_birth_of_a_command_is_found_by_its_ids_time(void **state)
{
    (void)state;
    struct pg_fixture *fixture = pg_fixture_start();
    const char *url = pg_fixture_database(fixture);
    struct store *store = pg_fixture_store(url);
    struct arena arena = { NULL };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        const char *subject = arena_format(&arena, "pay.settle.%zu", i);
        const struct outbox_id command = write_command(url, subject, CASES[i].apart_s);
        int64_t born_us = 0;
        assert_int_equal(relay_command_store_born(store, command, subject, &born_us),
                         CASES[i].status);
        assert_int_equal(relay_command_store_born(store, command, "pay.settle.15", &born_us),
                         STATUS_NOT_FOUND);
        if (CASES[i].status != STATUS_OK) continue;
        const char *sql = arena_format(&arena,
                                       "SELECT (extract(epoch FROM created_at) * 1000000)::int8"
                                       " FROM oncepay.outbox WHERE subject = '%s'",
                                       subject);
        assert_int_equal(born_us, pg_fixture_number(url, sql));
    }
    store_destroy(store);
    arena_finish(&arena);
    pg_fixture_stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_birth_of_a_command_is_found_by_its_ids_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
