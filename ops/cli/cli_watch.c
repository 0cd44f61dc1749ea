/*
 * ops/cli/cli_watch.c: `oncepay watch`: how the pipeline runs, once a second. It asks JetStream for
 * lags and PostgreSQL for small tables and a bounded look at the newest payments; it may run beside
 * any load.
 */
#include <signal.h>
#include <unistd.h>

#include "ops/cli/cli.h"
#include "ops/cli/cli_finals.h"
#include "ops/cli/cli_text.h"
#include "pipeline/clock.h"
#include "store/gauges.h"
#include "store/query_totals.h"

enum { RECENT_MS = 5 * 60 * 1000, RECENT_MAX = 2000, INTERVAL_S_MAX = 3600, BAR_WIDTH = 40 };

struct lag {
    const char *stage;
    const char *account; /* NULL: the stage is not parted by account */
    struct bus_consumer_info info;
};

/* One look. */
struct look {
    int64_t at_us;
    const char *store_problem; /* NULL: totals and gauges are there */
    const char *bus_problem;   /* NULL: lags are there */
    struct query_totals totals;
    struct gauges gauges;
    struct lag *lags;
    size_t lag_count;
    uint64_t finals; /* since the start */
    uint64_t finals_before;
    int64_t interval_us;
};

struct watch {
    struct cli *cli;
    struct store *store;
    struct bus *bus;
    struct cli_finals finals;
    int64_t interval_s;
    int64_t until;
    bool once;
    bool is_screen; /* stdout is a terminal, and text is wanted */
};

static volatile sig_atomic_t is_over;

static void on_signal(int signal_number)
{
    (void)signal_number;
    is_over = 1;
}

/* Looking -------------------------------------------------------------------------------------- */

static void look_at_store(struct watch *watch, struct arena *arena, struct look *look)
{
    const int64_t stuck_after_s = watch->cli->config.timers.stuck_after_s;
    enum status status =
        query_totals_read(watch->store, RECENT_MS, RECENT_MAX, arena, &look->totals);
    if (status == STATUS_OK) {
        status = gauges_read(watch->store, stuck_after_s, arena, &look->gauges);
    }
    if (status == STATUS_OK) return;
    const char *message = store_last_error(watch->store)->message;
    look->store_problem = arena_copy(arena, message, strlen(message));
}

static void name_lag(const struct bus_consumer_spec *spec, struct arena *arena, struct lag *out)
{
    static const struct {
        const char *stream;
        const char *stage;
        const char *suffix; /* behind the account's name; NULL: no account */
    } NAMES[] = {
        { "PAY_INTAKE", "intake", NULL },         { "PAY_ROUTE", "route", NULL },
        { "PAY_SETTLE", "settle", NULL },         { "PAY_CREATE", "create", "_new" },
        { "PAY_CREATE", "follow-up", "_follow" }, { "PAY_RECOVER", "recover", "" },
    };
    const size_t length = strlen(spec->durable);
    out->stage = spec->durable;
    for (size_t i = 0; i < COUNT_OF(NAMES); i++) {
        if (strcmp(NAMES[i].stream, spec->stream) != 0) continue;
        const size_t suffix = NAMES[i].suffix == NULL ? 0 : strlen(NAMES[i].suffix);
        if (suffix > 0 &&
            (length < suffix || strcmp(spec->durable + length - suffix, NAMES[i].suffix) != 0)) {
            continue;
        }
        out->stage = NAMES[i].stage;
        if (NAMES[i].suffix != NULL)
            out->account = arena_copy(arena, spec->durable, length - suffix);
        return;
    }
}

static void look_at_bus(struct watch *watch, struct arena *arena, struct look *look)
{
    struct bus_topology topology;
    config_topology(&watch->cli->config, arena, &topology);
    look->lags = arena_allocate(arena, (topology.consumer_count + 1) * sizeof *look->lags);
    if (!bus_is_connected(watch->bus)) {
        look->bus_problem = "no connection";
        return;
    }
    for (size_t i = 0; i < topology.consumer_count; i++) {
        const struct bus_consumer_spec *spec = &topology.consumers[i];
        struct lag *lag = &look->lags[look->lag_count];
        const enum status status =
            bus_consumer_info(watch->bus, spec->stream, spec->durable, arena, &lag->info);
        if (status == STATUS_OK) {
            name_lag(spec, arena, lag);
            look->lag_count++;
            continue;
        }
        look->bus_problem = arena_format(arena, "%s/%s: %s", spec->stream, spec->durable,
                                         status == STATUS_NOT_FOUND ? "missing" : "no answer");
        if (status != STATUS_NOT_FOUND) return;
    }
}

/* Text ----------------------------------------------------------------------------------------- */

static void print_lags(const struct look *look, struct arena *arena)
{
    static const char *const HEADINGS[] = { "stage", "account", "waiting", "in hand",
                                            "redelivered" };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < look->lag_count; i++) {
        const struct lag *lag = &look->lags[i];
        const char *cells[] = { lag->stage, lag->account,
                                arena_format(arena, "%" PRIu64, lag->info.pending),
                                arena_format(arena, "%" PRIu64, lag->info.ack_pending),
                                arena_format(arena, "%" PRIu64, lag->info.redelivered) };
        cli_table_add(&table, cells);
    }
    cli_table_print(&table, 0, stdout);
    if (look->bus_problem != NULL) printf("NATS: %s\n", look->bus_problem);
}

static void print_recent(const struct look *look)
{
    printf("newest payments   ");
    for (size_t i = 0; i < look->totals.recent_count; i++) {
        printf(" %s %" PRId64, cli_or_dash(payment_state_name((int)look->totals.recent[i].status)),
               look->totals.recent[i].count);
    }
    printf("%s\n", look->totals.recent_count == 0 ? " none" : "");
}

static void print_unknown(const struct look *look, struct arena *arena)
{
    bool is_first = true;
    for (size_t i = 0; i < look->gauges.recovery_count; i++) {
        const struct gauge_recovery *row = &look->gauges.recovery[i];
        struct money money = { row->unknown_amount_minor, { "" } };
        if (row->unknown == 0) continue;
        (void)currency_parse(row->currency, &money.currency);
        printf("%s %" PRId64 " at %s (%s), %s, oldest %s\n",
               is_first ? "UNKNOWN           " : "                  ", row->unknown, row->account,
               row->method, cli_money(arena, money), cli_age(arena, row->unknown_oldest_us));
        is_first = false;
    }
    if (is_first) printf("UNKNOWN            none\n");
}

static void print_work(const struct look *look, struct arena *arena)
{
    const struct query_totals *totals = &look->totals;
    printf("recovery           %" PRId64 " tasks open, %" PRId64 " due; %" PRId64
           " webhooks not matched\n",
           totals->tasks_open, totals->tasks_due, totals->webhooks_waiting);
    printf("outbox             %" PRId64 " events behind the relay's mark%s%s\n",
           totals->events_behind, totals->events_behind == 0 ? "" : ", oldest ",
           totals->events_behind == 0 ? "" : cli_age(arena, totals->events_oldest_us));
    printf("cases open        ");
    for (size_t i = 0; i < totals->case_count; i++) {
        printf("%s %" PRId64 " %s (oldest %s)", i == 0 ? "" : ",", totals->cases[i].count,
               cli_or_dash(case_kind_name((int)totals->cases[i].kind)),
               cli_age(arena, totals->cases[i].oldest_us));
    }
    printf("%s\n", totals->case_count == 0 ? " none" : "");
    printf("stuck             ");
    bool is_stuck = false;
    for (size_t i = 0; i < look->gauges.stuck_count; i++) {
        if (look->gauges.stuck[i].count == 0) continue;
        printf("%s %" PRId64 " %s", is_stuck ? "," : "", look->gauges.stuck[i].count,
               look->gauges.stuck[i].state);
        is_stuck = true;
    }
    printf("%s\n", is_stuck ? "" : " none");
    printf("dead letters       %" PRId64 " of the last day, not replayed\n", totals->dead_letters);
}

static int64_t per_second(const struct look *look)
{
    if (look->interval_us <= 0) return 0;
    const int64_t count = (int64_t)(look->finals - look->finals_before);
    return (count * CLOCK_SECOND_US + look->interval_us / 2) / look->interval_us;
}

static void print_finals(const struct watch *watch, const struct look *look)
{
    printf("final events       %" PRId64 "/s, %" PRIu64 " since the start\n", per_second(look),
           look->finals);
    if (watch->until == 0) return;
    const int64_t done =
        (int64_t)look->finals < watch->until ? (int64_t)look->finals : watch->until;
    const int filled = (int)(done * BAR_WIDTH / watch->until);
    printf("progress           [");
    for (int i = 0; i < BAR_WIDTH; i++) putchar(i < filled ? '#' : '.');
    printf("] %" PRId64 " of %" PRId64 "\n", done, watch->until);
}

static void print_text(const struct watch *watch, const struct look *look, struct arena *arena)
{
    if (watch->is_screen) printf("\033[H\033[J");
    printf("%s\n", cli_time(arena, look->at_us));
    print_lags(look, arena);
    if (look->store_problem != NULL) {
        printf("%s\n", look->store_problem);
    } else {
        print_recent(look);
        print_unknown(look, arena);
        print_work(look, arena);
    }
    print_finals(watch, look);
    if (!watch->is_screen && !watch->once) putchar('\n');
}

/* Documents ------------------------------------------------------------------------------------ */

static struct value lags_value(const struct look *look, struct arena *arena)
{
    struct value list = cli_list_make(arena, look->lag_count);
    for (size_t i = 0; i < look->lag_count; i++) {
        struct value map = value_map_make(arena, 5);
        value_map_add(&map, "stage", value_of_text(look->lags[i].stage));
        value_map_add(&map, "account", value_of_text(look->lags[i].account));
        value_map_add(&map, "waiting", value_of_integer((int64_t)look->lags[i].info.pending));
        value_map_add(&map, "in_hand", value_of_integer((int64_t)look->lags[i].info.ack_pending));
        value_map_add(&map, "redelivered",
                      value_of_integer((int64_t)look->lags[i].info.redelivered));
        cli_list_add(&list, map);
    }
    return list;
}

static void add_store(struct value *map, const struct look *look, struct arena *arena)
{
    const struct query_totals *totals = &look->totals;
    struct value recent = value_map_make(arena, totals->recent_count);
    struct value unknown = cli_list_make(arena, look->gauges.recovery_count);
    struct value cases = cli_list_make(arena, totals->case_count);
    struct value stuck = cli_list_make(arena, look->gauges.stuck_count);
    for (size_t i = 0; i < totals->recent_count; i++) {
        value_map_add(&recent, cli_or_dash(payment_state_name((int)totals->recent[i].status)),
                      value_of_integer(totals->recent[i].count));
    }
    for (size_t i = 0; i < look->gauges.recovery_count; i++) {
        const struct gauge_recovery *row = &look->gauges.recovery[i];
        struct value item = value_map_make(arena, 6);
        value_map_add(&item, "account", value_of_text(row->account));
        value_map_add(&item, "method", value_of_text(row->method));
        value_map_add(&item, "currency", value_of_text(row->currency));
        value_map_add(&item, "count", value_of_integer(row->unknown));
        value_map_add(&item, "amount", value_of_integer(row->unknown_amount_minor));
        value_map_add(&item, "oldest_ms", value_of_integer(row->unknown_oldest_us / 1000));
        if (row->unknown > 0) cli_list_add(&unknown, item);
    }
    for (size_t i = 0; i < totals->case_count; i++) {
        struct value item = value_map_make(arena, 3);
        value_map_add(&item, "kind", value_of_text(case_kind_name((int)totals->cases[i].kind)));
        value_map_add(&item, "count", value_of_integer(totals->cases[i].count));
        value_map_add(&item, "oldest_ms", value_of_integer(totals->cases[i].oldest_us / 1000));
        cli_list_add(&cases, item);
    }
    for (size_t i = 0; i < look->gauges.stuck_count; i++) {
        struct value item = value_map_make(arena, 2);
        value_map_add(&item, "state", value_of_text(look->gauges.stuck[i].state));
        value_map_add(&item, "count", value_of_integer(look->gauges.stuck[i].count));
        if (look->gauges.stuck[i].count > 0) cli_list_add(&stuck, item);
    }
    value_map_add(map, "newest_payments", recent);
    value_map_add(map, "unknown", unknown);
    value_map_add(map, "tasks_open", value_of_integer(totals->tasks_open));
    value_map_add(map, "tasks_due", value_of_integer(totals->tasks_due));
    value_map_add(map, "webhooks_waiting", value_of_integer(totals->webhooks_waiting));
    value_map_add(map, "events_behind", value_of_integer(totals->events_behind));
    value_map_add(map, "events_oldest_ms", value_of_integer(totals->events_oldest_us / 1000));
    value_map_add(map, "cases", cases);
    value_map_add(map, "stuck", stuck);
    value_map_add(map, "dead_letters", value_of_integer(totals->dead_letters));
}

static void print_json(const struct watch *watch, const struct look *look, struct arena *arena)
{
    struct value map = value_map_make(arena, 20);
    value_map_add(&map, "at", cli_value_time(arena, look->at_us));
    value_map_add(&map, "nats_problem", value_of_text(look->bus_problem));
    value_map_add(&map, "postgres_problem", value_of_text(look->store_problem));
    value_map_add(&map, "stages", lags_value(look, arena));
    if (look->store_problem == NULL) add_store(&map, look, arena);
    value_map_add(&map, "finals", value_of_integer((int64_t)look->finals));
    value_map_add(&map, "finals_per_s", value_of_integer(per_second(look)));
    value_map_add(&map, "until",
                  watch->until == 0 ? value_of_text(NULL) : value_of_integer(watch->until));
    const struct span text = value_write_json(&map, arena);
    printf("%.*s\n", (int)text.length, (const char *)text.data);
}

/* The loop ------------------------------------------------------------------------------------- */

static bool has_reached(const struct watch *watch)
{
    return watch->until > 0 && watch->finals.count >= (uint64_t)watch->until;
}

/* Listens until the interval is over, or nothing more is wanted. Returns how long it took. */
static int64_t listen_for(struct watch *watch, int64_t interval_us)
{
    const int64_t began_us = clock_monotonic_us();
    int64_t now_us = began_us;
    while (!is_over && now_us - began_us < interval_us && !has_reached(watch)) {
        bus_wait(watch->bus, (interval_us - (now_us - began_us)) / 1000 + 1);
        cli_finals_take(&watch->finals);
        now_us = clock_monotonic_us();
    }
    return now_us - began_us;
}

/* STATUS_RETRY: a server is away. */
static enum status look_once(struct watch *watch, uint64_t finals_before, int64_t interval_us)
{
    struct arena arena = { NULL };
    struct look look = {
        .at_us = clock_real_us(),
        .finals = watch->finals.count,
        .finals_before = finals_before,
        .interval_us = interval_us,
    };
    look_at_bus(watch, &arena, &look);
    look_at_store(watch, &arena, &look);
    if (watch->cli->as_json) {
        print_json(watch, &look, &arena);
    } else {
        print_text(watch, &look, &arena);
    }
    (void)fflush(stdout);
    const bool is_away = look.bus_problem != NULL || look.store_problem != NULL;
    arena_finish(&arena);
    return is_away ? STATUS_RETRY : STATUS_OK;
}

static int loop(struct watch *watch)
{
    const int64_t interval_us = watch->interval_s * CLOCK_SECOND_US;
    while (!is_over) {
        const uint64_t finals_before = watch->finals.count;
        const int64_t took_us = listen_for(watch, interval_us);
        const enum status status = look_once(watch, finals_before, took_us);
        if (watch->once) {
            return status == STATUS_OK
                       ? CLI_OK
                       : cli_fail(watch->cli, CLI_INFRASTRUCTURE, "a server is away, see above");
        }
        if (has_reached(watch) || ferror(stdout) != 0) break;
    }
    return CLI_OK;
}

static int run(struct cli *cli)
{
    struct watch watch = { .cli = cli, .interval_s = 1 };
    size_t word_count = 0;
    int exit_code = CLI_OK;
    const struct cli_option options[] = {
        { "--once", CLI_OPTION_FLAG, &watch.once },
        { "--interval", CLI_OPTION_NUMBER, &watch.interval_s },
        { "--until", CLI_OPTION_NUMBER, &watch.until },
    };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), NULL, 0, &word_count))
        return CLI_USAGE;
    if (watch.interval_s < 1 || watch.interval_s > INTERVAL_S_MAX)
        return cli_fail(cli, CLI_USAGE, "--interval: 1 to %d seconds", (int)INTERVAL_S_MAX);
    watch.store = cli_store(cli);
    if (watch.store == NULL) return CLI_USAGE;
    watch.bus = cli_bus(cli, &exit_code);
    if (watch.bus == NULL) return exit_code;
    if (cli_finals_open(&watch.finals, watch.bus, watch.until > 0) != STATUS_OK)
        return cli_fail(cli, CLI_INFRASTRUCTURE, "NATS refuses the subscription to events");
    struct sigaction action = { 0 };
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    watch.is_screen = !cli->as_json && !watch.once && isatty(STDOUT_FILENO) == 1;
    if (watch.is_screen) printf("\033[?25l"); /* no cursor */
    exit_code = loop(&watch);
    if (watch.is_screen) printf("\033[?25h");
    cli_finals_close(&watch.finals);
    return exit_code;
}

const struct cli_command CLI_COMMAND_WATCH = {
    .name = "watch",
    .run = run,
    .usage = "watch [--once] [--interval S] [--until N]",
    .summary = "how the pipeline runs, live",
    .help =
        "Per stage what waits and what is in hand (JetStream), the newest payments by state (at "
        "most\n"
        "2000 of the last five minutes), UNKNOWN by account, recovery, the outbox, cases, stuck "
        "work,\n"
        "dead letters, and final events as they are published. No table is scanned.\n"
        "\n"
        "  --once         one interval, one look; exit 3 if a server is away\n"
        "  --interval S   between looks (1)\n"
        "  --until N      leave when N payments have ended since the start; shows a bar\n"
        "\n"
        "--json, one line per look: at, nats_problem, postgres_problem, stages {stage, account,\n"
        "waiting, in_hand, redelivered}, newest_payments {state: count}, unknown {account, "
        "method,\n"
        "currency, count, amount, oldest_ms}, tasks_open, tasks_due, webhooks_waiting,\n"
        "events_behind, events_oldest_ms, cases {kind, count, oldest_ms}, stuck {state, count},\n"
        "dead_letters, finals, finals_per_s, until\n",
};
