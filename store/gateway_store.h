/*
 * store/gateway_store.h: verified webhooks into the inbox, each with the command that tells
 * recover, in one transaction.
 */
#ifndef ONCEPAY_STORE_GATEWAY_STORE_H
#define ONCEPAY_STORE_GATEWAY_STORE_H

#include "pipeline/psp.h"
#include "store/store.h"

/* Ids are drawn once, when the webhook came. */
struct gateway_row {
    struct inbox_id id;
    struct outbox_id command;
    const char *account;
    const struct observation *observation; /* .provider_event is set */
};

/*
 * Blocks; one transaction. out_is_new[i]: it was not kept before; of twins in one call one is new.
 * STATUS_BAD_DATA: one of the rows can never be kept.
 */
enum status gateway_store_keep(struct store *store, const struct gateway_row *const *rows,
                               size_t count, struct arena *arena, bool *out_is_new) MUST_CHECK;

#endif
