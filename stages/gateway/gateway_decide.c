/* stages/gateway/gateway_decide.c: see gateway_decide.h. No clock, no I/O. */
#include "stages/gateway/gateway_decide.h"

static struct gateway_decision refuse(const char *why)
{
    const bool is_unreadable = why != NULL && strcmp(why, "body_malformed") == 0;
    return (struct gateway_decision){
        .verdict = GATEWAY_REFUSE,
        .problem = { is_unreadable ? PROBLEM_NOT_JSON : PROBLEM_NOT_AUTHENTIC, NULL, why },
    };
}

/* Sizes that no index of ours could take; PSPs' own are far below. */
static bool is_storable(const struct observation *observation)
{
    enum { LENGTH_MAX = 255 };
    const char *const texts[] = { observation->provider_event, observation->provider_status,
                                  observation->provider_object, observation->reference,
                                  observation->error_code };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (texts[i] != NULL && strlen(texts[i]) > LENGTH_MAX) return false;
    }
    return observation->provider_event != NULL && observation->provider_event[0] != '\0';
}

struct gateway_decision gateway_decide(const struct gateway_webhook *webhook, struct arena *arena)
{
    struct gateway_decision decision = { .verdict = GATEWAY_KEEP };
    const char *why = NULL;
    const enum status status = webhook->ops->verify_webhook(
        webhook->account, webhook->headers, webhook->header_count, webhook->body, webhook->now_s,
        arena, &decision.observation, &why);
    if (status != STATUS_OK) return refuse(why);
    if (decision.observation.kind == OBSERVED_NOTHING)
        decision.verdict = GATEWAY_IGNORE;
    else if (!is_storable(&decision.observation))
        return refuse("body_malformed");
    return decision;
}
