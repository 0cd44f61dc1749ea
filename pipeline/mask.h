/*
 * pipeline/mask.h: card numbers never reach a log, an event, evidence or a dead letter
 * (protocol I15). A card number is a run of 13 to 19 digits that passes the Luhn check; people
 * and forms also write it in groups, with one space or hyphen between them.
 */
#ifndef ONCEPAY_PIPELINE_MASK_H
#define ONCEPAY_PIPELINE_MASK_H

#include "pipeline/base.h"

/* Overwrites each digit of a card number with '*', in place; length and all else stay. */
size_t mask_card_numbers(char *text, size_t length); /* how many were found */

bool mask_has_card_number(struct span text);

#endif
