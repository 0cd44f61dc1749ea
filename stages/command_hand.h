/*
 * stages/command_hand.h: stage messages in the hands of create and recover, which work on their
 * commands one by one and without blocking. A message is acked when each of its commands is done,
 * else handed back whole: what is done already is a no-op when it comes again (protocol H1).
 */
#ifndef ONCEPAY_STAGES_COMMAND_HAND_H
#define ONCEPAY_STAGES_COMMAND_HAND_H

#include "stages/stage.h"

struct command_hand {
    struct bus_message message;
    size_t open; /* commands without an outcome */
    int64_t taken_us;
    int64_t nak_ms; /* > 0: something must come again, so all of it does */
};

/* One command that waits or is being worked on. */
struct command_work {
    struct command_work *next;
    struct command_hand *hand;
    struct command command;
};

struct command_list {
    struct command_work *first; /* in order of arrival */
    struct command_work *last;
    size_t count;
};

void command_list_append(struct command_list *list, struct command_work *work);
/* Empties the list and returns what was in it, chained by next. */
struct command_work *command_list_take(struct command_list *list);

/*
 * Takes the message over and appends its commands. COMMAND_NEWER: it was handed back.
 * COMMAND_MALFORMED: out_malformed, if given a place, is one work item that stands for the whole
 * message, to be kept as a dead letter.
 */
enum command_reading command_hand_take(struct stage *stage, struct bus_message *message,
                                       struct command_list *list,
                                       struct command_work **out_malformed);

/* The command has its outcome; nak_ms > 0: it must come again. Frees it; disposes of the message
 * after its last one. */
void command_work_finish(struct stage *stage, struct command_work *work, int64_t nak_ms,
                         const char *verdict);

#endif
