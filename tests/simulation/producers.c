/* tests/simulation/producers.c: see producers.h. */
#include "tests/simulation/producers.h"

#include "tests/simulation/check.h"
#include "tests/simulation/parts.h"

enum { REPEATS_MAX = 100, REPLY_SUBJECT = 63, TARGETS = 3 };

struct producers *producers_create(void)
{
    return memory_allocate(sizeof(struct producers));
}

void producers_destroy(struct producers *producers)
{
    free(producers);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void send(struct world *world, struct producer_request *request, int64_t first_stored_us)
{
    struct bus_header *headers = world_allocate(world, 3 * sizeof *headers);
    size_t count = 0;
    headers[count++] = (struct bus_header){ "content-type", "application/msgpack" };
    headers[count++] = (struct bus_header){ "pay-reply-to", arena_format(&world->arena, "_INBOX.%u",
                                                                         request->number) };
    if (request->key != NULL)
        headers[count++] = (struct bus_header){ "idempotency-key", request->key };
    stream_publish_request(world, "pay.intake.m-1.pay", request->body, headers, count,
                           first_stored_us);
    request->sends++;
}

/* A while; or a little more than a key's life; or just as long as its key lives. */
static int64_t draw_pause(struct world *world, const struct producer_request *request)
{
    const int64_t rest_us = request->key_expires_us - world->now_us;
    switch (choice_below(&world->choices, CHOICE_REQUEST, request->number, 4)) {
    case 0:
        return INT64_C(25) * 3600 * CLOCK_SECOND_US;
    case 1:
        if (rest_us < CLOCK_SECOND_US) return CLOCK_SECOND_US;
        return rest_us - 2 * CLOCK_MILLISECOND_US -
               choice_delay_us(&world->choices, CHOICE_TAKE, request->number);
    default:
        return 60 * CLOCK_SECOND_US;
    }
}

/* Repeats itself until it hears; sometimes also after that, a while or a day later. */
static void insist(struct world *world, void *what)
{
    struct producer_request *request = what;
    const unsigned number = request->number;
    if (request->has_answer && request->sends > 1) {
        if (choice_below(&world->choices, CHOICE_REQUEST, number, 4) != 0) return;
        const int64_t pause_us = draw_pause(world, request);
        send(world, request, 0);
        if (!world->choices.is_healed) world_after(world, pause_us, insist, request);
        return;
    }
    if (request->sends >= REPEATS_MAX) return;
    world_say(world, "producer sends request %u: %s for %s, %" PRId64 " %s", number,
              request->request.out_trade_no,
              request->request.target_id == NULL ? "nothing" : request->request.target_id,
              request->request.amount.minor, request->request.amount.currency.code);
    send(world, request, 0);
    const int64_t pause_us = choice_delay_us(&world->choices, CHOICE_PATIENCE, number);
    world_after(world, pause_us * request->sends, insist, request);
}

/* --- making ----------------------------------------------------------------------------------- */

static struct producer_request *add(struct world *world, const struct pay_request *content,
                                    const char *key)
{
    struct producers *producers = world->producers;
    if (producers->count == PRODUCER_REQUESTS_MAX) return NULL;
    struct producer_request *request = &producers->requests[producers->count];
    *request = (struct producer_request){ .number = (unsigned)producers->count,
                                          .request = *content,
                                          .key = key };
    request->body = pay_request_encode(content, CONTENT_MSGPACK, &world->arena);
    producers->count++;
    return request;
}

static void start(struct world *world, struct producer_request *request, int64_t delay_us)
{
    if (request == NULL) return;
    if (((world->choices.plan.requests_off >> request->number) & 1) != 0) return;
    world_after(world, delay_us, insist, request);
    if (choice_strikes(&world->choices, CHOICE_LETTER_REPLAYED, request->number)) {
        struct bus_header *headers = world_allocate(world, 2 * sizeof *headers);
        headers[0] = (struct bus_header){ "content-type", "application/msgpack" };
        if (request->key != NULL)
            headers[1] = (struct bus_header){ "idempotency-key", request->key };
        stream_publish_request(world, "pay.intake.m-1.pay", request->body, headers,
                               request->key != NULL ? 2 : 1, world->now_us - CLOCK_SECOND_US);
    }
}

static struct money draw_money(struct world *world, unsigned number)
{
    struct money money = { .minor = 100 + (int64_t)number };
    const unsigned kind = choice_below(&world->choices, CHOICE_REQUEST, number, 16);
    INVARIANT(currency_parse(kind == 15 ? "JPY" : kind == 14 ? "USD" : "EUR", &money.currency));
    return money;
}

static struct pay_request draw_request(struct world *world, unsigned number)
{
    struct choices *choices = &world->choices;
    const unsigned target = choice_below(choices, CHOICE_REQUEST, number, TARGETS + 1);
    const bool has_target = target < TARGETS;
    struct pay_request request = {
        .merchant = "m-1",
        .out_trade_no = arena_format(&world->arena, "T-%u", number),
        .target_kind = has_target ? "order" : "none",
        .target_id = has_target ? arena_format(&world->arena, "O-%u", target) : NULL,
        .amount = draw_money(world, number),
        .method_type = "card",
        .method_token = "tok_1",
        .method_token_realm = "stripe",
        .capture = REQUEST_CAPTURE_AUTOMATIC,
    };
    if (choice_below(choices, CHOICE_REQUEST, number, 8) == 7)
        request.expires_at_us = world->now_us + 90 * CLOCK_SECOND_US;
    return request;
}

/* What else may be asked about the same thing. */
enum relation {
    RELATION_NONE,
    RELATION_CONFLICT, /* the same key with other content */
    RELATION_RENAMED,  /* another key, all else the same */
    RELATION_TAKEN,    /* another key, the same number, other content */
    RELATION_RIVAL,    /* another number, the same target */
    RELATION_TWIN,     /* the very same, from a second sender */
    RELATION_COUNT
};

static void add_relative(struct world *world, const struct producer_request *of)
{
    struct pay_request content = of->request;
    const char *key = of->key;
    const unsigned number = (unsigned)world->producers->count;
    const enum relation relation =
        (enum relation)choice_below(&world->choices, CHOICE_REQUEST, of->number, RELATION_COUNT);
    switch (relation) {
    case RELATION_NONE:
    case RELATION_COUNT:
        return;
    case RELATION_CONFLICT:
        content.amount.minor = 99;
        key = of->key != NULL ? of->key : of->request.out_trade_no;
        content.out_trade_no = arena_format(&world->arena, "T-%u", number);
        break;
    case RELATION_RENAMED:
        key = arena_format(&world->arena, "key-%u", number);
        break;
    case RELATION_TAKEN:
        key = arena_format(&world->arena, "key-%u", number);
        content.amount.minor = 98;
        break;
    case RELATION_RIVAL:
        content.out_trade_no = arena_format(&world->arena, "T-%u", number);
        break;
    case RELATION_TWIN:
        break;
    }
    start(world, add(world, &content, key),
          choice_delay_us(&world->choices, CHOICE_SPREAD, number));
}

void producers_begin(struct world *world)
{
    enum { BASE_MAX = 6 };
    struct producers *producers = world->producers;
    producers->count = 0;
    const unsigned base = 1 + choice_below(&world->choices, CHOICE_WORLD, 5, BASE_MAX);
    for (unsigned i = 0; i < base; i++) {
        const struct pay_request content = draw_request(world, (unsigned)producers->count);
        struct producer_request *request = add(world, &content, NULL);
        start(world, request, choice_delay_us(&world->choices, CHOICE_SPREAD, i));
        add_relative(world, request);
    }
}

/* --- hearing ---------------------------------------------------------------------------------- */

static void check_same(struct world *world, const struct producer_request *request,
                       const struct intake_answer *answer)
{
    if (!request->has_answer) return;
    const bool is_same =
        answer->status == request->answer.status && span_equal(answer->body, request->answer.body);
    if (!is_same && world->now_us < request->key_expires_us) {
        world_fail(world, "I22", "request %u was answered %d, and now %d", request->number,
                   request->answer.status, answer->status);
    }
}

void producers_hear(struct world *world, const char *reply_to, const struct intake_answer *answer,
                    int64_t key_expires_us)
{
    const unsigned long number = strtoul(reply_to + strlen("_INBOX."), NULL, 10);
    INVARIANT(number < world->producers->count);
    struct producer_request *request = &world->producers->requests[number];
    check_same(world, request, answer);
    if (choice_strikes(&world->choices, CHOICE_PUBLISH_LOST, REPLY_SUBJECT)) return;
    world_say(world, "  request %lu hears %d", number, answer->status);
    if (request->has_answer) return;
    request->has_answer = true;
    request->answer = *answer;
    request->key_expires_us = key_expires_us;
}

/* --- paying again ----------------------------------------------------------------------------- */

void producers_see(struct world *world, size_t outbox)
{
    const struct database *database = world->database;
    const struct outbox_row *event = &database->outbox[outbox];
    if (event->type != EVENT_PAYMENT_FAILED || world->choices.is_healed) return;
    const struct payment_row *payment = &database->payments[event->payment];
    for (size_t i = 0; i < world->producers->count; i++) {
        struct producer_request *request = &world->producers->requests[i];
        const bool is_it = strcmp(request->request.out_trade_no, payment->out_trade_no) == 0;
        if (!is_it || request->is_paid_again || payment->target_id == NULL) continue;
        request->is_paid_again = true;
        struct pay_request content = request->request;
        content.out_trade_no = arena_format(&world->arena, "T-%zu", world->producers->count);
        content.expires_at_us = 0;
        /* Who is told to wait tries all the same, later. */
        const int64_t delay_us =
            event->safe_to_pay_again
                ? choice_delay_us(&world->choices, CHOICE_SPREAD, (unsigned)i)
                : choice_delay_us(&world->choices, CHOICE_CUSTOMER, (unsigned)i);
        start(world, add(world, &content, NULL), delay_us);
        return;
    }
}
