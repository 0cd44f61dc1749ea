/*
 * stages/intake/intake_handle.h: what the batch loop calls for intake: Redis in front, the batch,
 * and after the commit the answers, the cache and the commands.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_HANDLE_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_HANDLE_H

#include "stages/intake/intake_answer.h"
#include "stages/stage.h"

#define INTAKE_STREAM "PAY_INTAKE"
#define INTAKE_DURABLE "intake"

/* What the process remembers between batches. Zeroed at its start. */
struct intake_memory {
    struct intake_clock clock;
    int looks_due; /* so many batches are looked up before one is written unseen again */
};

/* stage_work.handle; self is the process's struct intake_memory. */
enum status intake_handle(struct stage *stage, void *self, struct stage_item *const *items,
                          size_t count, struct arena *arena);

#endif
