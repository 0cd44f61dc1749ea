/*
 * stages/relay/relay_reader.h: which events have been read. Pure. A database snapshot says exactly
 * which transactions were over when it was taken, so the events that are new since are those of
 * the transactions that it saw running or did not know yet: nothing is skipped when transactions
 * end in another order than they began, and nothing is read twice (protocol H2, case C50).
 *
 * What is new is read in pages; all pages of one round belong to the snapshot of the first.
 */
#ifndef ONCEPAY_STAGES_RELAY_RELAY_READER_H
#define ONCEPAY_STAGES_RELAY_RELAY_READER_H

#include "pipeline/id.h"

enum { RELAY_SNAPSHOT_XID_LENGTH_MAX = 20 };

struct relay_reader {
    char *base;        /* all events that this snapshot shows have been read */
    char *target;      /* the snapshot that is being read in pages; NULL: none */
    int64_t after_xid; /* where the next page begins */
    struct uuid after_id;
};

/* Before the first event of this transaction, or a later one, was read. */
void relay_reader_start(struct relay_reader *reader, int64_t mark_xid);
/* What the snapshot shows counts as read. */
void relay_reader_skip(struct relay_reader *reader, const char *snapshot);
/* Only up to the end of that snapshot. */
void relay_reader_limit(struct relay_reader *reader, const char *snapshot);
void relay_reader_finish(struct relay_reader *reader);

/* One page as it was read. */
struct relay_reader_page {
    const char *snapshot;
    int64_t xmin;     /* of the snapshot */
    bool is_full;     /* there may be more of it */
    int64_t last_xid; /* of the last event; is_full only */
    struct uuid last_id;
};
/*
 * Steps over the page. Returns the mark that holds once its events, and all before, are confirmed.
 */
int64_t relay_reader_step(struct relay_reader *reader, const struct relay_reader_page *page);

/* A round is half read. */
static inline bool relay_reader_is_paging(const struct relay_reader *reader)
{
    return reader->target != NULL;
}

/* A snapshot that shows every transaction before xid, and none from it on. The caller frees. */
char *relay_reader_snapshot_before(int64_t xid);

#endif
