/*
 * tests/fuzz/psp_request_fuzz.c: the stored form of a PSP request (pipeline/psp.h). It has one
 * spelling only, because its hash is what a replay is compared by: what can be read is written as
 * the very same bytes.
 */
#include "pipeline/psp.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    const struct span bytes = { data, size };
    struct psp_request request;
    if (psp_request_decode(bytes, &arena, &request) == STATUS_OK) {
        INVARIANT(span_equal(bytes, psp_request_encode(&request, &arena)));
    }
    arena_finish(&arena);
    return 0;
}
