/* ops/faultproxy/control.c: see control.h. */
#include "ops/faultproxy/control.h"

#include <errno.h>
#include <fnmatch.h>

enum { WORDS_MAX = 16 };

static bool read_port(const char *text, uint16_t *out_port)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > 65535) return false;
    *out_port = (uint16_t)value;
    return true;
}

static void do_listen(struct control *control, char **words, size_t count, FILE *out)
{
    uint16_t port = 0;
    uint16_t target_port = 0;
    if (count != 4 || !read_port(words[2], &port) || !read_port(words[3], &target_port)) {
        fputs("error usage: listen NAME PORT TARGET_PORT\n", out);
        return;
    }
    struct pair *pair = pair_create(words[1], port, target_port, control->seed);
    if (pair == NULL) {
        fprintf(out, "error port %s: %s\n", words[2], strerror(errno));
        return;
    }
    pair->next = control->pairs;
    control->pairs = pair;
    fputs("ok\n", out);
}

enum verb { VERB_SET, VERB_CLEAR, VERB_CUT, VERB_RESET };

/* False: a setting that there is not. */
static bool apply(enum verb verb, struct pair *pair, char **words, size_t count, size_t *out_count)
{
    switch (verb) {
    case VERB_SET: {
        struct fault_settings settings = pair->settings;
        for (size_t i = 2; i < count; i++) {
            if (!fault_set(&settings, words[i])) return false;
        }
        pair->settings = settings;
        pair_settle(pair);
        *out_count += 1;
        return true;
    }
    case VERB_CLEAR:
        pair->settings = (struct fault_settings){ 0 };
        pair_settle(pair);
        *out_count += 1;
        return true;
    case VERB_CUT:
    case VERB_RESET:
        *out_count += pair_cut(pair, verb == VERB_RESET);
        return true;
    }
    UNREACHABLE("verb out of range");
}

static void do_verb(struct control *control, enum verb verb, char **words, size_t count, FILE *out)
{
    size_t done = 0;
    size_t matched = 0;
    for (struct pair *pair = control->pairs; pair != NULL; pair = pair->next) {
        if (count < 2 || fnmatch(words[1], pair->name, 0) != 0) continue;
        matched++;
        if (!apply(verb, pair, words, count, &done)) {
            fputs("error no such setting\n", out);
            return;
        }
    }
    if (matched == 0) {
        fputs("error no such pair\n", out);
    } else {
        fprintf(out, "ok %zu\n", done);
    }
}

static void do_stats(const struct control *control, FILE *out)
{
    fputs("ok {", out);
    for (const struct pair *pair = control->pairs; pair != NULL; pair = pair->next) {
        fprintf(out, "%s\"%s\": ", pair == control->pairs ? "" : ", ", pair->name);
        fault_print(&pair->counts, out);
    }
    fputs("}\n", out);
}

void control_execute(struct control *control, char *line, FILE *out)
{
    static const struct {
        const char *name;
        enum verb verb;
    } VERBS[] = {
        { "set", VERB_SET }, { "clear", VERB_CLEAR }, { "cut", VERB_CUT }, { "reset", VERB_RESET }
    };
    char *words[WORDS_MAX] = { NULL };
    char *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    if (count == 0) {
        fputs("error empty\n", out);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(VERBS); i++) {
        if (strcmp(words[0], VERBS[i].name) != 0) continue;
        do_verb(control, VERBS[i].verb, words, count, out);
        return;
    }
    if (strcmp(words[0], "listen") == 0) {
        do_listen(control, words, count, out);
    } else if (strcmp(words[0], "stats") == 0) {
        do_stats(control, out);
    } else {
        fputs("error no such command\n", out);
    }
}
