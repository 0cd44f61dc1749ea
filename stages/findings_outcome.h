/*
 * stages/findings_outcome.h: what follows from a verdict for the rows: the event's word, the
 * attempt's reason, the settle command, the recovery task. Part of stages/findings.c.
 */
#ifndef ONCEPAY_STAGES_FINDINGS_OUTCOME_H
#define ONCEPAY_STAGES_FINDINGS_OUTCOME_H

#include "stages/findings.h"

/* Of a judged finding; ids that it needs are drawn here. Texts live in the finding's arena. */
struct attempt_outcome finding_outcome(const struct findings *findings, struct finding *finding);

#endif
