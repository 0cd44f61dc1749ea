/* stages/relay/relay_reader.c: see relay_reader.h. */
#include "stages/relay/relay_reader.h"

static void replace(char **text, char *with)
{
    free(*text);
    *text = with;
}

static void begin_page(struct relay_reader *reader, int64_t xid, struct uuid id)
{
    reader->after_xid = xid;
    reader->after_id = id;
}

char *relay_reader_snapshot_before(int64_t xid)
{
    char text[2 * RELAY_SNAPSHOT_XID_LENGTH_MAX + 4];
    (void)snprintf(text, sizeof text, "%" PRId64 ":%" PRId64 ":", xid, xid);
    return memory_copy_text(text);
}

void relay_reader_start(struct relay_reader *reader, int64_t mark_xid)
{
    replace(&reader->base, relay_reader_snapshot_before(mark_xid));
    replace(&reader->target, NULL);
    begin_page(reader, 0, (struct uuid){ { 0 } });
}

void relay_reader_skip(struct relay_reader *reader, const char *snapshot)
{
    char *copy = memory_copy_text(snapshot); /* it may be our own */
    replace(&reader->base, copy);
    replace(&reader->target, NULL);
    begin_page(reader, 0, (struct uuid){ { 0 } });
}

void relay_reader_limit(struct relay_reader *reader, const char *snapshot)
{
    replace(&reader->target, memory_copy_text(snapshot));
}

void relay_reader_finish(struct relay_reader *reader)
{
    free(reader->base);
    free(reader->target);
    *reader = (struct relay_reader){ 0 };
}

int64_t relay_reader_step(struct relay_reader *reader, const struct relay_reader_page *page)
{
    if (!page->is_full) {
        relay_reader_skip(reader, page->snapshot);
        return page->xmin;
    }
    if (reader->target == NULL) reader->target = memory_copy_text(page->snapshot);
    begin_page(reader, page->last_xid, page->last_id);
    /* The last transaction may have more events; one that runs may have any number. */
    return page->last_xid < page->xmin ? page->last_xid : page->xmin;
}
