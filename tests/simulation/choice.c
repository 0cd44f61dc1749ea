/* tests/simulation/choice.c: see choice.h. */
#include "tests/simulation/choice.h"

enum site_kind { SITE_FAULT, SITE_DELAY, SITE_SHAPE };

struct site {
    const char *name;
    enum site_kind kind;
    int64_t least; /* fault: per mille */
    int64_t most;
};

static const struct site SITES[] = {
#define FAULT(name, per_mille, what) { #name, SITE_FAULT, per_mille, 0 },
#define DELAY(name, least_us, most_us) { #name, SITE_DELAY, least_us, most_us },
#define SHAPE(name, what) { #name, SITE_SHAPE, 0, 0 },
#include "tests/simulation/choice.def"
#undef FAULT
#undef DELAY
#undef SHAPE
};
_Static_assert(CHOICE_COUNT <= 64, "a plan names the sites by the bits of one number");

static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t hash_of(const struct choices *choices, unsigned site, unsigned subject,
                        unsigned turn)
{
    return mix(mix(choices->plan.seed) ^
               (((uint64_t)site << 48) | ((uint64_t)subject << 32) | turn));
}

const char *choice_name(enum choice_site site)
{
    return SITES[site].name;
}

bool choice_is_fault(enum choice_site site)
{
    return SITES[site].kind == SITE_FAULT;
}

void choices_init(struct choices *choices, const struct plan *plan)
{
    enum { CALM_WORLDS = 8 }; /* one in so many has no faults at all */
    memset(choices, 0, sizeof *choices);
    choices->plan = *plan;
    const uint64_t mood = mix(plan->seed ^ UINT64_C(0x5eed));
    const uint64_t have = mix(mood) | ((mood >> 8) % 3 == 0 ? mix(mix(mood)) : 0);
    const uint64_t louder = mix(mood ^ 1) & mix(mood ^ 2);
    for (unsigned i = 0; i < CHOICE_COUNT; i++) {
        const bool is_there = mood % CALM_WORLDS != 0 && ((have >> i) & 1) != 0;
        if (SITES[i].kind != SITE_FAULT || !is_there) continue;
        const uint16_t per_mille = (uint16_t)SITES[i].least;
        choices->per_mille[i] = ((louder >> i) & 1) != 0 ? (uint16_t)(per_mille * 4) : per_mille;
    }
}

static bool is_off(const struct choices *choices, enum choice_site site)
{
    return ((choices->plan.sites_off >> site) & 1) != 0;
}

uint64_t choice_draw(struct choices *choices, enum choice_site site, unsigned subject)
{
    subject %= CHOICE_SUBJECTS;
    const unsigned turn = choices->turns[site][subject]++;
    return is_off(choices, site) ? 0 : hash_of(choices, site, subject, turn);
}

unsigned choice_below(struct choices *choices, enum choice_site site, unsigned subject,
                      unsigned count)
{
    return (unsigned)(choice_draw(choices, site, subject) % count);
}

static bool is_skipped(const struct choices *choices, struct choice_fired fired)
{
    for (size_t i = 0; i < choices->plan.skip_count; i++) {
        const struct choice_fired *skip = &choices->plan.skips[i];
        if (skip->site == fired.site && skip->subject == fired.subject && skip->turn == fired.turn)
            return true;
    }
    return false;
}

bool choice_strikes(struct choices *choices, enum choice_site fault, unsigned subject)
{
    subject %= CHOICE_SUBJECTS;
    const uint16_t turn = choices->turns[fault][subject]++;
    if (choices->per_mille[fault] == 0 || choices->is_healed || is_off(choices, fault))
        return false;
    if (hash_of(choices, fault, subject, turn) % 1000 >= choices->per_mille[fault]) return false;
    const struct choice_fired fired = { (uint8_t)fault, (uint8_t)subject, turn };
    if (is_skipped(choices, fired)) return false;
    if (choices->fired_count < CHOICE_FIRED_MAX) choices->fired[choices->fired_count++] = fired;
    return true;
}

int64_t choice_delay_us(struct choices *choices, enum choice_site delay, unsigned subject)
{
    enum { SHORT = 16, LONG_ONES = 8 }; /* most are short, so that a long one is overtaken */
    const uint64_t drawn = choice_draw(choices, delay, subject);
    const int64_t least_us = SITES[delay].least;
    const int64_t span_us = SITES[delay].most - least_us;
    if (drawn == 0) return least_us;
    const int64_t range_us = drawn % LONG_ONES == 0 ? span_us : span_us / SHORT;
    return least_us + (int64_t)((drawn >> 8) % (uint64_t)(range_us + 1));
}

/* --- plans ------------------------------------------------------------------------------------ */

char *plan_format(const struct plan *plan, char text[PLAN_TEXT_SIZE])
{
    int length = snprintf(text, PLAN_TEXT_SIZE, "%" PRIu64, plan->seed);
    const bool is_whole = plan->sites_off == 0 && plan->requests_off == 0 && plan->skip_count == 0;
    if (is_whole) return text;
    length += snprintf(text + length, PLAN_TEXT_SIZE - (size_t)length, ":%" PRIx64 ":%" PRIx64 ":",
                       plan->sites_off, plan->requests_off);
    for (size_t i = 0; i < plan->skip_count; i++) {
        const struct choice_fired *skip = &plan->skips[i];
        if (PLAN_TEXT_SIZE - length < 24) break;
        length += snprintf(text + length, PLAN_TEXT_SIZE - (size_t)length, "%s%u.%u.%u",
                           i == 0 ? "" : "+", (unsigned)skip->site, (unsigned)skip->subject,
                           (unsigned)skip->turn);
    }
    return text;
}

static bool parse_skips(char *rest, struct plan *out)
{
    while (*rest != '\0' && *rest != '\n') {
        unsigned long parts[3];
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            char *end = NULL;
            parts[i] = strtoul(rest, &end, 10);
            if (end == rest) return false;
            rest = *end == '.' || *end == '+' ? end + 1 : end;
        }
        if (out->skip_count == CHOICE_SKIPS_MAX || parts[0] >= CHOICE_COUNT) return false;
        out->skips[out->skip_count++] =
            (struct choice_fired){ (uint8_t)parts[0], (uint8_t)parts[1], (uint16_t)parts[2] };
    }
    return true;
}

bool plan_parse(const char *text, struct plan *out)
{
    char copy[PLAN_TEXT_SIZE];
    if (strlen(text) >= sizeof copy) return false;
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *rest = copy;
    *out = (struct plan){ .seed = strtoull(rest, &rest, 10) };
    if (*rest == '\0' || *rest == '\n') return rest != copy;
    if (*rest != ':') return false;
    out->sites_off = strtoull(rest + 1, &rest, 16);
    if (*rest != ':') return false;
    out->requests_off = strtoull(rest + 1, &rest, 16);
    return *rest == ':' && parse_skips(rest + 1, out);
}
