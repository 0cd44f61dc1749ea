/*
 * tests/fuzz/bus_message_fuzz.c: a message as nats-server hands it on from a producer: a line with
 * the subject, one with the reply subject, then up to an empty line the header block as it came
 * over the wire, then the body. libnats reads the header block lazily, inside our calls, and
 * whoever may publish a request may write it. Nothing of it may be lost silently: a block that
 * cannot be read is marked, so that no default is taken for a key that stood in it.
 */
#include "adapters/nats/bus_internal.h"
#include "pipeline/problem.h"
#include "pipeline/request.h"
#include "tests/fuzz/fuzz.h"

/* Exported by libnats 3.4.1, declared in none of its headers: how it makes what it received. */
natsStatus natsMsg_create(natsMsg **out_message, const char *subject, int subject_length,
                          const char *reply, int reply_length, const char *bytes, int length,
                          int header_length);

static size_t header_block_length(struct span bytes)
{
    for (size_t i = 4; i <= bytes.length; i++) {
        if (memcmp(bytes.data + i - 4, "\r\n\r\n", 4) == 0) return i;
    }
    return 0;
}

static void check_message(const struct bus_message *message)
{
    struct arena arena = { NULL };
    struct request_envelope envelope;
    struct problem problem;
    INVARIANT(!message->headers_malformed || message->header_count == 0);
    for (size_t i = 0; i < message->header_count; i++) {
        const struct bus_header *header = &message->headers[i];
        INVARIANT(header->value != NULL && strpbrk(header->name, "ABCXYZ:") == NULL);
        INVARIANT(bus_message_header(message, header->name) != NULL);
    }
    if (request_envelope_read(message, &arena, &envelope, &problem)) {
        INVARIANT(!message->headers_malformed);
        INVARIANT((envelope.idempotency_key != NULL) ==
                  (bus_message_header(message, "idempotency-key") != NULL));
    }
    arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { NULL };
    struct span rest = { data, size };
    const char *subject = fuzz_line(&rest, &arena);
    const char *reply = fuzz_line(&rest, &arena);
    natsMsg *wire = NULL;
    struct bus_message message;
    INVARIANT(nats_Open(-1) == NATS_OK); /* once; further calls do nothing */
    INVARIANT(natsMsg_create(&wire, subject, (int)strlen(subject), reply, (int)strlen(reply),
                             (const char *)rest.data, (int)rest.length,
                             (int)header_block_length(rest)) == NATS_OK);
    (void)bus_message_status(wire);
    const bool is_core = strncmp(reply, "$JS.ACK.", 8) != 0;
    struct bus_delivery *delivery = bus_delivery_new(NULL, wire, is_core);
    bus_delivery_open(delivery, &message);
    check_message(&message);
    bus_delivery_free(delivery);
    arena_finish(&arena);
    return 0;
}
