/* pipeline/answer.c: see answer.h. Every member is always there: absent things are null. */
#include "pipeline/answer.h"

#include "pipeline/clock.h"

static struct value value_of_id(struct payment_id payment, struct arena *arena)
{
    char text[UUID_TEXT_SIZE];
    return value_of_text(arena_format(arena, "%s", uuid_format(payment.uuid, text)));
}

static struct value value_of_time(int64_t time_us, struct arena *arena)
{
    char text[CLOCK_TEXT_SIZE];
    if (time_us == 0) return value_of_text(NULL);
    return value_of_text(arena_format(arena, "%s", clock_format(time_us, text)));
}

static struct value value_of_next_action(const char *json, struct arena *arena)
{
    struct value action = { .kind = VALUE_NULL };
    if (json == NULL) return action;
    INVARIANT(value_read_json(span_of_text(json), arena, &action, NULL) == STATUS_OK);
    INVARIANT(action.kind == VALUE_MAP);
    return action;
}

/*
 * Of a payment that was just accepted this is the answer that intake gives again as long as the key
 * lives (intake_render.c): a new member goes where such a payment has none.
 */
static struct value view_value(const struct payment_view *view, struct arena *arena)
{
    struct value map = value_map_make(arena, 15);
    value_map_add(&map, "payment", value_of_id(view->payment, arena));
    value_map_add(&map, "out_trade_no", value_of_text(view->out_trade_no));
    value_map_add(&map, "status", value_of_text(payment_status_word(view->status)));
    value_map_add(&map, "certainty", value_of_text(certainty_name(view->certainty)));
    value_map_add(&map, "amount", value_of_integer(view->amount.minor));
    value_map_add(&map, "currency", value_of_text(view->amount.currency.code));
    value_map_add(&map, "captured", value_of_integer(view->captured_minor));
    value_map_add(&map, "refunded", value_of_integer(view->refunded_minor));
    value_map_add(&map, "next_action", value_of_next_action(view->next_action, arena));
    value_map_add(&map, "reason", value_of_text(view->reason));
    value_map_add(&map, "safe_to_pay_again", value_of_boolean(view->safe_to_pay_again));
    if (view->safe_to_pay_again) {
        value_map_add(&map, "retry_with", value_of_text("new out_trade_no"));
    }
    value_map_add(&map, "hold", value_of_text(view->hold));
    value_map_add(&map, "next_check_at", value_of_time(view->next_check_at_us, arena));
    value_map_add(&map, "version", value_of_integer(view->version));
    return map;
}

struct answer answer_payment(int status, const struct payment_view *view, enum content_type content,
                             struct arena *arena)
{
    return (struct answer){ status, content, answer_event_body(view, content, arena) };
}

struct answer answer_problem(const struct problem *problem, const struct payment_view *existing,
                             enum content_type content, struct arena *arena)
{
    struct value map = problem_value(problem, 2, arena);
    if (existing != NULL) {
        value_map_add(&map, "payment", value_of_id(existing->payment, arena));
        value_map_add(&map, "existing", view_value(existing, arena));
    }
    return (struct answer){ problem_status(problem->code), content,
                            value_write(content, &map, arena) };
}

struct span answer_event_body(const struct payment_view *view, enum content_type content,
                              struct arena *arena)
{
    const struct value map = view_value(view, arena);
    return value_write(content, &map, arena);
}

struct span answer_rejected_body(const struct problem *problem, const char *out_trade_no,
                                 const char *operation, enum content_type content,
                                 struct arena *arena)
{
    struct value map = problem_value(problem, 2, arena);
    value_map_add(&map, "out_trade_no", value_of_text(out_trade_no));
    value_map_add(&map, "operation", value_of_text(operation));
    return value_write(content, &map, arena);
}
