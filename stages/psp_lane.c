/* stages/psp_lane.c: see psp_lane.h. */
#include "stages/psp_lane.h"

#include "pipeline/clock.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/psp_registry.h"

enum { ANSWER_BYTES_MAX = 256 * 1024 };

/* One call in flight. */
struct lane_call {
    struct finding *finding;
    enum request_kind kind;
};

bool psp_lane_open(struct psp_lane *lane, struct stage *stage, const struct config_account *account,
                   const struct recovery_policy *policy, size_t calls_max, size_t batch_max)
{
    *lane = (struct psp_lane){ .stage = stage, .account = account, .policy = policy };
    lane->psp = psp_registry_find(account->psp);
    if (lane->psp == NULL) {
        LOG_ERROR("no adapter for this PSP", LOG_TEXT("account", account->id),
                  LOG_TEXT("psp", account->psp));
        return false;
    }
    const struct config_timers *timers = &stage->config.timers;
    lane->transport = http_transport_create(&(struct http_transport_options){
        .connect_timeout_ms = (int)timers->call_connect_ms,
        .call_limit_ms = (int)timers->call_limit_ms,
        .in_flight_max = calls_max,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .allow_plain_http = stage->config.development,
    });
    if (lane->transport == NULL) return false;
    (void)snprintf(lane->health_part, sizeof lane->health_part, "postgres/%s", account->id);
    lane->store = stage_store_create(stage, account->id);
    lane->queue.store = lane->store;
    lane->findings = (struct findings){
        .stage = stage,
        .account = account,
        .psp = lane->psp,
        .policy = policy,
        .queue = &lane->queue,
        .batch_max = batch_max,
    };
    return true;
}

void psp_lane_close(struct psp_lane *lane)
{
    http_transport_destroy(lane->transport);
    store_queue_finish(&lane->queue);
    findings_finish(&lane->findings);
    store_destroy(lane->store);
    *lane = (struct psp_lane){ 0 };
}

static enum evidence_source source_of(enum request_kind kind, enum request_phase phase)
{
    if (phase == PHASE_LOCAL) return SOURCE_LOCAL;
    if (phase < PHASE_ANSWERED) return SOURCE_TRANSPORT;
    switch (kind) {
    case REQUEST_CREATE:
    case REQUEST_CANCEL:
        return SOURCE_ANSWER;
    case REQUEST_REPLAY:
        return SOURCE_REPLAY;
    case REQUEST_RETRIEVE:
        return SOURCE_RETRIEVE;
    case REQUEST_SEARCH:
        return SOURCE_SEARCH;
    }
    UNREACHABLE("request kind out of range");
}

static void take_answer(struct psp_lane *lane, struct finding *finding, enum request_kind kind,
                        const struct http_answer *answer)
{
    lane->psp->parse(OPERATION_CREATE, kind, answer, &finding->arena, &finding->observation);
    finding->observation.phase =
        answer->phase < PHASE_ANSWERED ? answer->phase : finding->observation.phase;
    finding->observation.source = source_of(kind, finding->observation.phase);
    findings_add(&lane->findings, finding);
}

void psp_lane_send(struct psp_lane *lane, struct finding *finding, enum request_kind kind,
                   const struct psp_request *request, const char *key, int64_t send_by_us)
{
    struct http_request http = { 0 };
    lane->psp->authenticate(&lane->account->psp_account, request, key, &finding->arena, &http);
    struct lane_call *call = arena_allocate(&finding->arena, sizeof *call);
    call->finding = finding;
    call->kind = kind;
    const enum http_start start = http_transport_start(lane->transport, &http, send_by_us, call);
    if (start == HTTP_STARTED) return;
    const struct http_answer answer = http_start_answer(start);
    take_answer(lane, finding, kind, &answer);
}

static const char *outcome_word(const struct http_answer *answer)
{
    if (answer->phase < PHASE_ANSWERED)
        return answer->error_code == NULL ? "lost" : answer->error_code;
    if (answer->status < 300) return "2xx";
    return answer->status < 500 ? "4xx" : "5xx";
}

static void fetch_answers(struct psp_lane *lane)
{
    struct http_done done;
    while (http_transport_next_done(lane->transport, &done)) {
        struct lane_call *call = done.cookie;
        metrics_observe(METRIC_PSP_REQUEST, done.elapsed_us,
                        METRICS_LABELS(lane->account->id, request_kind_name((int)call->kind),
                                       outcome_word(&done.answer)));
        if (call->kind == REQUEST_CREATE) CRASH_POINT("create.after_send_before_result");
        take_answer(lane, call->finding, call->kind, &done.answer);
    }
}

void psp_lane_service(struct psp_lane *lane)
{
    http_transport_drive(lane->transport);
    fetch_answers(lane);
    findings_service(&lane->findings);
    store_queue_service(&lane->queue, clock_monotonic_us());
    findings_service(
        &lane->findings); /* what just came back from the store may start the next one */
    store_queue_service(&lane->queue, clock_monotonic_us());
}

size_t psp_lane_poll(struct psp_lane *lane, struct pollfd *descriptors, int64_t *wake_us)
{
    size_t count = 0;
    short events = 0;
    const int descriptor = store_poll_fd(lane->store, &events);
    if (descriptor >= 0)
        descriptors[count++] = (struct pollfd){ .fd = descriptor, .events = events };
    descriptors[count++] =
        (struct pollfd){ .fd = http_transport_poll_fd(lane->transport), .events = POLLIN };
    const int64_t store_us = store_queue_wake_us(&lane->queue);
    if (store_us < *wake_us) *wake_us = store_us;
    const int timeout_ms = http_transport_timeout_ms(lane->transport);
    const int64_t transport_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    if (timeout_ms >= 0 && transport_us < *wake_us) *wake_us = transport_us;
    return count;
}

bool psp_lane_is_idle(const struct psp_lane *lane)
{
    return http_transport_in_flight(lane->transport) == 0 && findings_are_idle(&lane->findings) &&
           store_queue_is_idle(&lane->queue);
}

static bool keep_policy(struct stage *stage, const struct recovery_policy *policy)
{
    struct arena arena = { 0 };
    struct sql_call call;
    sql_call_begin(&call, STMT_POLICY_WRITE, &arena);
    sql_bind_text(&call, policy->version);
    sql_bind_text(&call, arena_copy(&arena, policy->source.data, policy->source.length));
    enum status status = STATUS_RETRY;
    while (!stage_stop && status == STATUS_RETRY) {
        struct store_result result = { 0 };
        status = store_run(stage->store, &call, &result);
        store_result_clear(&result);
        if (status != STATUS_RETRY) break;
        health_set(stage->health, "postgres", store_last_error(stage->store)->message);
        (void)poll(NULL, 0, (int)stage_jitter_ms(500));
    }
    if (status == STATUS_OK) health_set(stage->health, "postgres", NULL);
    if (status != STATUS_OK && !stage_stop) {
        LOG_ERROR("the recovery policy cannot be kept",
                  LOG_TEXT("why", store_last_error(stage->store)->message));
    }
    arena_finish(&arena);
    return status == STATUS_OK;
}

bool psp_policy_open(struct stage *stage, struct recovery_policy *out_policy)
{
    struct config *config = &stage->config;
    struct arena arena = { 0 };
    struct recovery_channel *channels =
        arena_allocate(&arena, (config->account_count + 1) * sizeof *channels);
    struct config_error error = { "" };
    bool is_fine = true;
    for (size_t i = 0; i < config->account_count && is_fine; i++) {
        const struct psp_ops *psp = psp_registry_find(config->accounts[i].psp);
        if (psp == NULL) {
            (void)snprintf(error.text, sizeof error.text, "account %s: no adapter for psp %s",
                           config->accounts[i].id, config->accounts[i].psp);
            is_fine = false;
            break;
        }
        channels[i] = (struct recovery_channel){ &config->accounts[i], &psp->capability };
        is_fine = config_account_check(config, &config->accounts[i], &psp->capability, &error) ==
                  STATUS_OK;
    }
    is_fine =
        is_fine && recovery_policy_load(config->recovery_file, channels, config->account_count,
                                        out_policy, &error) == STATUS_OK;
    if (!is_fine) LOG_ERROR("configuration refused", LOG_TEXT("why", error.text));
    is_fine = is_fine && keep_policy(stage, out_policy);
    arena_finish(&arena);
    return is_fine;
}
