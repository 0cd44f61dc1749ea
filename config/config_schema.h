/*
 * config/config_schema.h: the rows of oncepay.yaml. Private to config/.
 */
#ifndef ONCEPAY_CONFIG_CONFIG_SCHEMA_H
#define ONCEPAY_CONFIG_CONFIG_SCHEMA_H

#include "config/schema.h"

extern const struct schema_table CONFIG_SCHEMA; /* fills struct config */

/* What may stand in a file as ${NAME}. */
extern const struct schema_variable CONFIG_VARIABLES[];
extern const size_t CONFIG_VARIABLE_COUNT;

/* Rules between keys, once each is right for itself. */
enum status config_check(const struct config *config, const struct tree_node *root,
                         struct config_error *out_error) MUST_CHECK;

#endif
