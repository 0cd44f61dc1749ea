/* tests/unit/relay_stream_test.c: when does an event stream count as having lost events? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stages/relay/relay_stream.h"

#define BORN "2026-11-30T10:00:00.000000Z"
#define REBORN "2026-11-30T11:00:00.000000Z"

static void a_stream_only_grows(void **state)
{
    (void)state;
    static const struct {
        const char *known;
        uint64_t known_last;
        const char *created;
        uint64_t last;
        uint64_t rolled_back_at;
        enum relay_stream_news news;
    } ROWS[] = {
        { "", 0, BORN, 0, 0, RELAY_STREAM_UNKNOWN },
        { "", 0, BORN, 900, 0, RELAY_STREAM_UNKNOWN },
        { BORN, 10, BORN, 10, 0, RELAY_STREAM_SAME },
        { BORN, 10, BORN, 5000, 0, RELAY_STREAM_SAME },
        { BORN, 10, BORN, 9, 0, RELAY_STREAM_SHORTER },
        { BORN, 10, BORN, 0, 0, RELAY_STREAM_SHORTER },
        { BORN, 10, BORN, 12, 8, RELAY_STREAM_SHORTER }, /* grew again before we looked */
        { BORN, 10, REBORN, 0, 0, RELAY_STREAM_NEW },
        { BORN, 10, REBORN, 5000, 0, RELAY_STREAM_NEW },
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct relay_stream_known known = { .last_sequence = ROWS[i].known_last };
        (void)snprintf(known.created, sizeof known.created, "%s", ROWS[i].known);
        assert_int_equal(
            relay_stream_compare(&known, ROWS[i].created, ROWS[i].last, ROWS[i].rolled_back_at),
            ROWS[i].news);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_stream_only_grows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
