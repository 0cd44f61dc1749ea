/*
 * ops/sim/webhook.c: see webhook.h. An event waits for its time (deadline), then in a line (ready),
 * then flies. A receiver that refuses connections pauses the line as a whole; one that answers
 * badly gets that event again later.
 */
#include "ops/sim/webhook.h"

#include "ops/sim/protocol.h"

enum {
    RETRY_MS_MIN = 200,
    RETRY_MS_MAX = 10000,
    PAUSE_MS_MIN = 100,
    PAUSE_MS_MAX = 2000,
    CONNECT_TIMEOUT_MS = 2000,
    ANSWER_TIMEOUT_MS = 10000,
};

struct flight {
    CURL *curl;
    struct event *event; /* NULL: free */
    struct curl_slist *headers;
    struct textbuf body;
};

struct webhook_sender {
    char *url;
    struct ledger *ledger;
    struct fault_set *faults;
    struct deadline_queue *deadlines;
    CURLM *multi;
    struct flight flights[WEBHOOK_FLIGHTS_MAX];
    struct event *all;
    struct event *ready_first;
    struct event *ready_last;
    struct deadline pause;
    int64_t pause_ms; /* the last one's length; 0 while the receiver is there */
    struct webhook_counts counts;
};

static size_t discard(char *data, size_t size, size_t count, void *self)
{
    (void)data;
    (void)self;
    return size * count;
}

/* The line of events. */

static void start_flights(struct webhook_sender *sender);

static void on_pause_over(void *self)
{
    start_flights(self);
}

static void make_ready(struct event *event)
{
    struct webhook_sender *sender = event->sender;
    event->next_ready = NULL;
    if (sender->ready_last == NULL) {
        sender->ready_first = event;
    } else {
        sender->ready_last->next_ready = event;
    }
    sender->ready_last = event;
}

static void on_due(void *self)
{
    struct event *event = self;
    make_ready(event);
    start_flights(event->sender);
}

static void enqueue(struct webhook_sender *sender, struct event *event, int64_t delay_ms)
{
    if (sender->counts.waiting >= WEBHOOK_QUEUE_MAX) {
        sender->counts.dropped++;
        free(event->body);
        free(event);
        return;
    }
    sender->counts.waiting++;
    event->sender = sender;
    event->next = sender->all;
    if (sender->all != NULL) sender->all->previous = event;
    sender->all = event;
    event->deadline = (struct deadline){ .fire = on_due, .self = event };
    if (delay_ms > 0) {
        deadline_arm(sender->deadlines, &event->deadline, ident_monotonic_ms() + delay_ms);
    } else {
        make_ready(event); /* webhook_run, or the end of this request's commit, sends it */
    }
}

static void drop(struct webhook_sender *sender, struct event *event)
{
    deadline_cancel(sender->deadlines, &event->deadline);
    if (event->previous != NULL) event->previous->next = event->next;
    if (event->next != NULL) event->next->previous = event->previous;
    if (sender->all == event) sender->all = event->next;
    sender->counts.waiting--;
    free(event->body);
    free(event);
}

/* Making events. */

static void enqueue_copies(struct webhook_sender *sender, const struct event *event, int64_t count,
                           bool is_forged, int64_t delay_ms)
{
    for (int64_t i = 0; i < count; i++) {
        struct event *copy = memory_allocate(sizeof *copy);
        *copy = *event;
        if (event->body != NULL) copy->body = memory_copy_text(event->body);
        copy->previous = copy->next = copy->next_ready = NULL;
        copy->is_copy = true;
        copy->is_forged = is_forged;
        enqueue(sender, copy, delay_ms);
    }
}

void webhook_emit(struct webhook_sender *sender, const struct charge *charge)
{
    const struct protocol *protocol = protocol_of_account(charge->account);
    const char *type = protocol->event_type(charge->state);
    if (!webhook_is_on(sender) || type == NULL) return;
    struct textbuf draw = { 0 };
    textbuf_format(&draw, "%s/%s", charge->key == NULL ? charge->object : charge->key, type);
    const struct fault_subject subject = { .account = charge->account->name,
                                           .method = charge->method,
                                           .key = charge->key,
                                           .amount_minor = charge->amount_minor,
                                           .draw = draw.data };
    struct fault fault;
    if (!faults_draw(sender->faults, FAULT_SLOT_WEBHOOK_NONE, &subject, &fault)) {
        struct event *event = memory_allocate(sizeof *event);
        *event = (struct event){ .account = charge->account,
                                 .charge = charge,
                                 .state = charge->state,
                                 .created_s = charge->changed_s };
        (void)ident_make("evt_", event->id);
        (void)snprintf(event->type, sizeof event->type, "%s", type);
        (void)snprintf(event->decline_code, sizeof event->decline_code, "%s", charge->decline_code);
        ledger_note_event(sender->ledger, event);
        int64_t delay_ms = 0;
        if (faults_draw(sender->faults, FAULT_SLOT_WEBHOOK_DELAY, &subject, &fault)) {
            delay_ms += fault.ms;
        }
        if (faults_draw(sender->faults, FAULT_SLOT_WEBHOOK_REORDER, &subject, &fault)) {
            delay_ms += fault.ms; /* what comes later overtakes it */
        }
        if (faults_draw(sender->faults, FAULT_SLOT_WEBHOOK_FORGE, &subject, &fault)) {
            enqueue_copies(sender, event, fault.times, true, delay_ms);
        }
        if (faults_draw(sender->faults, FAULT_SLOT_WEBHOOK_DUPLICATE, &subject, &fault)) {
            enqueue_copies(sender, event, fault.times, false, delay_ms);
        }
        enqueue(sender, event, delay_ms);
    }
    textbuf_finish(&draw);
}

void webhook_emit_order(struct webhook_sender *sender, const struct webhook_order *order,
                        char out_id[IDENT_SIZE])
{
    struct event *event = memory_allocate(sizeof *event);
    *event = (struct event){ .account = order->account,
                             .created_s = order->created_s,
                             .timestamp_offset_s = order->timestamp_offset_s,
                             .is_forged = order->is_forged,
                             /* A receiver that is right never accepts these: do not insist. */
                             .is_copy = order->is_forged || order->timestamp_offset_s != 0 };
    (void)ident_make("evt_", event->id);
    (void)snprintf(event->type, sizeof event->type, "%s", order->type);
    memcpy(out_id, event->id, IDENT_SIZE);
    struct textbuf body = { 0 };
    protocol_of_account(order->account)->render_event(event, order->snapshot, &body);
    event->body = body.data;
    if (!event->is_copy) ledger_note_event(sender->ledger, event);
    enqueue_copies(sender, event, order->copies, order->is_forged, order->delay_ms);
    enqueue(sender, event, order->delay_ms);
}

/* Flying. */

static void render(const struct event *event, struct textbuf *out)
{
    textbuf_clear(out);
    if (event->body != NULL) {
        textbuf_text(out, event->body);
        return;
    }
    struct charge snapshot = *event->charge;
    snapshot.state = event->state;
    snapshot.changed_s = event->created_s;
    memcpy(snapshot.decline_code, event->decline_code, sizeof snapshot.decline_code);
    protocol_of_account(event->account)->render_event(event, &snapshot, out);
}

static void start_flight(struct webhook_sender *sender, struct flight *flight, struct event *event)
{
    flight->event = event;
    render(event, &flight->body);
    struct textbuf line = { 0 };
    protocol_of_account(event->account)
        ->sign(event->account->name, event->is_forged,
               ident_real_ms() / 1000 + event->timestamp_offset_s,
               (struct span){ (const uint8_t *)flight->body.data, flight->body.length }, &line);
    curl_slist_free_all(flight->headers);
    flight->headers = curl_slist_append(NULL, line.data);
    flight->headers = curl_slist_append(flight->headers, "Content-Type: application/json");
    flight->headers = curl_slist_append(flight->headers, "Expect:");
    textbuf_clear(&line);
    textbuf_format(&line, "%s/%s", sender->url, event->account->name);
    (void)curl_easy_setopt(flight->curl, CURLOPT_URL, line.data);
    (void)curl_easy_setopt(flight->curl, CURLOPT_HTTPHEADER, flight->headers);
    (void)curl_easy_setopt(flight->curl, CURLOPT_POSTFIELDSIZE, (long)flight->body.length);
    (void)curl_easy_setopt(flight->curl, CURLOPT_POSTFIELDS, flight->body.data);
    textbuf_finish(&line);
    INVARIANT(curl_multi_add_handle(sender->multi, flight->curl) == CURLM_OK);
    sender->counts.in_flight++;
    sender->counts.attempts++;
}

static void start_flights(struct webhook_sender *sender)
{
    for (size_t i = 0; i < WEBHOOK_FLIGHTS_MAX; i++) {
        if (sender->ready_first == NULL || sender->pause.position != 0) return;
        if (sender->flights[i].event != NULL) continue;
        struct event *event = sender->ready_first;
        sender->ready_first = event->next_ready;
        if (sender->ready_first == NULL) sender->ready_last = NULL;
        start_flight(sender, &sender->flights[i], event);
    }
}

static void pause_line(struct webhook_sender *sender)
{
    if (sender->pause.position != 0) return;
    sender->pause_ms = sender->pause_ms == 0 ? PAUSE_MS_MIN : sender->pause_ms * 2;
    if (sender->pause_ms > PAUSE_MS_MAX) sender->pause_ms = PAUSE_MS_MAX;
    deadline_arm(sender->deadlines, &sender->pause, ident_monotonic_ms() + sender->pause_ms);
}

static void retry_later(struct webhook_sender *sender, struct event *event)
{
    int64_t wait_ms = RETRY_MS_MAX;
    if (event->tries < 6) wait_ms = (int64_t)RETRY_MS_MIN << event->tries;
    if (wait_ms > RETRY_MS_MAX) wait_ms = RETRY_MS_MAX;
    event->tries++;
    deadline_arm(sender->deadlines, &event->deadline, ident_monotonic_ms() + wait_ms);
}

static void land(struct webhook_sender *sender, struct flight *flight, CURLcode result)
{
    struct event *event = flight->event;
    long status = 0;
    (void)curl_easy_getinfo(flight->curl, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_multi_remove_handle(sender->multi, flight->curl);
    flight->event = NULL;
    sender->counts.in_flight--;
    if (result == CURLE_COULDNT_CONNECT) {
        pause_line(sender);
        make_ready(event);
        return;
    }
    sender->pause_ms = 0;
    const bool is_accepted = result == CURLE_OK && status >= 200 && status < 300;
    if (event->is_copy) {
        drop(sender, event);
    } else if (is_accepted) {
        sender->counts.acknowledged++;
        ledger_note_acknowledged(sender->ledger, event);
        drop(sender, event);
    } else {
        retry_later(sender, event);
    }
}

void webhook_run(struct webhook_sender *sender)
{
    if (!webhook_is_on(sender)) return;
    start_flights(sender);
    if (sender->counts.in_flight == 0) return;
    int running = 0;
    (void)curl_multi_perform(sender->multi, &running);
    int left = 0;
    for (CURLMsg *message = curl_multi_info_read(sender->multi, &left); message != NULL;
         message = curl_multi_info_read(sender->multi, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        struct flight *flight = NULL;
        const CURLcode result = message->data.result;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &flight);
        land(sender, flight, result);
    }
    ledger_commit(sender->ledger);
    start_flights(sender);
}

/* Life. */

static void prepare(struct flight *flight)
{
    flight->curl = curl_easy_init();
    INVARIANT(flight->curl != NULL);
    (void)curl_easy_setopt(flight->curl, CURLOPT_PRIVATE, flight);
    (void)curl_easy_setopt(flight->curl, CURLOPT_WRITEFUNCTION, discard);
    (void)curl_easy_setopt(flight->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(flight->curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(flight->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(flight->curl, CURLOPT_TIMEOUT_MS, (long)ANSWER_TIMEOUT_MS);
}

struct webhook_sender *webhook_create(const char *url, struct ledger *ledger,
                                      struct fault_set *faults, struct deadline_queue *deadlines)
{
    struct webhook_sender *sender = memory_allocate(sizeof *sender);
    sender->url = memory_copy_text(url == NULL ? "" : url);
    sender->ledger = ledger;
    sender->faults = faults;
    sender->deadlines = deadlines;
    sender->pause = (struct deadline){ .fire = on_pause_over, .self = sender };
    sender->multi = curl_multi_init();
    INVARIANT(sender->multi != NULL);
    for (size_t i = 0; i < WEBHOOK_FLIGHTS_MAX && webhook_is_on(sender); i++) {
        prepare(&sender->flights[i]);
    }
    return sender;
}

bool webhook_is_on(const struct webhook_sender *sender)
{
    return sender->url[0] != '\0';
}

void webhook_resume(struct webhook_sender *sender)
{
    struct ledger *ledger = sender->ledger;
    if (!webhook_is_on(sender)) return;
    for (size_t i = 0; i < ledger->unacknowledged_count; i++) {
        enqueue(sender, ledger->unacknowledged[i], 0);
    }
    free(ledger->unacknowledged);
    ledger->unacknowledged = NULL;
    ledger->unacknowledged_count = 0;
}

void webhook_clear(struct webhook_sender *sender)
{
    for (size_t i = 0; i < WEBHOOK_FLIGHTS_MAX; i++) {
        if (sender->flights[i].event == NULL) continue;
        (void)curl_multi_remove_handle(sender->multi, sender->flights[i].curl);
        sender->flights[i].event = NULL;
    }
    while (sender->all != NULL) drop(sender, sender->all);
    sender->ready_first = sender->ready_last = NULL;
    deadline_cancel(sender->deadlines, &sender->pause);
    sender->pause_ms = 0;
    sender->counts = (struct webhook_counts){ 0 };
}

void webhook_destroy(struct webhook_sender *sender)
{
    if (sender == NULL) return;
    webhook_clear(sender);
    for (size_t i = 0; i < WEBHOOK_FLIGHTS_MAX; i++) {
        curl_easy_cleanup(sender->flights[i].curl);
        curl_slist_free_all(sender->flights[i].headers);
        textbuf_finish(&sender->flights[i].body);
    }
    (void)curl_multi_cleanup(sender->multi);
    free(sender->url);
    free(sender);
}

CURLM *webhook_multi(const struct webhook_sender *sender)
{
    return sender->multi;
}

struct webhook_counts webhook_counts(const struct webhook_sender *sender)
{
    return sender->counts;
}
