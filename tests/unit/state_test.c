/* tests/unit/state_test.c: the transition table is exactly protocol A, and hangs together. */
#include "pipeline/state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const enum entity ENTITIES[] = { ENTITY_PAYMENT, ENTITY_ATTEMPT, ENTITY_OPERATION,
                                        ENTITY_TASK };

/* Protocol A, written down a second time as text: "from: to to to". 0 is the birth. */
struct listed_row {
    enum entity entity;
    int from;
    int to[10];
};
static const struct listed_row LISTED[] = {
    { ENTITY_PAYMENT, 0, { 10, 95 } },
    { ENTITY_PAYMENT, PAYMENT_CREATED, { 10, 20, 95, 90 } },
    { ENTITY_PAYMENT, PAYMENT_AUTHORIZING, { 20, 25, 30, 50, 90, 95 } },
    { ENTITY_PAYMENT, PAYMENT_CANCELING, { 25, 95, 90, 30, 50, 20 } },
    { ENTITY_PAYMENT, PAYMENT_AUTHORIZED, { 30, 40, 35, 50, 80, 95 } },
    { ENTITY_PAYMENT, PAYMENT_VOIDING, { 35, 80, 30, 50 } },
    { ENTITY_PAYMENT, PAYMENT_CAPTURING, { 40, 50, 30 } },
    { ENTITY_PAYMENT, PAYMENT_CAPTURED, { 40, 50, 60, 70 } },
    { ENTITY_PAYMENT, PAYMENT_REFUNDING, { 60, 50, 70 } },
    { ENTITY_PAYMENT, PAYMENT_REFUNDED, { 70 } },
    { ENTITY_PAYMENT, PAYMENT_REVERSED, { 80 } },
    { ENTITY_PAYMENT, PAYMENT_FAILED, { 90 } },
    { ENTITY_PAYMENT, PAYMENT_CANCELED, { 95 } },
    { ENTITY_ATTEMPT, 0, { 10 } },
    { ENTITY_ATTEMPT, ATTEMPT_CREATED, { 20, 60, 40 } },
    { ENTITY_ATTEMPT, ATTEMPT_SENDING, { 30, 40, 50, 60, 10 } },
    { ENTITY_ATTEMPT, ATTEMPT_PROCESSING, { 30, 40, 50, 60 } },
    { ENTITY_ATTEMPT, ATTEMPT_UNKNOWN, { 40, 30, 50, 60 } },
    { ENTITY_OPERATION, 0, { 10 } },
    { ENTITY_OPERATION, OPERATION_REQUESTED, { 50, 60 } },
    { ENTITY_TASK, 0, { 10, 40 } },
    { ENTITY_TASK, TASK_READY, { 20, 30, 50 } },
    { ENTITY_TASK, TASK_LEASED, { 10, 40, 30, 50 } },
    { ENTITY_TASK, TASK_ESCALATED, { 20, 50 } },
    { ENTITY_TASK, TASK_PAUSED, { 10, 50 } },
};

static bool is_listed(enum entity entity, int from, int to)
{
    for (size_t i = 0; i < COUNT_OF(LISTED); i++) {
        if (LISTED[i].entity != entity || LISTED[i].from != from) continue;
        for (size_t j = 0; j < COUNT_OF(LISTED[i].to); j++) {
            if (LISTED[i].to[j] == to) return true;
        }
    }
    return false;
}

/* Index -1 is the birth. */
static int from_at(enum entity entity, int index)
{
    return index < 0 ? 0 : state_code_at(entity, (size_t)index);
}

static void every_pair_is_listed_exactly_as_protocol_a_says(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT_OF(ENTITIES); e++) {
        const enum entity entity = ENTITIES[e];
        for (int i = -1; i < 0 || from_at(entity, i) != 0; i++) {
            for (size_t j = 0; state_code_at(entity, j) != 0; j++) {
                const int from = from_at(entity, i);
                const int to = state_code_at(entity, j);
                const bool is_there = transition_find(entity, from, to) != NULL;
                if (is_there == is_listed(entity, from, to)) continue;
                fail_msg("%s %d -> %d: %s", entity_name((int)entity), from, to,
                         is_there ? "must not be there" : "is missing");
            }
        }
    }
}

static void no_row_is_twice_and_each_says_why(void **state)
{
    (void)state;
    size_t count;
    const struct transition *rows = transition_table(&count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(transition_find(rows[i].entity, rows[i].from, rows[i].to), &rows[i]);
        assert_true(strlen(rows[i].why) > 10);
        assert_true(rows[i].from == 0 || state_name(rows[i].entity, rows[i].from) != NULL);
        assert_non_null(state_name(rows[i].entity, rows[i].to));
    }
}

static void every_payment_status_lists_itself_for_a_late_fact(void **state)
{
    (void)state;
    for (size_t i = 0; state_code_at(ENTITY_PAYMENT, i) != 0; i++) {
        const int code = state_code_at(ENTITY_PAYMENT, i);
        assert_non_null(transition_find(ENTITY_PAYMENT, code, code));
    }
}

static void terminal_states_absorb_and_others_have_a_way_out(void **state)
{
    (void)state;
    size_t count;
    const struct transition *rows = transition_table(&count);
    for (size_t e = 0; e < COUNT_OF(ENTITIES); e++) {
        for (size_t i = 0; state_code_at(ENTITIES[e], i) != 0; i++) {
            const int code = state_code_at(ENTITIES[e], i);
            bool leaves = false;
            for (size_t r = 0; r < count; r++) {
                leaves = leaves || (rows[r].entity == ENTITIES[e] && rows[r].from == code &&
                                    rows[r].to != code);
            }
            assert_int_equal(leaves, !state_is_terminal(ENTITIES[e], code));
        }
    }
}

/* Marks what can be reached from the marked, forwards or backwards, until nothing is added. */
static void spread(enum entity entity, bool is_marked[128], bool is_forwards)
{
    size_t count;
    const struct transition *rows = transition_table(&count);
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < count; i++) {
            const int from = is_forwards ? rows[i].from : rows[i].to;
            const int to = is_forwards ? rows[i].to : rows[i].from;
            if (rows[i].entity != entity || !is_marked[from] || is_marked[to]) continue;
            is_marked[to] = has_changed = true;
        }
    }
}

static void every_state_is_reached_from_birth_and_can_reach_an_end(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT_OF(ENTITIES); e++) {
        bool is_reached[128] = { [0] = true };
        bool can_end[128] = { false };
        for (size_t i = 0; state_code_at(ENTITIES[e], i) != 0; i++) {
            const int code = state_code_at(ENTITIES[e], i);
            can_end[code] = state_is_terminal(ENTITIES[e], code);
        }
        spread(ENTITIES[e], is_reached, true);
        spread(ENTITIES[e], can_end, false);
        for (size_t i = 0; state_code_at(ENTITIES[e], i) != 0; i++) {
            assert_true(is_reached[state_code_at(ENTITIES[e], i)]);
            assert_true(can_end[state_code_at(ENTITIES[e], i)]);
        }
    }
}

static void outward_words_are_those_of_the_protocol(void **state)
{
    (void)state;
    static const struct {
        enum payment_state code;
        const char *name;
        const char *word;
    } CASES[] = {
        { PAYMENT_CREATED, "CREATED", "pending" },
        { PAYMENT_AUTHORIZING, "AUTHORIZING", "processing" },
        { PAYMENT_CANCELING, "CANCELING", "canceling" },
        { PAYMENT_AUTHORIZED, "AUTHORIZED", "authorized" },
        { PAYMENT_VOIDING, "VOIDING", "voiding" },
        { PAYMENT_CAPTURING, "CAPTURING", "capturing" },
        { PAYMENT_CAPTURED, "CAPTURED", "succeeded" },
        { PAYMENT_REFUNDING, "REFUNDING", "refunding" },
        { PAYMENT_REFUNDED, "REFUNDED", "refunded" },
        { PAYMENT_REVERSED, "REVERSED", "reversed" },
        { PAYMENT_FAILED, "FAILED", "failed" },
        { PAYMENT_CANCELED, "CANCELED", "canceled" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        assert_int_equal(state_code_at(ENTITY_PAYMENT, i), CASES[i].code);
        assert_string_equal(payment_state_name((int)CASES[i].code), CASES[i].name);
        assert_string_equal(payment_status_word(CASES[i].code), CASES[i].word);
    }
    assert_int_equal(state_code_at(ENTITY_PAYMENT, COUNT_OF(CASES)), 0);
}

static void codes_outside_the_tables_have_no_name(void **state)
{
    (void)state;
    assert_null(payment_state_name(0));
    assert_null(attempt_state_name(11));
    assert_null(operation_state_name(-1));
    assert_null(task_state_name(99));
    assert_null(operation_name(6));
    assert_null(certainty_name(0));
    assert_null(entity_name(5));
    assert_string_equal(certainty_name(CERTAINTY_NO_SIDE_EFFECT), "NO_SIDE_EFFECT");
    assert_string_equal(operation_name(OPERATION_REFUND), "refund");
}

static void the_diagram_shows_births_pairs_and_ends(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    state_diagram_mermaid(ENTITY_ATTEMPT, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strncmp(text, "stateDiagram-v2\n    [*] --> CREATED : ", 38), 0);
    assert_non_null(strstr(text, "    SENDING --> CREATED : proven unsent\n"));
    assert_non_null(strstr(text, "    SUCCEEDED --> [*]\n    FAILED --> [*]\n"));
    assert_null(strstr(text, "AUTHORIZING"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_listed_exactly_as_protocol_a_says),
        cmocka_unit_test(no_row_is_twice_and_each_says_why),
        cmocka_unit_test(every_payment_status_lists_itself_for_a_late_fact),
        cmocka_unit_test(terminal_states_absorb_and_others_have_a_way_out),
        cmocka_unit_test(every_state_is_reached_from_birth_and_can_reach_an_end),
        cmocka_unit_test(outward_words_are_those_of_the_protocol),
        cmocka_unit_test(codes_outside_the_tables_have_no_name),
        cmocka_unit_test(the_diagram_shows_births_pairs_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
