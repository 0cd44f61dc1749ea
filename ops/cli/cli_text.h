/*
 * ops/cli/cli_text.h: how the CLI writes times, ages, ids and tables for people. Pure.
 */
#ifndef ONCEPAY_OPS_CLI_CLI_TEXT_H
#define ONCEPAY_OPS_CLI_CLI_TEXT_H

#include "pipeline/arena.h"
#include "pipeline/id.h"
#include "pipeline/money.h"

/* "2026-11-30T10:15:00.123Z"; "-" for 0. */
const char *cli_time(struct arena *arena, int64_t real_us);
/* "12 ms", "3.4 s", "5 min 3 s", "2 h 5 min", "3 d 4 h". Of the magnitude. */
const char *cli_age(struct arena *arena, int64_t us);
/* "2026-… (in 12 s)", "2026-… (3 s ago)". */
const char *cli_when(struct arena *arena, int64_t real_us, int64_t now_us);
const char *cli_id(struct arena *arena, struct uuid id);
const char *cli_money(struct arena *arena, struct money money);
/* text, or "-" for NULL. */
const char *cli_or_dash(const char *text);

/* Rows of cells under headings, aligned by what is widest; two blanks between columns. */
struct cli_table {
    struct arena *arena;
    size_t column_count;
    const char **cells; /* headings first */
    size_t row_count;   /* with the headings */
    size_t row_size;
};

/* headings: column_count of them; borrowed, like all cells. */
void cli_table_begin(struct cli_table *table, struct arena *arena, const char *const *headings,
                     size_t column_count);
/* A NULL cell is shown as "-". */
void cli_table_add(struct cli_table *table, const char *const *cells);
/* indent blanks before each line; nothing at all if there are no rows. */
void cli_table_print(const struct cli_table *table, size_t indent, FILE *out);

#endif
