/*
 * tests/simulation/choice.h: the decisions of a seed. Each is a pure function of the seed, the
 * place in the code (the site), whom it concerns (the subject) and how often that was asked, so
 * that leaving one fault out changes none of the others: a failing run can be made smaller step by
 * step. What a plan leaves out does not happen: faults do not strike, delays are their least,
 * shapes their first.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_CHOICE_H
#define ONCEPAY_TESTS_SIMULATION_CHOICE_H

#include "pipeline/base.h"

enum choice_site {
#define FAULT(name, per_mille, what) CHOICE_##name,
#define DELAY(name, least_us, most_us) CHOICE_##name,
#define SHAPE(name, what) CHOICE_##name,
#include "tests/simulation/choice.def"
#undef FAULT
#undef DELAY
#undef SHAPE
    CHOICE_COUNT
};

enum { CHOICE_SUBJECTS = 64, CHOICE_SKIPS_MAX = 256, CHOICE_FIRED_MAX = 1024 };

/* One fault that struck, and could be left out. */
struct choice_fired {
    uint8_t site;
    uint8_t subject;
    uint16_t turn;
};

/* A seed, less what was left out of it. */
struct plan {
    uint64_t seed;
    uint64_t sites_off;    /* bit per site */
    uint64_t requests_off; /* bit per request of the producers */
    struct choice_fired skips[CHOICE_SKIPS_MAX];
    size_t skip_count;
};

enum { PLAN_TEXT_SIZE = 4096 };
/* "seed:sites:requests:skip+skip…", as regressions.txt and --plan have it. Returns text. */
char *plan_format(const struct plan *plan, char text[PLAN_TEXT_SIZE]);
/* A bare number is a whole seed. */
bool plan_parse(const char *text, struct plan *out);

struct choices {
    struct plan plan;
    uint16_t turns[CHOICE_COUNT][CHOICE_SUBJECTS];
    uint16_t per_mille[CHOICE_COUNT];
    bool is_healed; /* no fault strikes any more */
    struct choice_fired fired[CHOICE_FIRED_MAX];
    size_t fired_count;
};

/* Also draws which faults this seed has at all: what is everywhere hides what is rare. */
void choices_init(struct choices *choices, const struct plan *plan);
const char *choice_name(enum choice_site site);
bool choice_is_fault(enum choice_site site);

/* 64 bits for this site and subject; 0 if the plan leaves the site out. */
uint64_t choice_draw(struct choices *choices, enum choice_site site, unsigned subject);
/* 0 … count - 1. */
unsigned choice_below(struct choices *choices, enum choice_site site, unsigned subject,
                      unsigned count);
bool choice_strikes(struct choices *choices, enum choice_site fault, unsigned subject);
int64_t choice_delay_us(struct choices *choices, enum choice_site delay, unsigned subject);

#endif
