/*
 * tests/support/intake_messages.h: producers' messages without a bus, and a batch of them run
 * through intake against a database.
 */
#ifndef ONCEPAY_TESTS_SUPPORT_INTAKE_MESSAGES_H
#define ONCEPAY_TESTS_SUPPORT_INTAKE_MESSAGES_H

#include "stages/intake/intake_batch.h"

enum { INTAKE_MESSAGES_MAX = 256 };

struct intake_messages {
    struct config config; /* merchants m-1001 and m-1002, start_by 15 min */
    struct config_merchant merchants[2];
    struct arena arena;
    struct bus_message messages[INTAKE_MESSAGES_MAX];
    struct stage_item items[INTAKE_MESSAGES_MAX];
    struct stage_item *pointers[INTAKE_MESSAGES_MAX];
    size_t count;
    int64_t unseen_now_us;     /* of the runs' batches */
    struct intake_batch batch; /* of the last run */
};

void intake_messages_init(struct intake_messages *messages);
void intake_messages_finish(struct intake_messages *messages);
/* A new batch; what was decided before stays readable until finish. */
void intake_messages_clear(struct intake_messages *messages);

/* "m-1001", T<n>, target order/O<n>, 1200 EUR, card token; for tests to change. */
struct pay_request intake_messages_request(struct intake_messages *messages, int n);
/* Stored now, JSON, answered to _INBOX.test.<n>; key NULL: the default. For tests to change. */
struct bus_message *intake_messages_add(struct intake_messages *messages,
                                        const struct pay_request *request, const char *key);
struct bus_message *intake_messages_add_raw(struct intake_messages *messages, const char *subject,
                                            struct span body, const struct bus_header *headers,
                                            size_t header_count);

/* Reads, decides and commits the whole batch once. */
enum status intake_messages_run(struct intake_messages *messages, struct store *store);

#endif
