/*
 * stages/findings_stray.h: the findings that contradict a final attempt, on their way to becoming
 * stray facts (store/stray_fact.h) without blocking the loop. Part of stages/findings.c.
 */
#ifndef ONCEPAY_STAGES_FINDINGS_STRAY_H
#define ONCEPAY_STAGES_FINDINGS_STRAY_H

#include "stages/findings.h"

/* Judged: is this money that no open operation explains? */
bool finding_is_stray(const struct finding *finding);
/* Stores it and ends the finding. */
void finding_store_stray(struct findings *findings, struct finding *finding);

#endif
