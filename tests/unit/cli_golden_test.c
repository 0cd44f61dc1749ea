/*
 * tests/unit/cli_golden_test.c: what users and their scripts read (help, diagrams) stands in
 * tests/golden, so that a change of it is seen. ONCEPAY_GOLDEN=write writes the files anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/cli/cli.h"
#include "pipeline/state.h"

enum { NAME_SIZE = 256 };

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s is missing; ONCEPAY_GOLDEN=write makes it", path);
    char *text = memory_allocate(64 * 1024);
    const size_t length = fread(text, 1, 64 * 1024 - 1, file);
    assert_true(feof(file) != 0);
    text[length] = '\0';
    (void)fclose(file);
    return text;
}

static void compare(const char *name, const char *text)
{
    char path[NAME_SIZE];
    (void)snprintf(path, sizeof path, SOURCE_DIR "/tests/golden/%s", name);
    const char *mode = getenv("ONCEPAY_GOLDEN");
    if (mode != NULL && strcmp(mode, "write") == 0) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    char *golden = read_file(path);
    if (strcmp(golden, text) != 0) {
        fail_msg("%s differs from what is printed now; ONCEPAY_GOLDEN=write accepts it:\n%s", name,
                 text);
    }
    free(golden);
}

static void diagrams_are_the_golden_ones(void **state)
{
    static const enum entity ENTITIES[] = { ENTITY_PAYMENT, ENTITY_ATTEMPT, ENTITY_OPERATION,
                                            ENTITY_TASK };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ENTITIES); i++) {
        char name[NAME_SIZE];
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        state_diagram_mermaid(ENTITIES[i], out);
        (void)fclose(out);
        (void)snprintf(name, sizeof name, "fsm_%s.mmd", entity_name((int)ENTITIES[i]));
        compare(name, text);
        free(text);
    }
}

static void compare_help(const char *command)
{
    char name[NAME_SIZE];
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_true(cli_print_help(command, out));
    (void)fclose(out);
    (void)snprintf(name, sizeof name, "help%s%s.txt", command == NULL ? "" : "_",
                   command == NULL ? "" : command);
    compare(name, text);
    free(text);
}

static void help_is_the_golden_one(void **state)
{
    (void)state;
    compare_help(NULL);
    for (size_t i = 0; cli_command_at(i) != NULL; i++) compare_help(cli_command_at(i)->name);
}

static void help_fits_a_terminal(void **state)
{
    enum { WIDTH = 100 };
    (void)state;
    for (size_t i = 0; cli_command_at(i) != NULL; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);
        assert_true(cli_print_help(cli_command_at(i)->name, out));
        (void)fclose(out);
        for (const char *line = text; *line != '\0';) {
            const size_t width = strcspn(line, "\n");
            if (width > WIDTH) fail_msg("%s: %.*s", cli_command_at(i)->name, (int)width, line);
            line += width + (line[width] == '\n');
        }
        assert_true(length > 0 && text[length - 1] == '\n');
        free(text);
    }
}

static void commands_stand_in_order(void **state)
{
    (void)state;
    for (size_t i = 1; cli_command_at(i) != NULL; i++) {
        assert_true(strcmp(cli_command_at(i - 1)->name, cli_command_at(i)->name) < 0);
    }
    assert_false(cli_print_help("no-such-command", stdout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diagrams_are_the_golden_ones),
        cmocka_unit_test(help_is_the_golden_one),
        cmocka_unit_test(help_fits_a_terminal),
        cmocka_unit_test(commands_stand_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
