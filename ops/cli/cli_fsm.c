/* ops/cli/cli_fsm.c: `oncepay fsm`: the tables of states as a diagram or as rows. */
#include "ops/cli/cli.h"

#include "pipeline/state.h"

static const enum entity ENTITIES[] = { ENTITY_PAYMENT, ENTITY_ATTEMPT, ENTITY_OPERATION,
                                        ENTITY_TASK };

static bool is_asked_for(const char *word, enum entity entity)
{
    return word == NULL || strcmp(word, entity_name((int)entity)) == 0;
}

static void print_rows(struct cli *cli, enum entity entity)
{
    size_t count = 0;
    const struct transition *rows = transition_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].entity != entity) continue;
        struct value map = value_map_make(&cli->arena, 4);
        value_map_add(&map, "entity", value_of_text(entity_name((int)entity)));
        value_map_add(&map, "from",
                      value_of_text(rows[i].from == 0 ? NULL : state_name(entity, rows[i].from)));
        value_map_add(&map, "to", value_of_text(state_name(entity, rows[i].to)));
        value_map_add(&map, "why", value_of_text(rows[i].why));
        cli_print_json(cli, &map);
    }
}

static int run(struct cli *cli)
{
    const char *words[1] = { NULL };
    size_t word_count = 0;
    size_t shown = 0;
    if (!cli_read_arguments(cli, NULL, 0, words, 1, &word_count)) return CLI_USAGE;
    for (size_t i = 0; i < COUNT_OF(ENTITIES); i++) {
        if (!is_asked_for(words[0], ENTITIES[i])) continue;
        if (cli->as_json) {
            print_rows(cli, ENTITIES[i]);
        } else {
            if (words[0] == NULL) {
                printf("%s%%%% %s\n", shown > 0 ? "\n" : "", entity_name((int)ENTITIES[i]));
            }
            state_diagram_mermaid(ENTITIES[i], stdout);
        }
        shown++;
    }
    return shown > 0 ? CLI_OK
                     : cli_fail(cli, CLI_USAGE, "there are payment, attempt, operation and task");
}

const struct cli_command CLI_COMMAND_FSM = {
    .name = "fsm",
    .run = run,
    .usage = "fsm [payment|attempt|operation|task]",
    .summary = "the states and every listed transition, as a Mermaid diagram",
    .help = "Prints the table that C, the database's guards and the history go by.\n"
            "\n"
            "--json, one line per transition: entity, from (null: the row is born), to, why\n",
};
