/*
 * tests/unit/cli_explain_scene.h: payments made by hand for the tests of explain: 10.99 EUR for
 * order/O-1, with at most one attempt, at stripe-main; and what is said about them.
 */
#ifndef ONCEPAY_TESTS_UNIT_CLI_EXPLAIN_SCENE_H
#define ONCEPAY_TESTS_UNIT_CLI_EXPLAIN_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/cli/explain.h"

#define SECOND INT64_C(1000000)
#define NOW (INT64_C(1796032800) * SECOND) /* 2026-11-30T10:00:00Z */

enum { ROWS_MAX = 8 };

struct scene {
    struct arena arena;
    struct query_picture picture;
    struct query_attempt attempt;
    struct query_request requests[ROWS_MAX];
    struct query_evidence evidence[ROWS_MAX];
    struct query_history history[ROWS_MAX];
    struct query_task task;
    struct query_case cases[ROWS_MAX];
    struct query_stray stray;
    struct query_decision decision;
    struct query_webhook webhook;
    struct query_stuck stuck;
    struct query_letter_of letter;
    struct relay_row event;
    struct psp_capability capability;
    struct recovery_rule rule;
    bool has_rule;
    struct config_timers timers;
    struct explain_answer answers[EXPLAIN_QUESTION_COUNT];
};

static struct uuid id_of(int number)
{
    struct uuid id = { { 1 } };
    id.bytes[15] = (uint8_t)number;
    return id;
}

static struct money euro(int64_t minor)
{
    struct money money = { minor, { "EUR" } };
    return money;
}

/* A payment in this state whose target's pointer names it, without attempts. */
static struct scene scene_of(enum payment_state status)
{
    struct scene scene = {
        .picture = {
            .now_us = NOW,
            .payment = {
                .view = { .payment = { id_of(1) },
                          .out_trade_no = "T-1",
                          .status = status,
                          .amount = euro(1099),
                          .version = 3 },
                .merchant = "m-1001",
                .target_kind = "order",
                .target_id = "O-1",
                .start_by_us = NOW + 900 * SECOND,
                .created_us = NOW - 60 * SECOND,
                .pointer_payment = { id_of(1) },
            },
        },
        .capability = { .has_idempotency_key = true,
                        .keeps_failures_under_key = true,
                        .has_retrieve = true,
                        .key_retention_s = 86400,
                        .key_margin_s = 3600 },
        .rule = { .strategies = { RECOVERY_RETRIEVE, RECOVERY_IDEMPOTENT_REPLAY },
                  .strategy_count = 2,
                  .delays_ms = { 1000, 2000 },
                  .delay_count = 2,
                  .unknown_age_max_s = 86400 },
        .has_rule = true,
        .timers = { .replay_until_s = 3600, .call_limit_ms = 30000, .pending_age_max_s = 86400 },
    };
    return scene;
}

static void add_attempt(struct scene *scene, enum attempt_state status, enum certainty certainty)
{
    scene->attempt = (struct query_attempt){
        .id = { id_of(2) },
        .operation = OPERATION_CREATE,
        .number = 1,
        .ordinal = 1,
        .account = "stripe-main",
        .amount = euro(1099),
        .provider_key = "op_key",
        .status = status,
        .certainty = certainty,
        .version = 3,
        .method_type = "card",
        .first_sent_us = status == ATTEMPT_CREATED ? 0 : NOW - 50 * SECOND,
    };
    scene->picture.attempt_count = 1;
}

static void add_request(struct scene *scene, enum request_kind kind, enum request_closure closure,
                        int64_t started_us, int64_t evidence_count)
{
    const size_t place = scene->picture.request_count++;
    scene->requests[place] = (struct query_request){
        .id = { id_of(10 + (int)place) },
        .attempt = { id_of(2) },
        .kind = kind,
        .send_by_us = started_us + 2 * SECOND,
        .worker = "create/host/1",
        .started_us = started_us,
        .evidence_count = evidence_count,
        .closure = closure,
    };
}

/* Of the newest request, unless it is a webhook. */
static struct query_evidence *add_evidence(struct scene *scene, enum evidence_source source,
                                           enum observation_kind kind, int proves)
{
    const size_t place = scene->picture.evidence_count++;
    scene->evidence[place] = (struct query_evidence){
        .id = { id_of(20 + (int)place) },
        .attempt = { id_of(2) },
        .source = source,
        .kind = kind,
        .phase = PHASE_PARSED,
        .provider_event = source == SOURCE_WEBHOOK ? "evt_1" : NULL,
        .has_amount = kind == OBSERVED_SUCCEEDED,
        .amount = euro(1099),
        .proves = proves,
        .created_us = NOW - 49 * SECOND + (int64_t)place,
    };
    if (source != SOURCE_WEBHOOK && source != SOURCE_LOCAL) {
        scene->evidence[place].request.uuid = id_of(9 + (int)scene->picture.request_count);
    }
    if (proves != 0) scene->attempt.evidence = scene->evidence[place].id;
    return &scene->evidence[place];
}

static void add_history(struct scene *scene, enum entity entity, int from, int to,
                        const char *event, const char *why)
{
    const size_t place = scene->picture.history_count++;
    scene->history[place] = (struct query_history){
        .entity = entity,
        .id = entity == ENTITY_PAYMENT ? id_of(1) : id_of(2),
        .version = (int32_t)place + 1,
        .from = from,
        .to = to,
        .event = event,
        .why = why,
        .actor = "settle/host/1",
        .at_us = NOW - 48 * SECOND + (int64_t)place,
    };
}

static void add_task(struct scene *scene, enum task_state status, int64_t due_us)
{
    scene->task = (struct query_task){
        .id = { id_of(30) },
        .attempt = { id_of(2) },
        .purpose = TASK_RESOLVE,
        .status = status,
        .due_us = due_us,
        .lease_owner = "recover/host/2",
        .policy_version = "1-abcd",
        .first_unknown_us = NOW - 40 * SECOND,
        .version = 5,
    };
    scene->picture.task_count = 1;
}

static void add_case(struct scene *scene, enum case_kind kind, const char *reason)
{
    scene->cases[scene->picture.case_count++] = (struct query_case){
        .id = { id_of(40) },
        .kind = kind,
        .attempt = { id_of(2) },
        .priority = case_kind_priority(kind),
        .reason = reason,
        .is_open = true,
        .opened_us = NOW - 10 * SECOND,
    };
}

static void ask(struct scene *scene)
{
    struct query_picture *picture = &scene->picture;
    const struct psp_capability *capabilities[] = { &scene->capability };
    const struct recovery_rule *rules[] = { scene->has_rule ? &scene->rule : NULL };
    picture->attempts = &scene->attempt;
    picture->requests = scene->requests;
    picture->evidence = scene->evidence;
    picture->history = scene->history;
    picture->tasks = &scene->task;
    picture->cases = scene->cases;
    picture->strays = &scene->stray;
    picture->decisions = &scene->decision;
    picture->webhooks = &scene->webhook;
    picture->stuck = &scene->stuck;
    picture->letters = &scene->letter;
    picture->events = &scene->event;
    const struct explain_input input = {
        .picture = picture,
        .capabilities = capabilities,
        .rules = rules,
        .timers = &scene->timers,
        .command_lag_ms = 20000,
    };
    explain(&input, &scene->arena, scene->answers);
}

static bool says(const struct scene *scene, enum explain_question question, const char *text)
{
    const struct explain_answer *answer = &scene->answers[question];
    for (size_t i = 0; i < answer->count; i++) {
        if (strstr(answer->lines[i].text, text) != NULL) return true;
    }
    return false;
}

static void expect_at(const struct scene *scene, enum explain_question question, const char *text,
                      int line)
{
    if (says(scene, question, text)) return;
    const struct explain_answer *answer = &scene->answers[question];
    for (size_t i = 0; i < answer->count; i++) print_message("  - %s\n", answer->lines[i].text);
    fail_msg("line %d: %s does not say: %s", line, explain_question_name(question), text);
}

static void expect_not_at(const struct scene *scene, enum explain_question question,
                          const char *text, int line)
{
    if (!says(scene, question, text)) return;
    fail_msg("line %d: %s says: %s", line, explain_question_name(question), text);
}

#define EXPECT(question, text) expect_at(&scene, question, text, __LINE__)
#define EXPECT_NOT(question, text) expect_not_at(&scene, question, text, __LINE__)

static void finish(struct scene *scene)
{
    arena_finish(&scene->arena);
}

#endif
