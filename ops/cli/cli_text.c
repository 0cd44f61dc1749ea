/* ops/cli/cli_text.c: see cli_text.h. */
#include "ops/cli/cli_text.h"

#include "pipeline/clock.h"

const char *cli_time(struct arena *arena, int64_t real_us)
{
    enum { UP_TO_MILLISECONDS = 23 };
    char text[CLOCK_TEXT_SIZE];
    if (real_us <= 0) return "-";
    (void)clock_format(real_us, text);
    return arena_format(arena, "%.*sZ", UP_TO_MILLISECONDS, text);
}

const char *cli_age(struct arena *arena, int64_t us)
{
    if (us < 0) us = -us;
    const int64_t ms = us / 1000;
    const int64_t s = ms / 1000;
    const int64_t min = s / 60;
    const int64_t h = min / 60;
    if (ms < 1000) return arena_format(arena, "%" PRId64 " ms", ms);
    if (s < 60) return arena_format(arena, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    if (min < 60) return arena_format(arena, "%" PRId64 " min %" PRId64 " s", min, s % 60);
    if (h < 48) return arena_format(arena, "%" PRId64 " h %" PRId64 " min", h, min % 60);
    return arena_format(arena, "%" PRId64 " d %" PRId64 " h", h / 24, h % 24);
}

const char *cli_when(struct arena *arena, int64_t real_us, int64_t now_us)
{
    const char *time = cli_time(arena, real_us);
    if (real_us <= 0) return time;
    const char *age = cli_age(arena, real_us - now_us);
    return real_us > now_us ? arena_format(arena, "%s (in %s)", time, age)
                            : arena_format(arena, "%s (%s ago)", time, age);
}

const char *cli_id(struct arena *arena, struct uuid id)
{
    char text[UUID_TEXT_SIZE];
    return uuid_is_nil(id) ? NULL : arena_format(arena, "%s", uuid_format(id, text));
}

const char *cli_money(struct arena *arena, struct money money)
{
    char text[MONEY_TEXT_SIZE];
    return arena_format(arena, "%s", money_format(money, text));
}

const char *cli_or_dash(const char *text)
{
    return text == NULL || text[0] == '\0' ? "-" : text;
}

/* Tables --------------------------------------------------------------------------------------- */

void cli_table_begin(struct cli_table *table, struct arena *arena, const char *const *headings,
                     size_t column_count)
{
    *table = (struct cli_table){ .arena = arena, .column_count = column_count };
    cli_table_add(table, headings);
}

void cli_table_add(struct cli_table *table, const char *const *cells)
{
    const size_t row_bytes = table->column_count * sizeof *table->cells;
    if (table->row_count == table->row_size) {
        const size_t size = table->row_size == 0 ? 16 : table->row_size * 2;
        const char **grown = arena_allocate(table->arena, size * row_bytes);
        if (table->row_count > 0) memcpy(grown, table->cells, table->row_count * row_bytes);
        table->cells = grown;
        table->row_size = size;
    }
    const char **row = table->cells + table->row_count++ * table->column_count;
    for (size_t i = 0; i < table->column_count; i++) row[i] = cli_or_dash(cells[i]);
}

/* Columns on the screen: UTF-8 continuation bytes take none. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void cli_table_print(const struct cli_table *table, size_t indent, FILE *out)
{
    enum { GAP = 2 };
    if (table->row_count < 2) return;
    size_t *widths = arena_allocate(table->arena, table->column_count * sizeof *widths);
    for (size_t i = 0; i < table->row_count * table->column_count; i++) {
        const size_t width = width_of(table->cells[i]);
        size_t *widest = &widths[i % table->column_count];
        if (width > *widest) *widest = width;
    }
    for (size_t i = 0; i < table->row_count; i++) {
        fprintf(out, "%*s", (int)indent, "");
        for (size_t k = 0; k < table->column_count; k++) {
            const char *cell = table->cells[i * table->column_count + k];
            const bool is_last = k + 1 == table->column_count;
            const size_t blanks = is_last ? 0 : widths[k] - width_of(cell) + GAP;
            fprintf(out, "%s%*s", cell, (int)blanks, "");
        }
        fputc('\n', out);
    }
}
