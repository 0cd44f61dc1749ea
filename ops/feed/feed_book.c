/* ops/feed/feed_book.c: see feed_book.h. */
#include "ops/feed/feed_book.h"

#include "pipeline/clock.h"

/* A lost acceptance must not wait long; a busy pipeline must not be flooded. */
enum { REPEAT_FIRST_US = 2000000, REPEAT_LAST_US = 10000000, NAME_DIGITS = 7 };

/* splitmix64: one step, well mixed; amounts are a pure function of seed and index. */
static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void feed_book_init(struct feed_book *book, const struct feed_options *options, int64_t now_us)
{
    *book = (struct feed_book){
        .options = options,
        .payments = memory_allocate(options->payments * sizeof *book->payments),
        .asked = memory_allocate(options->payments * sizeof *book->asked),
        .planned = options->payments,
        .started_us = now_us,
        .moved_us = now_us,
        .random = options->seed,
    };
}

void feed_book_finish(struct feed_book *book)
{
    free(book->payments);
    free(book->asked);
    *book = (struct feed_book){ 0 };
}

int64_t feed_book_amount_minor(const struct feed_book *book, size_t index)
{
    const struct feed_options *options = book->options;
    const uint64_t width = (uint64_t)(options->amount_max_minor - options->amount_min_minor) + 1;
    return options->amount_min_minor + (int64_t)(mix(options->seed * 0x10001 + index) % width);
}

char *feed_book_name(const struct feed_book *book, size_t index, char name[FEED_NAME_SIZE])
{
    (void)snprintf(name, FEED_NAME_SIZE, "%s-%07zu", book->options->prefix, index);
    return name;
}

bool feed_book_find(const struct feed_book *book, const char *name, size_t *out_index)
{
    const size_t length = strlen(book->options->prefix);
    if (strncmp(name, book->options->prefix, length) != 0 || name[length] != '-') return false;
    const char *digits = name + length + 1;
    if (strlen(digits) != NAME_DIGITS) return false;
    size_t index = 0;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9') return false;
        index = index * 10 + (size_t)(digits[i] - '0');
    }
    if (index >= book->options->payments) return false;
    *out_index = index;
    return true;
}

static int64_t planned_us(const struct feed_book *book, size_t index)
{
    return book->started_us +
           (int64_t)(index * (uint64_t)CLOCK_SECOND_US / book->options->rate_per_s);
}

bool feed_book_next(const struct feed_book *book, int64_t now_us, size_t *out_index,
                    int64_t *out_wait_us)
{
    *out_wait_us = INT64_MAX;
    const struct feed_options *options = book->options;
    if (book->sent_count == book->planned || book->asked_count >= options->in_flight) return false;
    if (options->unfinished > 0 &&
        book->sent_count - book->refused - feed_book_ended_count(book) >= options->unfinished) {
        return false;
    }
    if (options->rate_per_s > 0) {
        *out_wait_us = planned_us(book, book->sent_count) - now_us;
        if (*out_wait_us > 0) return false;
    }
    *out_index = book->sent_count;
    return true;
}

size_t feed_book_overdue(const struct feed_book *book, int64_t now_us, size_t max,
                         size_t *out_indexes)
{
    size_t count = 0;
    for (size_t i = 0; i < book->asked_count && count < max; i++) {
        const size_t index = book->asked[i];
        if (book->payments[index].repeat_us <= now_us) out_indexes[count++] = index;
    }
    return count;
}

/* Between 80 and 120 %, so that what was lost together does not come back together. */
static int64_t jitter(struct feed_book *book, int64_t wait_us)
{
    book->random = mix(book->random);
    return wait_us * 8 / 10 + (int64_t)(book->random % (uint64_t)(wait_us * 4 / 10 + 1));
}

void feed_book_sent(struct feed_book *book, size_t index, int64_t now_us)
{
    struct feed_payment *payment = &book->payments[index];
    if (payment->state == FEED_PLANNED) {
        payment->state = FEED_ASKED;
        payment->planned_us = book->options->rate_per_s > 0 ? planned_us(book, index) : now_us;
        payment->place = book->asked_count;
        book->asked[book->asked_count++] = index;
        book->sent_count++;
    } else {
        book->repeats++;
    }
    const uint32_t doublings = payment->sends < 3 ? payment->sends : 3;
    int64_t wait_us = INT64_C(1) * REPEAT_FIRST_US << doublings;
    if (wait_us > REPEAT_LAST_US) wait_us = REPEAT_LAST_US;
    payment->sends++;
    payment->repeat_us = now_us + jitter(book, wait_us);
}

void feed_book_postpone(struct feed_book *book, size_t index, int64_t now_us, int64_t wait_us)
{
    struct feed_payment *payment = &book->payments[index];
    if (payment->state == FEED_ASKED) payment->repeat_us = now_us + jitter(book, wait_us);
}

/* The first answer counts; a repeated request brings the same one again. */
static bool answer(struct feed_book *book, size_t index, enum feed_state state, int64_t now_us)
{
    struct feed_payment *payment = &book->payments[index];
    if (payment->state != FEED_ASKED) return false;
    const size_t last = book->asked[--book->asked_count];
    book->asked[payment->place] = last;
    book->payments[last].place = payment->place;
    payment->state = state;
    payment->answered_us = now_us;
    book->moved_us = now_us;
    return true;
}

void feed_book_accepted(struct feed_book *book, size_t index, const char *id, int64_t now_us)
{
    if (!answer(book, index, FEED_ACCEPTED, now_us)) return;
    struct feed_payment *payment = &book->payments[index];
    (void)snprintf(payment->id, sizeof payment->id, "%s", id);
    book->accepted++;
    if (payment->end != FEED_END_NONE) book->final_accepted++;
}

void feed_book_refused(struct feed_book *book, size_t index, int64_t now_us)
{
    if (answer(book, index, FEED_REFUSED, now_us)) book->refused++;
}

void feed_book_ended(struct feed_book *book, size_t index, enum feed_end end, int64_t now_us)
{
    struct feed_payment *payment = &book->payments[index];
    if (payment->end != FEED_END_NONE) return; /* events may come more than once */
    payment->end = end;
    payment->final_us = now_us;
    book->ends[end]++;
    book->moved_us = now_us;
    if (payment->state == FEED_ACCEPTED) book->final_accepted++;
}

size_t feed_book_ended_count(const struct feed_book *book)
{
    return book->ends[FEED_END_SUCCEEDED] + book->ends[FEED_END_FAILED] +
           book->ends[FEED_END_CANCELED];
}

void feed_book_close(struct feed_book *book, int64_t now_us)
{
    const int64_t limit_us = book->options->seconds_us;
    if (limit_us > 0 && now_us - book->started_us >= limit_us) book->planned = book->sent_count;
}

bool feed_book_is_done(const struct feed_book *book)
{
    if (book->accepted + book->refused < book->planned) return false;
    return book->options->until_answered || book->final_accepted == book->accepted;
}
