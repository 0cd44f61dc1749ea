/*
 * store/account_store.h: merchants, channel accounts and capability rows as the configuration
 * names them: upserted by `oncepay topology apply`, never deleted.
 */
#ifndef ONCEPAY_STORE_ACCOUNT_STORE_H
#define ONCEPAY_STORE_ACCOUNT_STORE_H

#include "pipeline/psp.h"
#include "store/store.h"

struct account_upsert {
    const char *account;
    const char *psp;
    const char *failure_domain;
    const struct psp_capability *capability;
};

/* One transaction. */
enum status accounts_write(struct store *store, const char *const *merchants, size_t merchant_count,
                           const struct account_upsert *accounts, size_t account_count,
                           struct arena *arena) MUST_CHECK;

#endif
