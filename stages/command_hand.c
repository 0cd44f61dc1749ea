/* stages/command_hand.c: see command_hand.h. */
#include "stages/command_hand.h"

#include "pipeline/clock.h"
#include "pipeline/metrics.h"

enum { NEWER_SCHEMA_DELAY_MS = 5000 };

void command_list_append(struct command_list *list, struct command_work *work)
{
    work->next = NULL;
    if (list->last != NULL) {
        list->last->next = work;
    } else {
        list->first = work;
    }
    list->last = work;
    list->count++;
}

struct command_work *command_list_take(struct command_list *list)
{
    struct command_work *first = list->first;
    *list = (struct command_list){ 0 };
    return first;
}

static struct command_work *work_create(struct command_hand *hand)
{
    struct command_work *work = memory_allocate(sizeof *work);
    work->hand = hand;
    return work;
}

enum command_reading command_hand_take(struct stage *stage, struct bus_message *message,
                                       struct command_list *list,
                                       struct command_work **out_malformed)
{
    struct command_hand *hand = memory_allocate(sizeof *hand);
    hand->message = *message;
    hand->taken_us = clock_monotonic_us();
    struct arena arena = { 0 };
    const struct command *commands = NULL;
    size_t count = 0;
    enum command_reading reading = command_batch_decode(message->body, &arena, &commands, &count);
    if (reading == COMMAND_NEWER && stage_newer_is_too_old(stage, message)) {
        reading = COMMAND_MALFORMED; /* for us, for good */
    }
    switch (reading) {
    case COMMAND_READ:
        hand->open = count;
        for (size_t i = 0; i < count; i++) {
            struct command_work *work = work_create(hand);
            work->command = commands[i];
            command_list_append(list, work);
        }
        break;
    case COMMAND_NEWER:
        hand->open = 1;
        command_work_finish(stage, work_create(hand), NEWER_SCHEMA_DELAY_MS, "hand_back");
        break;
    case COMMAND_MALFORMED:
        hand->open = 1;
        *out_malformed = work_create(hand);
        break;
    }
    arena_finish(&arena);
    return reading;
}

void command_work_finish(struct stage *stage, struct command_work *work, int64_t nak_ms,
                         const char *verdict)
{
    struct command_hand *hand = work->hand;
    if (nak_ms > hand->nak_ms) hand->nak_ms = nak_ms;
    metrics_add(METRIC_STAGE_MESSAGES, 1, METRICS_LABELS(stage->name, verdict));
    free(work);
    INVARIANT(hand->open > 0);
    if (--hand->open > 0) return;
    if (hand->nak_ms > 0) {
        bus_nak(&hand->message, stage_jitter_ms(hand->nak_ms));
    } else {
        bus_ack(&hand->message);
    }
    free(hand);
}
