/* tests/unit/hash_test.c: published vectors (FIPS 180-4, RFC 4231) and the edges of hex. */
#include "pipeline/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void sha256_agrees_with_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *hex;
    } CASES[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        uint8_t digest[HASH_SIZE];
        char text[HASH_HEX_SIZE];
        hash_sha256(span_of_text(CASES[i].text), digest);
        assert_string_equal(hash_hex((struct span){ digest, sizeof digest }, text), CASES[i].hex);
    }
    uint8_t of_nothing[HASH_SIZE];
    hash_sha256((struct span){ NULL, 0 }, of_nothing);
    assert_int_equal(of_nothing[0], 0xe3);
}

static void hmac_agrees_with_rfc_4231(void **state)
{
    (void)state;
    uint8_t long_key[131];
    memset(long_key, 0xaa, sizeof long_key);
    const struct {
        struct span key;
        const char *data;
        const char *hex;
    } CASES[] = {
        { span_of_text("Jefe"), "what do ya want for nothing?",
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { { long_key, sizeof long_key },
          "Test Using Larger Than Block-Size Key - Hash Key First",
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        uint8_t digest[HASH_SIZE];
        char text[HASH_HEX_SIZE];
        hash_hmac_sha256(CASES[i].key, span_of_text(CASES[i].data), digest);
        assert_string_equal(hash_hex((struct span){ digest, sizeof digest }, text), CASES[i].hex);
    }
}

static void unhex_takes_exactly_the_asked_size(void **state)
{
    (void)state;
    uint8_t bytes[2] = { 7, 7 };
    assert_false(hash_unhex(span_of_text("0aF"), bytes, 2));
    assert_false(hash_unhex(span_of_text("0aF90"), bytes, 2));
    assert_false(hash_unhex(span_of_text("0aFg"), bytes, 2));
    assert_int_equal(bytes[0], 7); /* untouched on failure */
    assert_true(hash_unhex(span_of_text("0aF9"), bytes, 2));
    assert_int_equal(bytes[0], 0x0a);
    assert_int_equal(bytes[1], 0xf9);
}

static void equality_needs_the_same_length(void **state)
{
    (void)state;
    assert_true(hash_equal(span_of_text("abc"), span_of_text("abc")));
    assert_false(hash_equal(span_of_text("abc"), span_of_text("abd")));
    assert_false(hash_equal(span_of_text("abc"), span_of_text("ab")));
    assert_true(hash_equal(span_of_text(""), (struct span){ NULL, 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_agrees_with_the_published_vectors),
        cmocka_unit_test(hmac_agrees_with_rfc_4231),
        cmocka_unit_test(unhex_takes_exactly_the_asked_size),
        cmocka_unit_test(equality_needs_the_same_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
