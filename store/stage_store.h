/*
 * store/stage_store.h: what the shared batch loop keeps: messages that cannot be handled, and
 * how often a suspicious one was tried (protocol H6).
 */
#ifndef ONCEPAY_STORE_STAGE_STORE_H
#define ONCEPAY_STORE_STAGE_STORE_H

#include "store/store.h"

struct dead_letter {
    struct uuid id;       /* drawn once: a repeat changes nothing */
    const char *consumer; /* "intake" */
    const char *subject;
    uint64_t sequence;
    uint64_t deliveries;
    const char *headers; /* "name: value" lines */
    struct span body;
    const char *method_token; /* NULL if none */
    const char *code;
    const char *field;         /* NULL if none */
    const char *problem;       /* JSON */
    struct payment_id payment; /* nil if not known */
    struct case_id case_id;    /* nil: no case */
    int64_t stored_at_us;
};

void dead_letter_call(struct sql_call *call, const struct dead_letter *letter, struct arena *arena);
enum status dead_letter_write(struct store *store, const struct dead_letter *letter,
                              struct arena *arena) MUST_CHECK;

void delivery_trial_note_call(struct sql_call *call, const char *consumer, const char *message,
                              struct arena *arena); /* -> one row, trials so far */
void delivery_trial_clear_call(struct sql_call *call, const char *consumer, const char *message,
                               struct arena *arena);
/* Counts and commits one more trial; out_trials includes it. */
enum status delivery_trial_note(struct store *store, const char *consumer, const char *message,
                                struct arena *arena, int *out_trials) MUST_CHECK;
enum status delivery_trial_clear(struct store *store, const char *consumer, const char *message,
                                 struct arena *arena) MUST_CHECK;

#endif
