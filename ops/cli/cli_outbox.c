/*
 * ops/cli/cli_outbox.c: `oncepay outbox republish`: events of the outbox, into the stream again.
 * Each has its first id in ce-id, by which consumers know it, and a new message id, so that
 * the stream's duplicate window does not swallow it. Commands need no such thing: the relay writes
 * those that moved nothing again by itself.
 */
#include "ops/cli/cli.h"

#include <poll.h>

#include "ops/cli/cli_text.h"
#include "pipeline/clock.h"
#include "stages/relay/relay_publisher.h"
#include "stages/relay/relay_reader.h"
#include "store/relay_store.h"

#define SILENCE_US_MAX (30 * CLOCK_SECOND_US)

enum { PAGE = 500, IN_FLIGHT_MAX = 256 };

struct republish {
    struct cli *cli;
    struct store *store;
    struct relay_queue *queue;
    struct relay_publisher publisher;
    int64_t per_s;
    uint64_t added;
    int64_t started_us;
};

static void add_rows(struct republish *self, const struct relay_row *rows, size_t count)
{
    relay_queue_pass(self->queue, RELAY_LANE_OLD, 1);
    for (size_t i = 0; i < count; i++) {
        const struct relay_event event = {
            .id = rows[i].id,
            .payment = rows[i].payment,
            .version = rows[i].version,
            .created_us = rows[i].created_us,
            .subject = rows[i].subject,
            .headers = rows[i].headers,
            .body = rows[i].body,
        };
        relay_queue_add(self->queue, RELAY_LANE_OLD, &event);
    }
    self->added += count;
}

/* Publishes what is in the queue; gives up when nothing was confirmed for a while. */
static bool drain(struct republish *self)
{
    static const char NO_COMMANDS[] = "";
    struct relay_publisher *publisher = &self->publisher;
    int64_t now_us = clock_monotonic_us();
    int64_t progress_us = now_us;
    uint64_t confirmed = publisher->confirmed;
    while (relay_queue_count(self->queue) > 0 && now_us - progress_us < SILENCE_US_MAX) {
        relay_publisher_send(publisher, now_us);
        bus_wait(publisher->bus, 100);
        now_us = clock_monotonic_us();
        relay_publisher_results(publisher, NO_COMMANDS, now_us);
        /* A stream that is not there is the relay's to make; ours is to wait for it. */
        publisher->is_stream_missing = false;
        if (publisher->confirmed != confirmed) progress_us = now_us;
        confirmed = publisher->confirmed;
    }
    return relay_queue_count(self->queue) == 0;
}

/* Not faster than the relay may do it: new events go on meanwhile. */
static void hold_rate(const struct republish *self)
{
    const int64_t due_us = self->started_us + (int64_t)self->added * CLOCK_SECOND_US / self->per_s;
    const int64_t wait_ms = (due_us - clock_monotonic_us()) / 1000;
    if (wait_ms > 0) (void)poll(NULL, 0, (int)wait_ms);
}

static enum status read_page(struct republish *self, struct relay_reader *reader, int64_t floor_us,
                             struct arena *arena)
{
    struct relay_page page;
    const struct relay_page_query query = {
        .base = reader->base,
        .target = reader->target,
        .after_xid = reader->after_xid,
        .after_id = reader->after_id,
        .limit = PAGE,
        .floor_us = floor_us,
    };
    TRY(relay_store_events(self->store, &query, arena, &page));
    const bool is_full = page.count == PAGE;
    const struct relay_row *last = is_full ? &page.rows[page.count - 1] : NULL;
    const struct relay_reader_page passed = {
        .snapshot = page.snapshot,
        .xmin = page.xmin,
        .is_full = is_full,
        .last_xid = is_full ? last->xid : 0,
        .last_id = is_full ? last->id.uuid : (struct uuid){ { 0 } },
    };
    (void)relay_reader_step(reader, &passed);
    add_rows(self, page.rows, page.count);
    return STATUS_OK;
}

/* What was written from a moment on, up to the snapshot of the first page. */
static enum status republish_since(struct republish *self, int64_t since_us, bool *out_is_through)
{
    struct relay_reader reader = { 0 };
    int64_t from_xid = 0;
    *out_is_through = true;
    const enum status found = relay_store_republish_since(self->store, since_us, &from_xid);
    if (found != STATUS_OK) return found == STATUS_NOT_FOUND ? STATUS_OK : found;
    relay_reader_start(&reader, from_xid);
    enum status status = STATUS_OK;
    do {
        struct arena arena = { NULL };
        status = read_page(self, &reader, since_us, &arena);
        if (status == STATUS_OK) *out_is_through = drain(self);
        arena_finish(&arena);
        hold_rate(self);
    } while (status == STATUS_OK && *out_is_through && relay_reader_is_paging(&reader));
    relay_reader_finish(&reader);
    return status;
}

static enum status republish_payment(struct republish *self, struct payment_id payment,
                                     bool *out_is_through)
{
    const struct relay_row *rows = NULL;
    size_t count = 0;
    TRY(relay_store_events_payment(self->store, payment, &self->cli->arena, &rows, &count));
    add_rows(self, rows, count);
    *out_is_through = drain(self);
    return count > 0 ? STATUS_OK : STATUS_NOT_FOUND;
}

/* RFC 3339, or an age: "90s", "15m", "2h", "7d". */
static bool parse_since(const char *text, int64_t *out_real_us)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } UNITS[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
    enum { AMOUNT_MAX = 100000 };
    char *end = NULL;
    if (clock_parse(text, out_real_us)) return true;
    const long amount = strtol(text, &end, 10);
    if (end == text || amount < 0 || amount > AMOUNT_MAX) return false;
    for (size_t i = 0; i < COUNT_OF(UNITS); i++) {
        if (strcmp(end, UNITS[i].unit) != 0) continue;
        *out_real_us = clock_real_us() - amount * UNITS[i].seconds * CLOCK_SECOND_US;
        return true;
    }
    return false;
}

static int conclude(struct cli *cli, const struct republish *self, bool is_through)
{
    const uint64_t confirmed = self->publisher.confirmed;
    if (cli->as_json) {
        struct value map = value_map_make(&cli->arena, 2);
        value_map_add(&map, "published", value_of_integer((int64_t)confirmed));
        value_map_add(&map, "complete", value_of_boolean(is_through));
        cli_print_json(cli, &map);
    } else {
        printf("%" PRIu64 " events published again\n", confirmed);
    }
    if (is_through) return CLI_OK;
    return cli_fail(cli, CLI_INFRASTRUCTURE, "NATS takes no more: %s; done again it begins anew",
                    self->publisher.problem[0] == '\0' ? "no answer" : self->publisher.problem);
}

static int republish(struct cli *cli, const char *payment_text, const char *since_text)
{
    struct payment_id payment;
    int64_t since_us = 0;
    int exit_code = CLI_OK;
    bool is_through = false;
    if (payment_text != NULL && !uuid_parse(payment_text, &payment.uuid))
        return cli_fail(cli, CLI_USAGE, "%s is no payment's id", payment_text);
    if (since_text != NULL && !parse_since(since_text, &since_us))
        return cli_fail(cli, CLI_USAGE,
                        "--since: a time as 2026-11-30T10:15:00Z, or an age as 15m");
    struct store *store = cli_store(cli);
    if (store == NULL) return CLI_USAGE;
    struct bus *bus = cli_bus(cli, &exit_code);
    if (bus == NULL) return exit_code;
    struct republish self = {
        .cli = cli,
        .store = store,
        .queue = relay_queue_create(),
        .per_s = cli->config.relay.republish_per_s_max,
        .started_us = clock_monotonic_us(),
    };
    relay_publisher_init(&self.publisher, bus, self.queue, IN_FLIGHT_MAX);
    self.publisher.run = clock_real_us() / CLOCK_SECOND_US; /* no earlier run had this number */
    const enum status status = payment_text != NULL ? republish_payment(&self, payment, &is_through)
                                                    : republish_since(&self, since_us, &is_through);
    if (status == STATUS_OK) {
        exit_code = conclude(cli, &self, is_through);
    } else if (status == STATUS_NOT_FOUND) {
        exit_code = cli_fail(cli, CLI_REFUSED, "no event of payment %s", payment_text);
    } else {
        exit_code = cli_fail_store(cli, store, status);
    }
    (void)!bus_publish_flush(bus, BUS_PUBLISH_WAIT_MS); /* results point into the queue */
    relay_queue_destroy(self.queue);
    return exit_code;
}

static int run(struct cli *cli)
{
    const char *payment = NULL;
    const char *since = NULL;
    const char *words[1] = { NULL };
    size_t word_count = 0;
    const struct cli_option options[] = {
        { "--payment", CLI_OPTION_TEXT, &payment },
        { "--since", CLI_OPTION_TEXT, &since },
    };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), words, 1, &word_count))
        return CLI_USAGE;
    if (word_count != 1 || strcmp(words[0], "republish") != 0 ||
        (payment == NULL) == (since == NULL))
        return cli_fail(cli, CLI_USAGE, "republish, with either --payment or --since");
    return republish(cli, payment, since);
}

const struct cli_command CLI_COMMAND_OUTBOX = {
    .name = "outbox",
    .run = run,
    .usage = "outbox republish --payment PAYMENT\n"
             "outbox republish --since TIME|AGE",
    .summary = "publish events of the outbox once more",
    .help =
        "Publishes events into PAY_EVENT again, those of one payment in the order of their "
        "versions,\n"
        "not faster than relay.republish_per_s_max. Consumers know a copy by its ce-id, which is "
        "the\n"
        "first one's. A stream that was deleted, restored or cut off needs no command: the relay\n"
        "notices. One that was purged by hand does: what is gone from it is not missed.\n"
        "\n"
        "  --payment PAYMENT   all events of one payment\n"
        "  --since TIME|AGE    all events written since: 2026-11-30T10:15:00Z, 90s, 15m, 2h, 7d\n"
        "\n"
        "--json, one document: published, complete\n",
};
