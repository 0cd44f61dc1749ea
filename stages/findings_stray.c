/* stages/findings_stray.c: see findings_stray.h. Two transactions: read, then write by CAS; again
 * if that was lost. */
#include "stages/findings_stray.h"

#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "store/stray_fact.h"

struct stray_work {
    struct findings *findings;
    struct finding *finding;
    struct attempt_outcome outcome;
    struct stray_fact_input input;
    struct stray_fact_plan plan;
    int rounds;
};

enum { STRAY_ROUNDS_MAX = 8 };

static void start_load(struct stray_work *work);

static bool kind_of(enum contradiction contradiction, enum stray_kind *out)
{
    switch (contradiction) {
    case CONTRADICTION_LATE_SUCCESS:
        *out = STRAY_LATE_SUCCESS;
        return true;
    case CONTRADICTION_SECOND_SUCCESS:
        *out = STRAY_SECOND_SUCCESS;
        return true;
    case CONTRADICTION_REFUND_RETURNED:
        *out = STRAY_REFUND_RETURNED;
        return true;
    case CONTRADICTION_CAPTURE_RETURNED:
        *out = STRAY_CAPTURE_RETURNED;
        return true;
    case CONTRADICTION_NONE:
    case CONTRADICTION_EVIDENCE_CONFLICT:
    case CONTRADICTION_UNRECORDED_SEND:
        return false;
    }
    UNREACHABLE("contradiction out of range");
}

bool finding_is_stray(const struct finding *finding)
{
    enum stray_kind kind;
    return !finding->verdict.changes && kind_of(finding->verdict.contradiction, &kind);
}

static void end_work(struct stray_work *work)
{
    struct finding *finding = work->finding;
    if (finding->fence != NULL && !finding->is_stored) finding->fence->open--;
    finding->ended(finding);
    arena_finish(&finding->arena);
    free(finding);
    free(work);
}

static void announce(const struct stray_work *work, const struct store_result *results,
                     struct arena *arena)
{
    struct stage *stage = work->findings->stage;
    struct command commands[STRAY_FACT_ATTEMPTS_MAX];
    const size_t count = stray_fact_commands(&work->plan, results, arena, commands);
    for (size_t i = 0; i < count; i++) {
        char subject[SUBJECT_SIZE];
        stage_announce(stage, subject_settle(commands[i].payment, subject), commands[i]);
    }
    stage_announce_events(stage);
    stage_announce_send(stage);
}

static void report_failure(const struct stray_work *work, enum status status)
{
    LOG_ERROR("a stray fact could not be stored", LOG_ID("payment", work->input.payment.uuid),
              LOG_ID("attempt", work->input.attempt.uuid), LOG_TEXT("why", status_name(status)),
              LOG_TEXT("statement", store_last_error(work->findings->queue->store)->statement));
}

static void on_evidence_stored(struct store_job *job, enum status status,
                               struct store_result *results)
{
    (void)results;
    if (status != STATUS_OK) report_failure(job->detail, status);
    end_work(job->detail);
}

/* Out of races: the observation is a row all the same (protocol D); an event stays unprocessed. */
static void store_evidence_alone(struct stray_work *work)
{
    struct store_job *job = store_job_create(on_evidence_stored, work->findings);
    attempt_result_call(store_job_call(job), &job->arena, &work->outcome, 1,
                        work->findings->stage->actor, work->findings->account->id);
    job->detail = work;
    store_queue_push(work->findings->queue, job);
}

static void on_stored(struct store_job *job, enum status status, struct store_result *results)
{
    struct stray_work *work = job->detail;
    if (status == STATUS_LOST_RACE && work->rounds++ < STRAY_ROUNDS_MAX) {
        start_load(work);
        return;
    }
    if (status != STATUS_OK) {
        report_failure(work, status);
        store_evidence_alone(work);
        return;
    } else {
        announce(work, results, &job->arena);
        if (work->plan.is_new) {
            metrics_add(METRIC_STRAY_FACTS, 1,
                        METRICS_LABELS(stray_kind_name((int)work->plan.kind)));
            LOG_WARNING("stray fact", LOG_ID("payment", work->input.payment.uuid),
                        LOG_ID("attempt", work->input.attempt.uuid),
                        LOG_TEXT("account", work->input.channel_account),
                        LOG_TEXT("kind", stray_kind_name((int)work->plan.kind)));
        }
    }
    end_work(work);
}

static void add_inbox(struct store_job *job, const struct finding *finding)
{
    if (uuid_is_nil(finding->inbox.uuid)) return;
    struct sql_call *call = store_job_call(job);
    sql_call_begin(call, STMT_INBOX_DONE, &job->arena);
    sql_push_uuid(sql_bind_array(call, SQL_UUID), finding->inbox.uuid);
    sql_push_uuid(sql_bind_array(call, SQL_UUID), finding->attempt.payment.uuid);
    sql_push_uuid(sql_bind_array(call, SQL_UUID), finding->attempt.attempt.uuid);
    sql_push_int4(sql_bind_array(call, SQL_INT4), 0); /* the fact is stored whole, or not at all */
    sql_push_uuid(sql_bind_array(call, SQL_UUID), finding->evidence.uuid);
}

static void on_loaded(struct store_job *job, enum status status, struct store_result *results)
{
    struct stray_work *work = job->detail;
    if (status != STATUS_OK) { /* the event stays unprocessed, and the sweep brings it again */
        report_failure(work, status);
        end_work(work);
        return;
    }
    struct store_job *next = store_job_create(on_stored, work->findings);
    next->detail = work;
    struct stray_fact_rows rows;
    stray_fact_load_read(&results[0], &next->arena, &rows);
    stray_fact_calls(&work->input, &rows, &next->arena, next->calls, &work->plan);
    next->call_count = work->plan.call_count;
    add_inbox(next, work->finding);
    if (next->call_count > 0) {
        store_queue_push(work->findings->queue, next);
    } else {
        arena_finish(&next->arena);
        free(next);
        end_work(work);
    }
}

static void start_load(struct stray_work *work)
{
    struct store_job *job = store_job_create(on_loaded, work->findings);
    stray_fact_load_call(store_job_call(job), &job->arena, &work->input);
    job->detail = work;
    store_queue_push(work->findings->queue, job);
}

void finding_store_stray(struct findings *findings, struct finding *finding)
{
    struct stray_work *work = memory_allocate(sizeof *work);
    work->findings = findings;
    work->finding = finding;
    work->outcome = (struct attempt_outcome){
        .attempt = finding->attempt.attempt,
        .payment = finding->attempt.payment,
        .version = finding->attempt.version,
        .from = finding->attempt.state,
        .verdict = finding->verdict,
        .observation = finding->observation,
        .evidence = finding->evidence,
        .request = finding->request,
        .closure = observation_closure(&finding->observation, &findings->psp->capability),
        .event = "stray",
    };
    enum stray_kind kind = STRAY_LATE_SUCCESS;
    INVARIANT(kind_of(finding->verdict.contradiction, &kind));
    work->input = (struct stray_fact_input){
        .id = uuid_new(),
        .case_id = { uuid_new() },
        .case_event = { uuid_new() },
        .kind = kind,
        .payment = finding->attempt.payment,
        .attempt = finding->attempt.attempt,
        .channel_account = findings->account->id,
        .provider_object = finding->observation.provider_object != NULL
                               ? finding->observation.provider_object
                               : finding->attempt.provider_key,
        .has_amount = finding->observation.has_amount,
        .amount = finding->observation.amount,
        .evidence = finding->evidence,
        .observed = &work->outcome,
        .actor = findings->stage->actor,
    };
    start_load(work);
}
