/*
 * tests/fuzz/config_fuzz.c: oncepay.yaml up to the point where its secret files are read. A refusal
 * says where; what is accepted gives a topology without contradictions.
 */
#include "config/config_schema.h"
#include "tests/fuzz/fuzz.h"

static const char NAME[] = "oncepay.yaml";

static enum status load(struct span text, struct config *config, struct config_error *error)
{
    struct tree_node *root = NULL;
    config->path = NAME;
    TRY(tree_parse(NAME, text, &config->arena, &root, error));
    const struct schema_reading reading = { .name = NAME,
                                            .arena = &config->arena,
                                            .error = error,
                                            .variables = CONFIG_VARIABLES,
                                            .variable_count = CONFIG_VARIABLE_COUNT };
    TRY(schema_read(&reading, &CONFIG_SCHEMA, root, "", config));
    return config_check(config, root, error);
}

static void check_accepted(const struct config *config)
{
    struct arena arena = { NULL };
    struct bus_topology topology;
    const char *error = NULL;
    config_topology(config, &arena, &topology);
    INVARIANT(bus_topology_check(&topology, &arena, &error) == STATUS_OK);
    arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_set;
    if (!is_set) {
        for (size_t i = 0; i < CONFIG_VARIABLE_COUNT; i++) {
            INVARIANT(setenv(CONFIG_VARIABLES[i].name, "http://127.0.0.1:1", 1) == 0);
        }
        is_set = true;
    }
    struct config config = { .path = NULL };
    struct config_error error = { "" };
    if (load((struct span){ data, size }, &config, &error) == STATUS_OK) {
        check_accepted(&config);
    } else {
        INVARIANT(strncmp(error.text, NAME, strlen(NAME)) == 0);
        INVARIANT(strlen(error.text) < sizeof error.text);
    }
    config_finish(&config);
    return 0;
}
