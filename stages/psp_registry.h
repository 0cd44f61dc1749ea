/*
 * stages/psp_registry.h: which PSP adapters this build has. The only place where adapters are
 * named; everything else takes struct psp_ops.
 */
#ifndef ONCEPAY_STAGES_PSP_REGISTRY_H
#define ONCEPAY_STAGES_PSP_REGISTRY_H

#include "pipeline/psp.h"

/* By the name that accounts carry in the configuration ("stripe"). NULL if there is none. */
const struct psp_ops *psp_registry_find(const char *name);

/* By index, for lists; NULL past the last. */
const struct psp_ops *psp_registry_at(size_t index);

#endif
