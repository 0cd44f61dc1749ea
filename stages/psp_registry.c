/* stages/psp_registry.c: see psp_registry.h. */
#include "stages/psp_registry.h"

#include "adapters/stripe/stripe.h"

static const struct psp_ops *const ADAPTERS[] = { &stripe_ops };

const struct psp_ops *psp_registry_at(size_t index)
{
    return index < COUNT_OF(ADAPTERS) ? ADAPTERS[index] : NULL;
}

const struct psp_ops *psp_registry_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(ADAPTERS); i++) {
        if (strcmp(ADAPTERS[i]->name, name) == 0) return ADAPTERS[i];
    }
    return NULL;
}
