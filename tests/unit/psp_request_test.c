/* tests/unit/psp_request_test.c: the stored form of a request is canonical and self-contained. */
#include "pipeline/psp.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) assert_string_equal(a, b);
}

static void decode_gives_back_what_was_encoded(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    const struct psp_request requests[] = {
        { "POST", "/v1/payment_intents", "application/x-www-form-urlencoded", "2026-10-28.endive",
          span_of_text("amount=1&x=\n\nversion: 1\n") },
        { "GET", "/v1/payment_intents/pi_1?a=b c", NULL, "2026-10-28.endive", { NULL, 0 } },
        { "POST", "/p", "application/json", NULL, { (const uint8_t *)"\0{}", 3 } },
        { "GET", "/", NULL, NULL, { NULL, 0 } },
    };
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        const struct span bytes = psp_request_encode(&requests[i], &arena);
        struct psp_request decoded;
        assert_int_equal(psp_request_decode(bytes, &arena, &decoded), STATUS_OK);
        assert_string_equal(decoded.method, requests[i].method);
        assert_string_equal(decoded.path, requests[i].path);
        assert_same_text(decoded.content_type, requests[i].content_type);
        assert_same_text(decoded.version, requests[i].version);
        assert_true(span_equal(decoded.body, requests[i].body));
        assert_true(span_equal(psp_request_encode(&decoded, &arena), bytes));
    }
    arena_finish(&arena);
}

static void the_stored_form_does_not_move(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    const struct psp_request request = { "POST", "/v1/x", "text/plain", "7", span_of_text("body") };
    const struct span bytes = psp_request_encode(&request, &arena);
    assert_true(span_equal(bytes, span_of_text("POST /v1/x\ncontent-type: text/plain\n"
                                               "version: 7\n\nbody")));
    arena_finish(&arena);
}

static void other_spellings_are_refused(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    static const char *const TEXTS[] = {
        "",
        "POST",
        "POST\n\n",
        "POST \n\n",
        " /p\n\n",
        "POST /p",
        "POST /p\n",
        "POST /p\nversion: 7\n",
        "POST /p\nversion: \n\n",
        "POST /p\nVersion: 7\n\n",
        "POST /p\nversion: 7\ncontent-type: a\n\n",
        "POST /p\nother: 7\n\n",
        "POST /p\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++) {
        struct psp_request out = { .method = "untouched" };
        assert_int_equal(psp_request_decode(span_of_text(TEXTS[i]), &arena, &out), STATUS_BAD_DATA);
        assert_string_equal(out.method, "untouched");
    }
    const struct span with_nul = { (const uint8_t *)"POST /\0p\n\n", 10 };
    struct psp_request out;
    assert_int_equal(psp_request_decode(with_nul, &arena, &out), STATUS_BAD_DATA);
    arena_finish(&arena);
}

static void every_code_has_a_name_and_no_other(void **state)
{
    (void)state;
    static const struct {
        const char *(*name)(int code);
        int first, last;
    } SETS[] = {
        { request_kind_name, REQUEST_CREATE, REQUEST_CANCEL },
        { request_phase_name, PHASE_LOCAL, PHASE_PARSED },
        { decline_class_name, DECLINE_NONE, DECLINE_REQUEST },
        { observation_kind_name, OBSERVED_NOTHING, OBSERVED_CANCELED },
        { evidence_source_name, SOURCE_LOCAL, SOURCE_MANUAL },
    };
    for (size_t i = 0; i < COUNT_OF(SETS); i++) {
        for (int code = SETS[i].first; code <= SETS[i].last; code++) {
            assert_non_null(SETS[i].name(code));
        }
        assert_null(SETS[i].name(SETS[i].first - 1));
        assert_null(SETS[i].name(SETS[i].last + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_gives_back_what_was_encoded),
        cmocka_unit_test(the_stored_form_does_not_move),
        cmocka_unit_test(other_spellings_are_refused),
        cmocka_unit_test(every_code_has_a_name_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
