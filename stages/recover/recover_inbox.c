/*
 * stages/recover/recover_inbox.c: verified webhooks become findings. The message only says that an
 * inbox row is there; what nobody matches yet is parked and looked at again (protocol B6).
 */
#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "stages/kept_message.h"
#include "stages/recover/recover_lane.h"
#include "store/stage_store.h"

enum {
    INBOX_BATCH_MAX = 64,
    SWEEP_US = 2 * 1000 * 1000,
    HAND_BACK_MS = 1000,
    MESSAGES_WANTED = 16
};

/* Inbox rows being read, and the commands that asked (NULL: the sweep did). */
struct inbox_work {
    struct inbox_id *ids;
    struct command_work **commands;
    size_t count;
};

/* A command is done when every finding of its event is. */
struct inbox_wait {
    struct command_work *command;
    size_t open;
};

static void on_finding_ended(struct finding *finding)
{
    struct recover_lane *self = ((void **)finding->owner)[0];
    struct inbox_wait *wait = ((void **)finding->owner)[1];
    free(finding->owner);
    if (--wait->open > 0) return;
    if (wait->command != NULL) command_work_finish(self->lane.stage, wait->command, 0, "done");
    free(wait);
}

static struct observation copy_observation(const struct observation *from, struct arena *arena)
{
    struct observation seen = *from;
    const char **texts[] = { &seen.provider_event, &seen.provider_status, &seen.provider_object,
                             &seen.reference,      &seen.error_code,      &seen.excerpt };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (*texts[i] != NULL) *texts[i] = arena_copy(arena, *texts[i], strlen(*texts[i]));
    }
    return seen;
}

static void add_finding(struct recover_lane *self, const struct inbox_row *row,
                        struct inbox_wait *wait)
{
    void **owner = memory_allocate(2 * sizeof *owner);
    owner[0] = self;
    owner[1] = wait;
    struct finding *finding = finding_create(on_finding_ended, owner);
    finding->attempt.attempt = row->attempt;
    finding->needs_load = true;
    finding->inbox = row->inbox;
    finding->observation = copy_observation(&row->observation, &finding->arena);
    wait->open++;
    findings_add(&self->lane.findings, finding);
}

static void on_parked(struct store_job *job, enum status status, struct store_result *results)
{
    (void)job;
    (void)results;
    if (status != STATUS_OK) LOG_WARNING("parking failed, ignoring: the sweep comes again");
}

static void park(struct recover_lane *self, const struct inbox_id *ids, size_t count)
{
    struct store_job *job = store_job_create(on_parked, self);
    inbox_park_call(store_job_call(job), &job->arena, ids, count);
    store_queue_push(&self->lane.queue, job);
}

static void take_event(struct recover_lane *self, struct inbox_work *work, size_t i,
                       const struct inbox_row *rows, size_t row_count, struct inbox_id *parked,
                       size_t *parked_count)
{
    struct inbox_wait *wait = memory_allocate(sizeof *wait);
    wait->command = work->commands[i];
    wait->open = 1; /* held until all its findings are added */
    bool is_found = false;
    for (size_t k = 0; k < row_count; k++) {
        if (!uuid_equal(rows[k].inbox.uuid, work->ids[i].uuid)) continue;
        is_found = true;
        if (rows[k].is_processed) break;
        if (uuid_is_nil(rows[k].attempt.uuid)) {
            parked[(*parked_count)++] = work->ids[i];
            break;
        }
        add_finding(self, &rows[k], wait);
    }
    if (--wait->open > 0) return;
    /* Not there: a database older than the stream; the row's sweep or the PSP's retry brings it. */
    if (wait->command != NULL)
        command_work_finish(self->lane.stage, wait->command, 0, is_found ? "parked" : "missing");
    free(wait);
}

static void on_loaded(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover_lane *self = job->owner;
    struct inbox_work *work = job->detail;
    self->is_reading_inbox = false;
    if (status != STATUS_OK) {
        for (size_t i = 0; i < work->count; i++) {
            if (work->commands[i] != NULL) {
                command_work_finish(self->lane.stage, work->commands[i], HAND_BACK_MS, "hand_back");
            }
        }
        return;
    }
    struct inbox_row *rows = NULL;
    const size_t row_count = inbox_load_read(&results[0], &job->arena, &rows);
    struct inbox_id *parked = arena_allocate(&job->arena, (work->count + 1) * sizeof *parked);
    size_t parked_count = 0;
    for (size_t i = 0; i < work->count; i++)
        take_event(self, work, i, rows, row_count, parked, &parked_count);
    if (parked_count > 0) park(self, parked, parked_count);
}

static struct store_job *load_job(struct recover_lane *self, size_t room,
                                  struct inbox_work **out_work)
{
    struct store_job *job = store_job_create(on_loaded, self);
    struct inbox_work *work = arena_allocate(&job->arena, sizeof *work);
    work->ids = arena_allocate(&job->arena, (room + 1) * sizeof *work->ids);
    work->commands = arena_allocate(&job->arena, (room + 1) * sizeof(struct command_work *));
    job->detail = work;
    *out_work = work;
    return job;
}

static void push_load(struct recover_lane *self, struct store_job *job)
{
    struct inbox_work *work = job->detail;
    inbox_load_call(store_job_call(job), &job->arena, work->ids, work->count);
    self->is_reading_inbox = true;
    store_queue_push(&self->lane.queue, job);
}

static void load_commands(struct recover_lane *self)
{
    struct inbox_work *work = NULL;
    struct store_job *job = load_job(self, INBOX_BATCH_MAX, &work);
    struct command_work *waiting = command_list_take(&self->evidence);
    while (waiting != NULL) {
        struct command_work *command = waiting;
        waiting = waiting->next;
        if (work->count == INBOX_BATCH_MAX) {
            command_list_append(&self->evidence, command);
            continue;
        }
        work->ids[work->count].uuid = command->command.entity;
        work->commands[work->count++] = command;
    }
    push_load(self, job);
}

static void on_swept(struct store_job *job, enum status status, struct store_result *results)
{
    struct recover_lane *self = job->owner;
    const size_t count = status == STATUS_OK ? result_rows(&results[0]) : 0;
    self->is_reading_inbox = false;
    self->next_sweep_us = count == INBOX_BATCH_MAX ? 0 : clock_monotonic_us() + SWEEP_US;
    if (count == 0) return;
    struct inbox_work *work = NULL;
    struct store_job *load = load_job(self, count, &work);
    for (size_t i = 0; i < count; i++)
        work->ids[work->count++].uuid = result_uuid(&results[0], i, 0);
    push_load(self, load);
}

static void sweep(struct recover_lane *self)
{
    struct store_job *job = store_job_create(on_swept, self);
    inbox_due_call(store_job_call(job), &job->arena, self->lane.account->id, INBOX_BATCH_MAX);
    self->is_reading_inbox = true;
    store_queue_push(&self->lane.queue, job);
}

static void on_dead_letter(struct store_job *job, enum status status, struct store_result *results)
{
    (void)results;
    struct recover_lane *self = job->owner;
    command_work_finish(self->lane.stage, job->detail, status == STATUS_OK ? 0 : HAND_BACK_MS,
                        "dead_letter");
}

static void keep_malformed(struct recover_lane *self, struct command_work *command)
{
    struct store_job *job = store_job_create(on_dead_letter, self);
    const struct bus_message *message = &command->hand->message;
    const struct dead_letter letter = {
        .id = kept_message_id(message, command->command.outbox.uuid),
        .consumer = "recover",
        .subject = message->subject,
        .sequence = message->stream_sequence,
        .deliveries = message->deliveries,
        .headers = "",
        .body = message->body,
        .code = problem_word(PROBLEM_NOT_MSGPACK),
        .problem = "{\"detail\":\"a stage message that cannot be read\"}",
        .case_id = { uuid_new() },
        .stored_at_us = message->stored_at_us,
    };
    dead_letter_call(store_job_call(job), &letter, &job->arena);
    job->detail = command;
    store_queue_push(&self->lane.queue, job);
}

void recover_inbox_service(struct recover_lane *self, int64_t now_us)
{
    struct bus_message message;
    while (self->evidence.count < INBOX_BATCH_MAX &&
           bus_consumer_take(self->consumer, 1, &message) == 1) {
        struct command_work *malformed = NULL;
        if (command_hand_take(self->lane.stage, &message, &self->evidence, &malformed) ==
            COMMAND_MALFORMED) {
            keep_malformed(self, malformed);
        }
    }
    if (self->is_reading_inbox || !store_is_connected(self->lane.store)) return;
    if (self->evidence.first != NULL) {
        load_commands(self);
    } else if (now_us >= self->next_sweep_us) {
        sweep(self);
    }
}
