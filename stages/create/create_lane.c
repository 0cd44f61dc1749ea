/* stages/create/create_lane.c: see create_lane.h. */
#include "stages/create/create_lane.h"

#include "pipeline/clock.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/kept_message.h"
#include "stages/twins.h"
#include "store/stage_store.h"

enum {
    WAIT_FOR_BUDGET_US = 5 * 1000 * 1000, /* longer, and the message goes back to the stream */
    HAND_BACK_MS = 1000,
    MESSAGES_WANTED = 8,
    SINGLED_OUT_DELIVERIES = 3, /* above: fenced alone, with counted trials (protocol H6) */
    TRIALS_MAX = 5,             /* then a dead letter with a case */
};

/* One fence transaction. */
struct fence_job {
    struct create_lane *self;
    struct command_work **commands; /* sorted by attempt; NULL: answered */
    struct fence_input *inputs;     /* the same, in the same order */
    size_t count;
    struct uuid fence_batch;
    int64_t send_by_us; /* monotonic; never later than the send_by in the row */
};

bool create_lane_open(struct create_lane *self, struct stage *stage,
                      const struct config_account *account, const struct recovery_policy *policy,
                      int *out_exit_code)
{
    *self = (struct create_lane){ .lane = { 0 } };
    const struct config_limits *limits = &account->limits;
    if (!psp_lane_open(&self->lane, stage, account, policy, (size_t)limits->creates_concurrent,
                       (size_t)stage->config.stages.create.batch_max)) {
        *out_exit_code = 2;
        return false;
    }
    budget_init(&self->budget, limits->creates_per_s, limits->creates_concurrent,
                clock_monotonic_us());
    (void)snprintf(self->durable, sizeof self->durable, "%s_new", account->id);
    self->consumer = stage_consumer_open(stage, "PAY_CREATE", self->durable, out_exit_code);
    return self->consumer != NULL;
}

void create_lane_close(struct create_lane *self)
{
    bus_consumer_close(self->consumer);
    psp_lane_close(&self->lane);
}

/* --- messages ------------------------------------------------------------------------------ */

static void on_dead_letter(struct store_job *job, enum status status, struct store_result *results)
{
    (void)results;
    struct create_lane *self = job->owner;
    command_work_finish(self->lane.stage, job->detail, status == STATUS_OK ? 0 : HAND_BACK_MS,
                        status == STATUS_OK ? "dead_letter" : "hand_back");
}

static void keep_dead_letter(struct create_lane *self, struct command_work *command,
                             const char *code)
{
    struct store_job *job = store_job_create(on_dead_letter, self);
    const struct dead_letter letter = {
        .id = kept_message_id(&command->hand->message, command->command.outbox.uuid),
        .consumer = self->durable,
        .subject = command->hand->message.subject,
        .sequence = command->hand->message.stream_sequence,
        .deliveries = command->hand->message.deliveries,
        .headers = "",
        .body = command->hand->message.body,
        .code = code,
        .problem = "{\"detail\":\"a stage command that cannot be handled\"}",
        .payment = command->command.payment,
        .case_id = { uuid_new() },
        .stored_at_us = command->hand->message.stored_at_us,
    };
    dead_letter_call(store_job_call(job), &letter, &job->arena);
    job->detail = command;
    store_queue_push(&self->lane.queue, job);
}

static void take(struct create_lane *self)
{
    const size_t limit = (size_t)self->lane.stage->config.stages.create.batch_max;
    struct bus_message message;
    while (self->waiting.count < limit && bus_consumer_take(self->consumer, 1, &message) == 1) {
        struct command_work *malformed = NULL;
        if (command_hand_take(self->lane.stage, &message, &self->waiting, &malformed) ==
            COMMAND_MALFORMED) {
            keep_dead_letter(self, malformed, problem_word(PROBLEM_NOT_MSGPACK));
        }
    }
}

/* --- suspects ------------------------------------------------------------------------------ */

/* A command of a message that came back again and again. */
static bool is_suspect(const struct command_work *command)
{
    return command->hand->message.deliveries > SINGLED_OUT_DELIVERIES;
}

static void on_trials_forgotten(struct store_job *job, enum status status,
                                struct store_result *results)
{
    (void)job;
    (void)status; /* a trial too many on record singles out earlier, nothing more */
    (void)results;
}

static void forget_trials(struct create_lane *self, const struct command_work *command)
{
    char name[UUID_TEXT_SIZE];
    struct store_job *job = store_job_create(on_trials_forgotten, self);
    delivery_trial_clear_call(store_job_call(job), self->durable,
                              uuid_format(command->command.outbox.uuid, name), &job->arena);
    store_queue_push(&self->lane.queue, job);
}

static void start_fence(struct create_lane *self, struct command_work **commands, size_t count);

static void on_trial_noted(struct store_job *job, enum status status, struct store_result *results)
{
    struct create_lane *self = job->owner;
    struct command_work *command = job->detail;
    const bool is_noted = status == STATUS_OK;
    self->is_fencing = false;
    if (is_noted && result_int(&results[0], 0, 0) <= TRIALS_MAX) {
        start_fence(self, &command, 1);
        return;
    }
    budget_release(&self->budget, true);
    if (is_noted) {
        forget_trials(self, command);
        keep_dead_letter(self, command, problem_word(PROBLEM_INTERNAL));
    } else {
        command_work_finish(self->lane.stage, command, HAND_BACK_MS, "hand_back");
    }
}

/* Its trial is committed before it is tried, so that even a crash counts. */
static void try_alone(struct create_lane *self, struct command_work *command)
{
    char name[UUID_TEXT_SIZE];
    struct store_job *job = store_job_create(on_trial_noted, self);
    delivery_trial_note_call(store_job_call(job), self->durable,
                             uuid_format(command->command.outbox.uuid, name), &job->arena);
    job->detail = command;
    self->is_fencing = true;
    store_queue_push(&self->lane.queue, job);
}

/* The first suspect that waits, taken out of the list; NULL if there is none. */
static struct command_work *take_suspect(struct create_lane *self)
{
    struct command_work *suspect = NULL;
    struct command_work *waiting = command_list_take(&self->waiting);
    while (waiting != NULL) {
        struct command_work *command = waiting;
        waiting = waiting->next;
        if (suspect == NULL && is_suspect(command)) {
            suspect = command;
        } else {
            command_list_append(&self->waiting, command);
        }
    }
    return suspect;
}

/* --- local ends ---------------------------------------------------------------------------- */

struct local_job {
    struct command_work **commands;
    struct local_end *ends;
    size_t count;
};

static void on_ended_locally(struct store_job *job, enum status status,
                             struct store_result *results)
{
    struct create_lane *self = job->owner;
    struct local_job *local = job->detail;
    if (status == STATUS_OK) {
        struct local_end_row *rows = NULL;
        const size_t count = local_end_read(&results[0], &job->arena, &rows);
        for (size_t i = 0; i < count; i++) {
            char subject[SUBJECT_SIZE];
            struct outbox_id command_id = { { { 0 } } };
            for (size_t k = 0; k < local->count; k++) {
                if (uuid_equal(local->ends[k].attempt.uuid, rows[i].attempt.uuid))
                    command_id = local->ends[k].command;
            }
            stage_announce(self->lane.stage, subject_settle(rows[i].payment, subject),
                           (struct command){
                               .outbox = command_id,
                               .payment = rows[i].payment,
                               .entity = rows[i].attempt.uuid,
                               .version = rows[i].version,
                               .kind = COMMAND_SETTLE,
                           });
        }
        stage_announce_send(self->lane.stage);
    }
    for (size_t i = 0; i < local->count; i++) {
        command_work_finish(self->lane.stage, local->commands[i],
                            status == STATUS_OK ? 0 : HAND_BACK_MS,
                            status == STATUS_OK ? "ended_unsent" : "hand_back");
    }
}

/* Attempts that the fence let nobody send: they end by our own decision, NO_SIDE_EFFECT. */
static void end_locally(struct create_lane *self, const struct fence_row *rows,
                        struct command_work **commands, size_t count)
{
    if (count == 0) return;
    struct store_job *job = store_job_create(on_ended_locally, self);
    struct local_job *local = arena_allocate(&job->arena, sizeof *local);
    local->commands = arena_allocate(&job->arena, count * sizeof(struct command_work *));
    local->ends = arena_allocate(&job->arena, count * sizeof *local->ends);
    local->count = count;
    for (size_t i = 0; i < count; i++) {
        local->commands[i] = commands[i];
        local->ends[i] = (struct local_end){
            .attempt = rows[i].attempt,
            .payment = rows[i].payment,
            .evidence = { uuid_new() },
            .command = { uuid_new() },
            .reason = rows[i].outcome == FENCE_HELD ? "target_held" : "expired_before_start",
        };
    }
    local_end_call(store_job_call(job), &job->arena, local->ends, count, self->lane.stage->actor);
    job->detail = local;
    store_queue_push(&self->lane.queue, job);
}

/* --- the fence ----------------------------------------------------------------------------- */

static void on_finding_ended(struct finding *finding)
{
    struct create_lane *self = finding->owner;
    budget_release(&self->budget, false);
    fence_share_leave(finding->fence);
}

static void send(struct create_lane *self, const struct fence_row *row, struct fence_share *share,
                 int64_t send_by_us)
{
    struct finding *finding = finding_create(on_finding_ended, self);
    struct arena *arena = &finding->arena;
    struct psp_request request;
    const struct span bytes = arena_copy_span(arena, row->request_bytes);
    const char *key = arena_copy(arena, row->provider_key, strlen(row->provider_key));
    finding->attempt = (struct attempt_row){
        .attempt = row->attempt,
        .payment = row->payment,
        .account = self->lane.account->id,
        .state = ATTEMPT_SENDING,
        .certainty = CERTAINTY_UNKNOWN,
        .version = row->version,
        .amount = row->amount,
        .provider_key = key,
        .merchant = arena_copy(arena, row->merchant, strlen(row->merchant)),
        .method_type = arena_copy(arena, row->method_type, strlen(row->method_type)),
        .payment_state = PAYMENT_AUTHORIZING,
        .now_us = clock_real_us(),
        .last_request_end_us = clock_real_us(),
    };
    finding->request = row->request;
    finding->fence = share;
    finding->sends =
        row->version / 2; /* each send is two versions: SENDING, and CREATED again when unsent */
    /* Route encoded it: bytes that cannot be read again are a bug of ours. */
    INVARIANT(psp_request_decode(bytes, arena, &request) == STATUS_OK);
    psp_lane_send(&self->lane, finding, REQUEST_CREATE, &request, key, send_by_us);
}

static int by_input(const void *attempt, const void *input)
{
    const struct attempt_id *key = attempt;
    const struct fence_input *other = input;
    return uuid_compare(key->uuid, other->attempt.uuid);
}

/* The command that a row answers, once. */
static struct command_work *command_of(struct fence_job *fence, struct attempt_id attempt)
{
    const struct fence_input *input =
        bsearch(&attempt, fence->inputs, fence->count, sizeof *fence->inputs, by_input);
    if (input == NULL) return NULL;
    struct command_work **command = &fence->commands[input - fence->inputs];
    struct command_work *found = *command;
    *command = NULL;
    return found;
}

static void take_fenced(struct create_lane *self, struct fence_job *fence, struct fence_row *rows,
                        size_t count, struct arena *arena)
{
    size_t sending = 0;
    for (size_t i = 0; i < count; i++) sending += rows[i].outcome == FENCE_SENDING;
    struct fence_share *share =
        sending > 0 ? fence_share_create(fence->fence_batch, sending) : NULL;
    CRASH_POINT("create.after_fence");
    struct fence_row *ended = arena_allocate(arena, (count + 1) * sizeof *ended);
    struct command_work **ended_commands =
        arena_allocate(arena, (count + 1) * sizeof(struct command_work *));
    size_t ended_count = 0;
    for (size_t i = 0; i < count; i++) { /* the bytes first: send_by runs */
        if (rows[i].outcome == FENCE_SENDING) send(self, &rows[i], share, fence->send_by_us);
    }
    for (size_t i = 0; i < count; i++) {
        struct command_work *command = command_of(fence, rows[i].attempt);
        INVARIANT(command != NULL);
        if (rows[i].outcome != FENCE_SENDING) budget_release(&self->budget, true);
        if (rows[i].outcome == FENCE_EXPIRED || rows[i].outcome == FENCE_HELD) {
            ended[ended_count] = rows[i];
            ended_commands[ended_count++] = command;
        } else {
            command_work_finish(self->lane.stage, command, 0,
                                rows[i].outcome == FENCE_SENDING ? "sent" : "done");
        }
    }
    end_locally(self, ended, ended_commands, ended_count);
}

static void fence_refused(struct create_lane *self, struct fence_job *fence, enum status status)
{
    const struct store_error *error = store_last_error(self->lane.store);
    LOG_ERROR("fence refused", LOG_TEXT("account", self->lane.account->id),
              LOG_TEXT("status", status_name(status)), LOG_TEXT("sqlstate", error->sqlstate),
              LOG_TEXT("why", error->message), LOG_NUMBER("count", (int64_t)fence->count));
    if (status != STATUS_BAD_DATA || fence->count == 1) {
        for (size_t i = 0; i < fence->count; i++) { /* it comes again, and is tried alone then */
            budget_release(&self->budget, true);
            command_work_finish(self->lane.stage, fence->commands[i], HAND_BACK_MS, "hand_back");
        }
        return;
    }
    const size_t half = fence->count / 2;
    start_fence(self, fence->commands, half);
    start_fence(self, fence->commands + half, fence->count - half);
}

static void on_fenced(struct store_job *job, enum status status, struct store_result *results)
{
    struct create_lane *self = job->owner;
    struct fence_job *fence = job->detail;
    self->is_fencing = false;
    if (status != STATUS_OK) {
        fence_refused(self, fence, status);
        return;
    }
    if (is_suspect(fence->commands[0])) forget_trials(self, fence->commands[0]);
    struct fence_row *rows = NULL;
    const size_t count = fence_read(&results[0], &job->arena, &rows);
    take_fenced(self, fence, rows, count, &job->arena);
    for (size_t i = 0; i < fence->count; i++) {
        if (fence->commands[i] == NULL) continue;
        /* No such attempt: a database older than the stream. Its own outbox is what counts. */
        LOG_WARNING("a command names an attempt that is not there",
                    LOG_TEXT("account", self->lane.account->id));
        budget_release(&self->budget, true);
        command_work_finish(self->lane.stage, fence->commands[i], 0, "missing");
    }
}

static int by_attempt(const void *a, const void *b)
{
    const struct command_work *const *left = a;
    const struct command_work *const *right = b;
    return uuid_compare((*left)->command.entity, (*right)->command.entity);
}

static void start_fence(struct create_lane *self, struct command_work **commands, size_t count)
{
    const struct config_timers *timers = &self->lane.stage->config.timers;
    struct store_job *job = store_job_create(on_fenced, self);
    struct fence_job *fence = arena_allocate(&job->arena, sizeof *fence);
    fence->self = self;
    fence->commands = arena_allocate(&job->arena, count * sizeof(struct command_work *));
    fence->inputs = arena_allocate(&job->arena, count * sizeof *fence->inputs);
    fence->count = count;
    memcpy(fence->commands, commands, count * sizeof(struct command_work *));
    qsort(fence->commands, count, sizeof(struct command_work *), by_attempt);
    for (size_t i = 0; i < count; i++) {
        fence->inputs[i].attempt.uuid = fence->commands[i]->command.entity;
        fence->inputs[i].request.uuid = uuid_new();
    }
    fence->fence_batch = uuid_new();
    fence->send_by_us = clock_monotonic_us() + timers->send_by_ms * 1000;
    fence_call(store_job_call(job), &job->arena, fence->inputs, count, fence->fence_batch,
               self->lane.account->id, self->lane.stage->actor, timers->send_by_ms,
               timers->send_by_ms + timers->call_limit_ms + timers->fence_grace_ms);
    job->detail = fence;
    self->is_fencing = true;
    store_queue_push(&self->lane.queue, job);
}

/* Takes up to limit waiting commands for different attempts; repeats of one attempt wait a round.
 */
static size_t next_commands(struct create_lane *self, struct command_work **out, size_t limit)
{
    static struct twins twins;
    twins_clear(&twins);
    size_t count = 0;
    struct command_work *waiting = command_list_take(&self->waiting);
    while (waiting != NULL) {
        struct command_work *command = waiting;
        waiting = waiting->next;
        if (count < limit && twins_add(&twins, command->command.entity)) {
            out[count++] = command;
        } else {
            command_list_append(&self->waiting, command);
        }
    }
    return count;
}

static void fence_what_may_go(struct create_lane *self, int64_t now_us)
{
    enum { FENCE_MAX = 256 };
    if (self->is_fencing || self->waiting.first == NULL || !store_is_ready(self->lane.store))
        return;
    size_t limit = budget_available(&self->budget, now_us);
    const size_t room = http_transport_room(self->lane.transport);
    const size_t batch_max = (size_t)self->lane.stage->config.stages.create.batch_max;
    if (limit > room) limit = room;
    if (limit > batch_max) limit = batch_max;
    if (limit > FENCE_MAX) limit = FENCE_MAX;
    if (limit == 0) return;
    struct command_work *suspect = take_suspect(self);
    if (suspect != NULL) {
        budget_take(&self->budget, 1);
        try_alone(self, suspect);
        return;
    }
    struct command_work *commands[FENCE_MAX];
    const size_t count = next_commands(self, commands, limit);
    budget_take(&self->budget, count);
    start_fence(self, commands, count);
}

/* Work that waits, waits in PostgreSQL or the stream, never long as an unacked message. */
static void hand_back_waiting(struct create_lane *self, int64_t older_than_us)
{
    struct command_work *waiting = command_list_take(&self->waiting);
    while (waiting != NULL) {
        struct command_work *command = waiting;
        waiting = waiting->next;
        if (command->hand->taken_us <= older_than_us) {
            command_work_finish(self->lane.stage, command, HAND_BACK_MS, "hand_back");
        } else {
            command_list_append(&self->waiting, command);
        }
    }
}

enum status create_lane_service(struct create_lane *self)
{
    struct stage *stage = self->lane.stage;
    enum status status = STATUS_OK;
    const int64_t now_us = clock_monotonic_us();
    if (!self->is_draining) {
        const bool is_away = !store_is_connected(self->lane.store);
        health_set(stage->health, self->lane.health_part, is_away ? "PostgreSQL is away" : NULL);
        bus_consumer_pause(self->consumer, is_away);
        status = bus_consumer_want(self->consumer, MESSAGES_WANTED);
        health_set(stage->health, self->durable,
                   status == STATUS_OK ? NULL : bus_consumer_problem(self->consumer));
        take(self);
        fence_what_may_go(self, now_us);
        hand_back_waiting(self, now_us - WAIT_FOR_BUDGET_US);
    }
    psp_lane_service(&self->lane);
    if (!self->is_draining) fence_what_may_go(self, clock_monotonic_us());
    psp_lane_service(&self->lane);
    return status == STATUS_STOP ? STATUS_STOP : STATUS_OK;
}

void create_lane_drain(struct create_lane *self)
{
    self->is_draining = true;
    hand_back_waiting(self, INT64_MAX);
    bus_consumer_drain(self->consumer, 1000);
}
