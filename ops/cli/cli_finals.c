/* ops/cli/cli_finals.c: see cli_finals.h. */
#include "ops/cli/cli_finals.h"

#include "pipeline/event.h"

enum { QUEUE_MAX = 65536, TAKE_MAX = 256, SEEN_SIZE_MIN = 1024 };

enum status cli_finals_open(struct cli_finals *finals, struct bus *bus, bool is_unique)
{
    *finals = (struct cli_finals){ .is_unique = is_unique };
    return bus_subscription_open(bus, "pay.event.*.payment.*", QUEUE_MAX, &finals->events);
}

void cli_finals_close(struct cli_finals *finals)
{
    if (finals->events != NULL) bus_subscription_close(finals->events);
    free(finals->seen);
    *finals = (struct cli_finals){ 0 };
}

/* Where the id stands in the table, or the free place where it belongs. */
static struct uuid *place_of(struct uuid *table, size_t size, struct uuid id)
{
    size_t at = uuid_fnv1a(id) & (size - 1);
    while (!uuid_is_nil(table[at]) && !uuid_equal(table[at], id)) at = (at + 1) & (size - 1);
    return &table[at];
}

static void grow(struct cli_finals *finals)
{
    const size_t size = finals->seen_size == 0 ? SEEN_SIZE_MIN : finals->seen_size * 2;
    struct uuid *table = memory_allocate(size * sizeof *table);
    for (size_t i = 0; i < finals->seen_size; i++) {
        if (!uuid_is_nil(finals->seen[i]))
            *place_of(table, size, finals->seen[i]) = finals->seen[i];
    }
    free(finals->seen);
    finals->seen = table;
    finals->seen_size = size;
}

/* False if it was seen before. */
static bool is_first(struct cli_finals *finals, struct uuid id)
{
    if (finals->seen_count * 2 >= finals->seen_size) grow(finals);
    struct uuid *place = place_of(finals->seen, finals->seen_size, id);
    if (!uuid_is_nil(*place)) return false;
    *place = id;
    finals->seen_count++;
    return true;
}

static bool is_end(const char *subject)
{
    static const enum event_type ENDS[] = { EVENT_PAYMENT_SUCCEEDED, EVENT_PAYMENT_FAILED,
                                            EVENT_PAYMENT_CANCELED };
    const size_t length = strlen(subject);
    for (size_t i = 0; i < COUNT_OF(ENDS); i++) {
        const char *name = event_type_name((int)ENDS[i]);
        const size_t name_length = strlen(name);
        if (length > name_length && subject[length - name_length - 1] == '.' &&
            strcmp(subject + length - name_length, name) == 0) {
            return true;
        }
    }
    return false;
}

void cli_finals_count(struct cli_finals *finals, const char *subject, const char *payment)
{
    struct uuid id;
    if (!is_end(subject)) return;
    if (finals->is_unique && uuid_parse(payment, &id) && !is_first(finals, id)) return;
    finals->count++;
}

void cli_finals_take(struct cli_finals *finals)
{
    struct bus_message messages[TAKE_MAX];
    for (size_t count; (count = bus_subscription_take(finals->events, TAKE_MAX, messages)) > 0;) {
        for (size_t i = 0; i < count; i++) {
            const char *payment = bus_message_header(&messages[i], "ce-subject");
            cli_finals_count(finals, messages[i].subject, payment == NULL ? "" : payment);
            bus_release(&messages[i]);
        }
    }
}
