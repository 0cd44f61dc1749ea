/* ops/sim/protocol.c: see protocol.h. */
#include "ops/sim/protocol.h"

#include "ops/sim/stripe.h"

static const struct protocol *const PROTOCOLS[] = { &stripe_protocol };

const struct protocol *protocol_of_account(const struct account *account)
{
    for (size_t i = 0; i < COUNT_OF(PROTOCOLS); i++) {
        if (strcmp(PROTOCOLS[i]->name, account->protocol) == 0) return PROTOCOLS[i];
    }
    UNREACHABLE("account of an unknown protocol");
}

const struct protocol *protocol_of_path(const char *path)
{
    for (size_t i = 0; i < COUNT_OF(PROTOCOLS); i++) {
        const char *prefix = PROTOCOLS[i]->path_prefix;
        if (strncmp(prefix, path, strlen(prefix)) == 0) return PROTOCOLS[i];
    }
    return NULL;
}

const struct protocol *protocol_default(void)
{
    return PROTOCOLS[0];
}
