/*
 * store/query_letter.h: dead letters as a person looks at them and sends them again. The method
 * token that a refused request was kept without is read for a replay only.
 */
#ifndef ONCEPAY_STORE_QUERY_LETTER_H
#define ONCEPAY_STORE_QUERY_LETTER_H

#include "store/stage_store.h"

struct query_letter {
    struct dead_letter letter; /* body and token only when one is read whole */
    int32_t replays;
    int64_t replayed_us; /* 0: never */
    int64_t created_us;
};

/* The newest first. Lives in the arena, like all that is read here. */
enum status query_letters_read(struct store *store, int32_t limit, struct arena *arena,
                               struct query_letter **out_letters, size_t *out_count) MUST_CHECK;
/* STATUS_NOT_FOUND: there is none of this id. */
enum status query_letter_read(struct store *store, struct uuid id, struct arena *arena,
                              struct query_letter *out_letter) MUST_CHECK;
/* It was published again: counted, and its case closed. who: for the case's record. */
enum status query_letter_replayed(struct store *store, struct uuid id, const char *who,
                                  struct arena *arena, int32_t *out_replays) MUST_CHECK;

#endif
