/* stages/settle/settle_view.c: see settle_view.h. */
#include "stages/settle/settle_view.h"

/*
 * What the adapter's excerpt says the customer has to do: a map with a type in our words. An
 * excerpt without one leaves what is known.
 */
static const char *action_of_excerpt(const char *excerpt, struct arena *arena)
{
    struct value document;
    if (excerpt == NULL ||
        value_read_json(span_of_text(excerpt), arena, &document, NULL) != STATUS_OK)
        return NULL;
    const struct value *action = value_find(&document, "next_action");
    if (action == NULL || action->kind != VALUE_MAP ||
        value_text(value_find(action, "type")) == NULL) {
        return NULL;
    }
    return (const char *)value_write_json(action, arena).data;
}

const char *settle_next_action(const struct settle_facts *facts,
                               const struct settle_decision *decision, struct arena *arena)
{
    const bool is_waiting =
        decision->next_status == PAYMENT_AUTHORIZING || decision->next_status == PAYMENT_CANCELING;
    if (!is_waiting) return NULL;
    const char *action = action_of_excerpt(facts->attempt.last_excerpt, arena);
    return action != NULL ? action : facts->payment.next_action;
}

struct payment_event settle_event(const struct settle_facts *facts,
                                  const struct settle_decision *decision, const char *next_action,
                                  struct arena *arena)
{
    const struct settle_payment *payment = &facts->payment;
    const char *hold = decision->hold != NULL ? decision->hold : facts->around.pointer_hold;
    const struct payment_view view = {
        .payment = payment->id,
        .out_trade_no = payment->out_trade_no,
        .status = decision->next_status,
        .certainty = (int)decision->certainty,
        .amount = payment->amount,
        .captured_minor = decision->captured_minor,
        .refunded_minor = payment->refunded_minor,
        .next_action = next_action,
        .reason = decision->reason,
        .safe_to_pay_again = decision->is_safe_to_pay_again,
        .hold = hold,
        .next_check_at_us =
            attempt_state_is_terminal(facts->attempt.status) ? 0 : facts->attempt.next_check_us,
        .version = payment->version + 1,
    };
    return payment_event_make((enum event_type)decision->event, payment->merchant, &view,
                              payment->traceparent, arena);
}
