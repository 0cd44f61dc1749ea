/*
 * stages/gateway/gateway_inbox.c: see gateway_inbox.h. An entry stands in the waiting list, then
 * in the thread's hand; whoever answers it first (the thread after the commit, or the expiry)
 * marks it under the lock, so that its sender hears once.
 */
#include "stages/gateway/gateway_inbox.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "pipeline/clock.h"
#include "pipeline/command.h"
#include "pipeline/crash_point.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "pipeline/subject.h"

enum { BATCH_MAX = 256 };
#define LOOK_EVERY_US (500 * CLOCK_MILLISECOND_US)
#define LOOK_AGAIN_US (50 * CLOCK_MILLISECOND_US) /* connecting takes a few looks */

struct gateway_inbox {
    struct gateway_inbox_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the lists, is_answered of their entries, is_closing */
    pthread_cond_t arrived;
    struct gateway_entry *first; /* waiting */
    struct gateway_entry **end;
    size_t count;
    struct gateway_entry *in_hand[BATCH_MAX];
    size_t in_hand_count;
    bool is_closing;
};

void gateway_entry_free(struct gateway_entry *entry)
{
    if (entry == NULL) return;
    struct arena arena = entry->arena;
    free(entry);
    arena_finish(&arena);
}

/* --- answering -------------------------------------------------------------------------------- */

/* With the lock: is the answer still ours to give? */
static bool take_answer(struct gateway_entry *entry)
{
    const bool is_ours = !entry->is_answered;
    entry->is_answered = true;
    return is_ours;
}

static void answer(struct gateway_inbox *inbox, struct gateway_entry *entry,
                   enum gateway_outcome outcome)
{
    pthread_mutex_lock(&inbox->lock);
    const bool is_ours = take_answer(entry);
    pthread_mutex_unlock(&inbox->lock);
    if (is_ours) entry->done(entry->self, outcome);
}

/*
 * The next that is overdue, marked; false if there is none. It may be freed as soon as the lock is
 * given back, so what is needed of it is copied out.
 */
static bool next_overdue(struct gateway_inbox *inbox, int64_t monotonic_us,
                         void (**out_done)(void *self, enum gateway_outcome outcome),
                         void **out_self)
{
    struct gateway_entry *found = NULL;
    pthread_mutex_lock(&inbox->lock);
    for (size_t i = 0; i < inbox->in_hand_count && found == NULL; i++) {
        struct gateway_entry *entry = inbox->in_hand[i];
        if (entry->due_us <= monotonic_us && !entry->is_answered) found = entry;
    }
    for (struct gateway_entry *entry = inbox->first; entry != NULL && found == NULL;
         entry = entry->next) {
        if (entry->due_us <= monotonic_us && !entry->is_answered) found = entry;
    }
    if (found != NULL) {
        found->is_answered = true;
        *out_done = found->done;
        *out_self = found->self;
    }
    pthread_mutex_unlock(&inbox->lock);
    return found != NULL;
}

void gateway_inbox_expire(struct gateway_inbox *inbox, int64_t monotonic_us)
{
    void (*done)(void *self, enum gateway_outcome outcome) = NULL;
    void *self = NULL;
    while (next_overdue(inbox, monotonic_us, &done, &self)) done(self, GATEWAY_UNAVAILABLE);
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* One message for the new ones of each account; BATCH_MAX may need more than one. */
static void tell_recover(struct gateway_inbox *inbox, struct gateway_entry *const *entries,
                         const bool *is_new, size_t count, struct arena *arena)
{
    static const struct bus_header HEADERS[] = { { "content-type", "application/msgpack" } };
    bool *is_told = arena_allocate(arena, (count + 1) * sizeof *is_told);
    for (size_t first = 0; first < count; first++) {
        if (!is_new[first] || is_told[first]) continue;
        struct command commands[COMMAND_BATCH_MAX];
        size_t command_count = 0;
        for (size_t i = first; i < count && command_count < COMMAND_BATCH_MAX; i++) {
            const struct gateway_row *row = &entries[i]->row;
            if (!is_new[i] || is_told[i] ||
                strcmp(row->account, entries[first]->row.account) != 0) {
                continue;
            }
            is_told[i] = true;
            commands[command_count++] = (struct command){ .outbox = row->command,
                                                          .entity = row->id.uuid,
                                                          .kind = COMMAND_EVIDENCE };
        }
        char subject[SUBJECT_SIZE];
        char message_id[COMMAND_MESSAGE_ID_SIZE];
        const struct bus_outgoing message = {
            .subject = subject_evidence(entries[first]->row.account, subject),
            .body = command_batch_encode(commands, command_count, arena),
            .headers = HEADERS,
            .header_count = COUNT_OF(HEADERS),
            .message_id = command_message_id(commands[0].outbox, 0, message_id),
        };
        bus_publish(inbox->options.bus, &message, NULL);
    }
}

static void say_health(struct gateway_inbox *inbox, enum status status)
{
    if (inbox->options.health == NULL) return;
    const bool is_away = status == STATUS_RETRY || status == STATUS_STOP;
    health_set(inbox->options.health, "postgres",
               is_away ? store_last_error(inbox->options.store)->message : NULL);
}

static enum status keep(struct gateway_inbox *inbox, struct gateway_entry *const *entries,
                        size_t count)
{
    struct arena arena = { NULL };
    const struct gateway_row **rows = arena_allocate(&arena, (count + 1) * sizeof(void *));
    bool *is_new = arena_allocate(&arena, (count + 1) * sizeof *is_new);
    for (size_t i = 0; i < count; i++) rows[i] = &entries[i]->row;
    enum status status = STATUS_LOST_RACE;
    for (int tries = 0; tries < 5 && status == STATUS_LOST_RACE; tries++) {
        status = gateway_store_keep(inbox->options.store, rows, count, &arena, is_new);
    }
    say_health(inbox, status);
    if (status == STATUS_OK) {
        CRASH_POINT("gateway.after_commit_before_publish");
        if (inbox->options.bus != NULL) tell_recover(inbox, entries, is_new, count, &arena);
        for (size_t i = 0; i < count; i++) {
            answer(inbox, entries[i], is_new[i] ? GATEWAY_STORED : GATEWAY_DUPLICATE);
        }
    }
    arena_finish(&arena);
    return status;
}

static void answer_all(struct gateway_inbox *inbox, struct gateway_entry *const *entries,
                       size_t count, enum gateway_outcome outcome)
{
    for (size_t i = 0; i < count; i++) answer(inbox, entries[i], outcome);
}

/* Together; one that PostgreSQL can never take must not take the others with it. */
static void keep_or_halve(struct gateway_inbox *inbox, struct gateway_entry *const *entries,
                          size_t count)
{
    const enum status status = keep(inbox, entries, count);
    if (status == STATUS_OK) return;
    if (status != STATUS_BAD_DATA) {
        LOG_WARNING("webhooks not kept, their senders repeat them", LOG_NUMBER("count", count),
                    LOG_TEXT("status", status_name(status)));
        answer_all(inbox, entries, count, GATEWAY_UNAVAILABLE);
    } else if (count == 1) {
        LOG_ERROR("a webhook cannot be kept",
                  LOG_TEXT("sqlstate", store_last_error(inbox->options.store)->sqlstate),
                  LOG_TEXT("account", entries[0]->row.account));
        answer(inbox, entries[0], GATEWAY_REJECTED);
    } else {
        keep_or_halve(inbox, entries, count / 2);
        keep_or_halve(inbox, entries + count / 2, count - count / 2);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

/* With the lock: all that wait go into the hand; those that were answered meanwhile are dropped. */
static void take_in_hand(struct gateway_inbox *inbox)
{
    inbox->in_hand_count = 0;
    while (inbox->first != NULL && inbox->in_hand_count < BATCH_MAX) {
        struct gateway_entry *entry = inbox->first;
        inbox->first = entry->next;
        if (inbox->first == NULL) inbox->end = &inbox->first;
        inbox->count--;
        if (entry->is_answered)
            gateway_entry_free(entry);
        else
            inbox->in_hand[inbox->in_hand_count++] = entry;
    }
}

/*
 * With nothing to keep: does PostgreSQL's connection still stand? Who is not ready is sent nothing,
 * so that nothing else would ever find out that it is back.
 */
static void look_at_store(struct gateway_inbox *inbox)
{
    struct store *store = inbox->options.store;
    store_service(store, clock_monotonic_us());
    const char *problem = store_last_error(store)->message;
    if (inbox->options.health == NULL || (!store_is_connected(store) && problem[0] == '\0')) return;
    health_set(inbox->options.health, "postgres", store_is_connected(store) ? NULL : problem);
}

/* With the lock: until something arrives, or it is time to look at PostgreSQL. */
static void wait_for_entries(struct gateway_inbox *inbox)
{
    const int64_t wait_us =
        store_is_connected(inbox->options.store) ? LOOK_EVERY_US : LOOK_AGAIN_US;
    const int64_t until_us = clock_monotonic_us() + wait_us;
    const struct timespec until = { .tv_sec = until_us / CLOCK_SECOND_US,
                                    .tv_nsec = until_us % CLOCK_SECOND_US * 1000 };
    if (pthread_cond_timedwait(&inbox->arrived, &inbox->lock, &until) == 0) return;
    pthread_mutex_unlock(&inbox->lock);
    look_at_store(inbox);
    pthread_mutex_lock(&inbox->lock);
}

static void *run(void *self)
{
    struct gateway_inbox *inbox = self;
    pthread_mutex_lock(&inbox->lock);
    while (inbox->first != NULL || !inbox->is_closing) {
        if (inbox->first == NULL) {
            wait_for_entries(inbox);
            continue;
        }
        take_in_hand(inbox);
        const size_t count = inbox->in_hand_count;
        pthread_mutex_unlock(&inbox->lock);
        if (count > 0) keep_or_halve(inbox, inbox->in_hand, count);
        pthread_mutex_lock(&inbox->lock);
        inbox->in_hand_count = 0;
        for (size_t i = 0; i < count; i++) gateway_entry_free(inbox->in_hand[i]);
    }
    pthread_mutex_unlock(&inbox->lock);
    return NULL;
}

struct gateway_inbox *gateway_inbox_open(const struct gateway_inbox_options *options)
{
    struct gateway_inbox *inbox = memory_allocate(sizeof *inbox);
    sigset_t all;
    sigset_t before;
    inbox->options = *options;
    inbox->end = &inbox->first;
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&inbox->lock, NULL);
    (void)pthread_cond_init(&inbox->arrived, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&inbox->thread, NULL, run, inbox);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    INVARIANT(failed == 0);
    return inbox;
}

void gateway_inbox_close(struct gateway_inbox *inbox)
{
    if (inbox == NULL) return;
    pthread_mutex_lock(&inbox->lock);
    inbox->is_closing = true;
    (void)pthread_cond_signal(&inbox->arrived);
    pthread_mutex_unlock(&inbox->lock);
    (void)pthread_join(inbox->thread, NULL);
    (void)pthread_cond_destroy(&inbox->arrived);
    (void)pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}

bool gateway_inbox_put(struct gateway_inbox *inbox, struct gateway_entry *entry)
{
    entry->next = NULL;
    entry->is_answered = false;
    entry->due_us = clock_monotonic_us() + inbox->options.wait_ms * CLOCK_MILLISECOND_US;
    pthread_mutex_lock(&inbox->lock);
    const bool has_room = inbox->count < inbox->options.queue_max && !inbox->is_closing;
    if (has_room) {
        *inbox->end = entry;
        inbox->end = &entry->next;
        inbox->count++;
        (void)pthread_cond_signal(&inbox->arrived);
    }
    pthread_mutex_unlock(&inbox->lock);
    return has_room;
}
