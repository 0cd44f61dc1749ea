/* tests/unit/crash_point_test.c: a process dies or stops at the named place, the nth time. */
#include "pipeline/crash_point.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs a child that passes two points three times each; its wait status, first stop included. */
static int status_of_child(const char *variable, const char *setting, pid_t *out_child)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (variable != NULL) (void)setenv(variable, setting, 1);
        for (int i = 0; i < 3; i++) {
            CRASH_POINT("test.first");
            CRASH_POINT("test.second");
        }
        _exit(7);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    *out_child = child;
    return status;
}

#ifdef ONCEPAY_CRASH_POINTS

static void the_process_kills_itself_at_the_point(void **state)
{
    (void)state;
    static const char *const SETTINGS[] = { "test.first", "test.second:1", "test.second:3" };
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        pid_t child;
        const int status = status_of_child("ONCEPAY_CRASH_AT", SETTINGS[i], &child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
}

static void other_points_and_later_counts_are_passed(void **state)
{
    (void)state;
    static const char *const SETTINGS[] = { "test", "test.first.x", "test.first:4", "" };
    for (size_t i = 0; i < COUNT_OF(SETTINGS); i++) {
        pid_t child;
        const int status = status_of_child("ONCEPAY_CRASH_AT", SETTINGS[i], &child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
}

static void a_stop_happens_once_and_can_be_continued(void **state)
{
    (void)state;
    pid_t child;
    int status = status_of_child("ONCEPAY_STOP_AT", "test.second:2", &child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

#else

static void without_them_nothing_happens(void **state)
{
    (void)state;
    pid_t child;
    const int status = status_of_child("ONCEPAY_CRASH_AT", "test.first", &child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef ONCEPAY_CRASH_POINTS
        cmocka_unit_test(the_process_kills_itself_at_the_point),
        cmocka_unit_test(other_points_and_later_counts_are_passed),
        cmocka_unit_test(a_stop_happens_once_and_can_be_continued),
#else
        cmocka_unit_test(without_them_nothing_happens),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
