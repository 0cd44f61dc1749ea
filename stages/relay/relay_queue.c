/*
 * stages/relay/relay_queue.c: see relay_queue.h. One line per payment, in a hash table; a line
 * whose first event may go stands in the list of the ready ones, or, after a refusal, of the
 * delayed.
 */
#include "stages/relay/relay_queue.h"

enum { SLOTS_MIN = 1024 };

struct relay_pass {
    struct relay_pass *next;
    int64_t mark;
    int64_t oldest_us; /* of its events; 0: it had none */
    size_t open;       /* unconfirmed events */
};

struct node {
    struct relay_event event; /* first: the caller's pointer is the node's */
    struct node *next;        /* in its line */
    struct relay_pass *pass;  /* NULL: the queue was emptied while it was in flight */
    enum relay_lane lane;
};

enum line_state { LINE_READY, LINE_IN_FLIGHT, LINE_DELAYED };

struct line {
    struct uuid key;
    struct line *chain; /* hash table */
    struct line *next;  /* ready or delayed list */
    struct line *previous;
    struct node *first; /* in order; the one in flight is always the first */
    enum line_state state;
    int64_t due_us;
};

struct list {
    struct line *first;
    struct line *last;
    size_t count;
};

struct lane {
    struct relay_pass *first;
    struct relay_pass *last;
    int64_t mark;
};

struct relay_queue {
    struct line **slots;
    size_t slot_count;
    size_t line_count;
    size_t event_count;
    size_t in_flight;
    struct list ready;
    struct list delayed;
    struct lane lanes[RELAY_LANE_COUNT];
};

/* --- lines ------------------------------------------------------------------------------------ */

static size_t slot_of(const struct relay_queue *queue, struct uuid key)
{
    return uuid_fnv1a(key) & (queue->slot_count - 1);
}

static struct line *find_line(const struct relay_queue *queue, struct uuid key)
{
    struct line *line = queue->slots[slot_of(queue, key)];
    while (line != NULL && !uuid_equal(line->key, key)) line = line->chain;
    return line;
}

static void grow(struct relay_queue *queue)
{
    struct line **old = queue->slots;
    const size_t old_count = queue->slot_count;
    queue->slot_count = old_count * 2;
    queue->slots = memory_allocate(queue->slot_count * sizeof *queue->slots);
    for (size_t i = 0; i < old_count; i++) {
        for (struct line *line = old[i]; line != NULL;) {
            struct line *next = line->chain;
            const size_t slot = slot_of(queue, line->key);
            line->chain = queue->slots[slot];
            queue->slots[slot] = line;
            line = next;
        }
    }
    free(old);
}

static void list_append(struct list *list, struct line *line)
{
    line->next = NULL;
    line->previous = list->last;
    if (list->last != NULL)
        list->last->next = line;
    else
        list->first = line;
    list->last = line;
    list->count++;
}

static void list_prepend(struct list *list, struct line *line)
{
    line->previous = NULL;
    line->next = list->first;
    if (list->first != NULL)
        list->first->previous = line;
    else
        list->last = line;
    list->first = line;
    list->count++;
}

static void list_remove(struct list *list, struct line *line)
{
    if (line->previous != NULL)
        line->previous->next = line->next;
    else
        list->first = line->next;
    if (line->next != NULL)
        line->next->previous = line->previous;
    else
        list->last = line->previous;
    list->count--;
}

static struct line *make_line(struct relay_queue *queue, struct uuid key)
{
    if (queue->line_count >= queue->slot_count) grow(queue);
    struct line *line = memory_allocate(sizeof *line);
    line->key = key;
    line->state = LINE_READY;
    const size_t slot = slot_of(queue, key);
    line->chain = queue->slots[slot];
    queue->slots[slot] = line;
    queue->line_count++;
    list_append(&queue->ready, line);
    return line;
}

static void drop_line(struct relay_queue *queue, struct line *line)
{
    struct line **at = &queue->slots[slot_of(queue, line->key)];
    while (*at != line) at = &(*at)->chain;
    *at = line->chain;
    queue->line_count--;
    free(line);
}

/* --- passes ----------------------------------------------------------------------------------- */

static void settle_passes(struct lane *lane)
{
    while (lane->first != NULL && lane->first->open == 0 && lane->first != lane->last) {
        struct relay_pass *done = lane->first;
        lane->mark = done->mark;
        lane->first = done->next;
        free(done);
    }
    /* The last one may still be added to; its mark counts, its place stays. */
    if (lane->first != NULL && lane->first->open == 0) lane->mark = lane->first->mark;
}

void relay_queue_pass(struct relay_queue *queue, enum relay_lane lane_name, int64_t mark)
{
    struct lane *lane = &queue->lanes[lane_name];
    settle_passes(lane);
    /* A pass without open events is continued: behind a slow one they do not pile up. */
    if (lane->last != NULL && lane->last->open == 0) {
        lane->last->mark = mark;
        lane->last->oldest_us = 0;
    } else {
        struct relay_pass *pass = memory_allocate(sizeof *pass);
        pass->mark = mark;
        if (lane->last != NULL)
            lane->last->next = pass;
        else
            lane->first = pass;
        lane->last = pass;
    }
}

int64_t relay_queue_mark(const struct relay_queue *queue, enum relay_lane lane_name)
{
    const struct lane *lane = &queue->lanes[lane_name];
    const bool is_done = lane->first != NULL && lane->first->open == 0;
    return is_done ? lane->first->mark : lane->mark;
}

bool relay_queue_is_done(const struct relay_queue *queue, enum relay_lane lane_name)
{
    const struct lane *lane = &queue->lanes[lane_name];
    return lane->first == NULL || (lane->first == lane->last && lane->first->open == 0);
}

int64_t relay_queue_oldest_us(const struct relay_queue *queue, enum relay_lane lane_name)
{
    const struct relay_pass *first = queue->lanes[lane_name].first;
    return first == NULL || first->open == 0 ? 0 : first->oldest_us;
}

/* --- events ----------------------------------------------------------------------------------- */

static struct node *copy_event(const struct relay_event *event)
{
    const size_t subject_size = strlen(event->subject) + 1;
    const size_t headers_size = strlen(event->headers) + 1;
    struct node *node =
        memory_allocate(sizeof *node + subject_size + headers_size + event->body.length);
    char *text = (char *)(node + 1);
    node->event = *event;
    node->event.subject = memcpy(text, event->subject, subject_size);
    node->event.headers = memcpy(text + subject_size, event->headers, headers_size);
    char *body = text + subject_size + headers_size;
    if (event->body.length > 0) memcpy(body, event->body.data, event->body.length);
    node->event.body.data = (const uint8_t *)body;
    return node;
}

static bool goes_before(const struct relay_event *a, const struct relay_event *b)
{
    if (a->version != b->version) return a->version < b->version;
    return uuid_compare(a->id.uuid, b->id.uuid) < 0;
}

static void insert(struct line *line, struct node *node)
{
    struct node **at = &line->first;
    if (line->state == LINE_IN_FLIGHT) at = &(*at)->next; /* what has left has left */
    while (*at != NULL && !goes_before(&node->event, &(*at)->event)) at = &(*at)->next;
    node->next = *at;
    *at = node;
}

void relay_queue_add(struct relay_queue *queue, enum relay_lane lane_name,
                     const struct relay_event *event)
{
    struct lane *lane = &queue->lanes[lane_name];
    INVARIANT(lane->last != NULL);
    struct node *node = copy_event(event);
    node->lane = lane_name;
    node->pass = lane->last;
    node->pass->open++;
    if (node->pass->oldest_us == 0 || event->created_us < node->pass->oldest_us) {
        node->pass->oldest_us = event->created_us;
    }
    const struct uuid key = uuid_is_nil(event->payment.uuid) ? event->id.uuid : event->payment.uuid;
    struct line *line = find_line(queue, key);
    if (line == NULL) line = make_line(queue, key);
    insert(line, node);
    queue->event_count++;
}

struct relay_event *relay_queue_next(struct relay_queue *queue)
{
    struct line *line = queue->ready.first;
    if (line == NULL) return NULL;
    list_remove(&queue->ready, line);
    line->state = LINE_IN_FLIGHT;
    queue->in_flight++;
    return &line->first->event;
}

/*
 * The line whose first event this is, no longer in flight; NULL if the queue was emptied (then it
 * is freed).
 */
static struct line *land(struct relay_queue *queue, struct relay_event *event,
                         struct node **out_node)
{
    union {
        struct relay_event *event;
        struct node *node;
    } view = { .event = event };
    queue->in_flight--;
    if (view.node->pass == NULL) {
        free(view.node);
        return NULL;
    }
    const struct uuid key = uuid_is_nil(event->payment.uuid) ? event->id.uuid : event->payment.uuid;
    struct line *line = find_line(queue, key);
    INVARIANT(line != NULL && line->first == view.node && line->state == LINE_IN_FLIGHT);
    *out_node = view.node;
    return line;
}

bool relay_queue_confirm(struct relay_queue *queue, struct relay_event *event)
{
    struct node *node = NULL;
    struct line *line = land(queue, event, &node);
    if (line == NULL) return false;
    line->first = node->next;
    node->pass->open--;
    settle_passes(&queue->lanes[node->lane]);
    free(node);
    queue->event_count--;
    if (line->first == NULL) {
        drop_line(queue, line);
    } else {
        line->state = LINE_READY;
        list_append(&queue->ready, line);
    }
    return true;
}

/* Back into its line, where one that came later may have to go before it. */
static struct line *take_back(struct relay_queue *queue, struct relay_event *event,
                              enum line_state state)
{
    struct node *node = NULL;
    struct line *line = land(queue, event, &node);
    if (line == NULL) return NULL;
    line->first = node->next;
    line->state = state;
    insert(line, node);
    return line;
}

bool relay_queue_retry(struct relay_queue *queue, struct relay_event *event)
{
    struct line *line = take_back(queue, event, LINE_READY);
    if (line == NULL) return false;
    list_prepend(&queue->ready, line);
    return true;
}

bool relay_queue_delay(struct relay_queue *queue, struct relay_event *event, int64_t due_us)
{
    struct line *line = take_back(queue, event, LINE_DELAYED);
    if (line == NULL) return false;
    line->due_us = due_us;
    list_append(&queue->delayed, line);
    return true;
}

void relay_queue_wake(struct relay_queue *queue, int64_t now_us)
{
    for (struct line *line = queue->delayed.first; line != NULL;) {
        struct line *next = line->next;
        if (line->due_us <= now_us) {
            list_remove(&queue->delayed, line);
            line->state = LINE_READY;
            list_append(&queue->ready, line);
        }
        line = next;
    }
}

/* --- life ------------------------------------------------------------------------------------- */

struct relay_queue *relay_queue_create(void)
{
    struct relay_queue *queue = memory_allocate(sizeof *queue);
    queue->slot_count = SLOTS_MIN;
    queue->slots = memory_allocate(queue->slot_count * sizeof *queue->slots);
    return queue;
}

/* The event in flight, if there is one, is kept for whoever holds it. */
static void free_line(struct line *line, bool keeps_flying)
{
    struct node *node = line->first;
    if (keeps_flying && line->state == LINE_IN_FLIGHT) {
        struct node *flying = node;
        node = node->next;
        flying->next = NULL;
        flying->pass = NULL;
    }
    while (node != NULL) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
    free(line);
}

static void clear(struct relay_queue *queue, bool keeps_flying)
{
    for (size_t i = 0; i < queue->slot_count; i++) {
        for (struct line *line = queue->slots[i]; line != NULL;) {
            struct line *next = line->chain;
            free_line(line, keeps_flying);
            line = next;
        }
        queue->slots[i] = NULL;
    }
    for (size_t i = 0; i < RELAY_LANE_COUNT; i++) {
        for (struct relay_pass *pass = queue->lanes[i].first; pass != NULL;) {
            struct relay_pass *next = pass->next;
            free(pass);
            pass = next;
        }
        queue->lanes[i] = (struct lane){ NULL, NULL, 0 };
    }
    queue->ready = (struct list){ NULL, NULL, 0 };
    queue->delayed = (struct list){ NULL, NULL, 0 };
    queue->line_count = 0;
    queue->event_count = 0;
}

void relay_queue_empty(struct relay_queue *queue)
{
    clear(queue, true);
}

void relay_queue_destroy(struct relay_queue *queue)
{
    if (queue == NULL) return;
    clear(queue, false);
    free(queue->slots);
    free(queue);
}

size_t relay_queue_count(const struct relay_queue *queue)
{
    return queue->event_count;
}

size_t relay_queue_in_flight(const struct relay_queue *queue)
{
    return queue->in_flight;
}

size_t relay_queue_delayed(const struct relay_queue *queue)
{
    return queue->delayed.count;
}
