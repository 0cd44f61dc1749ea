/*
 * ops/feed/feed_book.h: what a producer remembers of each payment: asked, repeated, answered,
 * final, and when. No I/O and no clock of its own: every time is a parameter (monotonic, us).
 */
#ifndef ONCEPAY_OPS_FEED_BOOK_H
#define ONCEPAY_OPS_FEED_BOOK_H

#include "ops/feed/feed_options.h"
#include "pipeline/id.h"

enum feed_state {
    FEED_PLANNED = 0,
    FEED_ASKED, /* sent, no answer yet: will be repeated */
    FEED_ACCEPTED,
    FEED_REFUSED, /* for good */
};

enum feed_end {
    FEED_END_NONE = 0,
    FEED_END_SUCCEEDED,
    FEED_END_FAILED,
    FEED_END_CANCELED,
};
enum { FEED_END_COUNT = 4 };

struct feed_payment {
    enum feed_state state;
    enum feed_end end;
    uint32_t sends;
    size_t place;       /* in book->asked while FEED_ASKED */
    int64_t planned_us; /* with a rate: when it should have been sent; else when it was */
    int64_t answered_us;
    int64_t final_us;
    int64_t repeat_us;
    char id[UUID_TEXT_SIZE]; /* the payment's id once accepted */
};

struct feed_book {
    const struct feed_options *options;
    struct feed_payment *payments;
    size_t *asked; /* indexes of all FEED_ASKED */
    size_t asked_count;
    size_t planned;    /* no more than so many are requested */
    size_t sent_count; /* payments 0 … sent_count - 1 were sent at least once */
    size_t accepted;
    size_t refused;
    size_t ends[FEED_END_COUNT];
    size_t final_accepted; /* accepted, and their final event was seen */
    uint64_t repeats;
    uint64_t queue_refusals; /* the stream said: full, or not there */
    uint64_t postponed;      /* answers that said: try again */
    int64_t started_us;
    int64_t moved_us; /* when something last became known */
    uint64_t random;
};

void feed_book_init(struct feed_book *book, const struct feed_options *options, int64_t now_us);
void feed_book_finish(struct feed_book *book);

int64_t feed_book_amount_minor(const struct feed_book *book, size_t index);
/* "<prefix>-0000007"; false when the name is none of this run. */
enum { FEED_NAME_SIZE = FEED_PREFIX_MAX + 9 };
char *feed_book_name(const struct feed_book *book, size_t index, char name[FEED_NAME_SIZE]);
bool feed_book_find(const struct feed_book *book, const char *name, size_t *out_index);

/* The next payment to send for the first time, or false and how long to wait for it. */
bool feed_book_next(const struct feed_book *book, int64_t now_us, size_t *out_index,
                    int64_t *out_wait_us);
/* Up to max payments whose answer is overdue. */
size_t feed_book_overdue(const struct feed_book *book, int64_t now_us, size_t max,
                         size_t *out_indexes);

/* It was handed to the bus (first time or again); the next repeat is planned. */
void feed_book_sent(struct feed_book *book, size_t index, int64_t now_us);
/* It surely did not arrive, or the answer was "later": again soon, at the earliest in wait_us. */
void feed_book_postpone(struct feed_book *book, size_t index, int64_t now_us, int64_t wait_us);
void feed_book_accepted(struct feed_book *book, size_t index, const char *id, int64_t now_us);
void feed_book_refused(struct feed_book *book, size_t index, int64_t now_us);
void feed_book_ended(struct feed_book *book, size_t index, enum feed_end end, int64_t now_us);

/* How many have an end. */
size_t feed_book_ended_count(const struct feed_book *book);
/* Nothing new from now on, if the time for it is over. */
void feed_book_close(struct feed_book *book, int64_t now_us);

/* Nothing is left to wait for, refusals included. */
bool feed_book_is_done(const struct feed_book *book);

#endif
