/*
 * stages/kept_message.h: a message in the form in which a dead letter keeps it (protocol H6, I15):
 * what PostgreSQL can store, without card data, the method token beside the body.
 */
#ifndef ONCEPAY_STAGES_KEPT_MESSAGE_H
#define ONCEPAY_STAGES_KEPT_MESSAGE_H

#include "pipeline/bus.h"
#include "pipeline/id.h"
#include "pipeline/kept_body.h"

struct kept_message {
    const char *subject;
    const char *headers; /* "name: value" lines */
    struct span body;
    const char *method_token; /* NULL if there was none */
};

/* A producer's request; content as far as it is known, else what its header says. */
void kept_message_of_request(const struct bus_message *message, enum content_type content,
                             struct arena *arena, struct kept_message *out);
/* A stage message: ids and versions, kept as they are. */
void kept_message_of_commands(const struct bus_message *message, struct arena *arena,
                              struct kept_message *out);

/*
 * The id of what is kept of a message (outbox nil), or of one command in it: made from it, so
 * that keeping it again changes nothing. It carries the time of the message's storing.
 */
struct uuid kept_message_id(const struct bus_message *message, struct uuid outbox);

#endif
