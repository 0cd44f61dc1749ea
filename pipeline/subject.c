/* pipeline/subject.c: see subject.h. */
#include "pipeline/subject.h"

bool subject_token_is_valid(const char *token)
{
    static const char ALLOWED[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const size_t length = strspn(token, ALLOWED);
    return length > 0 && length <= SUBJECT_TOKEN_LENGTH_MAX && token[length] == '\0';
}

/* Every token was checked where it came in, so a subject always fits and is always valid. */
static char *subject_print(char text[SUBJECT_SIZE], const char *before, const char *token,
                           const char *after)
{
    INVARIANT(subject_token_is_valid(token));
    const int length = snprintf(text, SUBJECT_SIZE, "%s%s%s", before, token, after);
    INVARIANT(length > 0 && length < SUBJECT_SIZE);
    return text;
}

static char *subject_of_shard(struct payment_id payment, const char *before,
                              char text[SUBJECT_SIZE])
{
    char shard[16];
    (void)snprintf(shard, sizeof shard, "%u", payment_shard(payment));
    return subject_print(text, before, shard, "");
}

char *subject_route(struct payment_id payment, char text[SUBJECT_SIZE])
{
    return subject_of_shard(payment, "pay.route.", text);
}

char *subject_settle(struct payment_id payment, char text[SUBJECT_SIZE])
{
    return subject_of_shard(payment, "pay.settle.", text);
}

char *subject_create(const char *account, char text[SUBJECT_SIZE])
{
    return subject_print(text, "pay.create.", account, ".new");
}

char *subject_evidence(const char *account, char text[SUBJECT_SIZE])
{
    return subject_print(text, "pay.recover.evidence.", account, "");
}

char *subject_event(const char *merchant, const char *type, char text[SUBJECT_SIZE])
{
    INVARIANT(subject_token_is_valid(merchant));
    const int length = snprintf(text, SUBJECT_SIZE, "pay.event.%s.%s", merchant, type);
    INVARIANT(length > 0 && length < SUBJECT_SIZE);
    return text;
}

char *subject_intake(const char *merchant, const char *operation, char text[SUBJECT_SIZE])
{
    INVARIANT(subject_token_is_valid(merchant) && subject_token_is_valid(operation));
    const int length = snprintf(text, SUBJECT_SIZE, "pay.intake.%s.%s", merchant, operation);
    INVARIANT(length > 0 && length < SUBJECT_SIZE);
    return text;
}

/* Copies the token that ends at an end character; false if it is not valid. */
static bool take_token(const char **cursor, char end, char token[SUBJECT_TOKEN_LENGTH_MAX + 1])
{
    const char *stop = strchr(*cursor, end);
    if (stop == NULL) return false;
    const size_t length = (size_t)(stop - *cursor);
    if (length > SUBJECT_TOKEN_LENGTH_MAX) return false;
    memcpy(token, *cursor, length);
    token[length] = '\0';
    *cursor = end == '\0' ? stop : stop + 1;
    return subject_token_is_valid(token);
}

/* What comes after a prefix; NULL if something else stands there. */
static const char *skip_prefix(const char *subject, const char *prefix)
{
    const size_t length = strlen(prefix);
    return strncmp(subject, prefix, length) == 0 ? subject + length : NULL;
}

bool subject_intake_parse(const char *subject, struct subject_intake_tokens *out)
{
    struct subject_intake_tokens tokens;
    const char *cursor = skip_prefix(subject, "pay.intake.");
    if (cursor == NULL) return false;
    if (!take_token(&cursor, '.', tokens.merchant)) return false;
    if (!take_token(&cursor, '\0', tokens.operation)) return false;
    *out = tokens;
    return true;
}

bool subject_event_parse(const char *subject, struct subject_event_tokens *out)
{
    struct subject_event_tokens tokens;
    const char *cursor = skip_prefix(subject, "pay.event.");
    if (cursor == NULL || !take_token(&cursor, '.', tokens.merchant) || *cursor == '\0')
        return false;
    tokens.type = cursor;
    *out = tokens;
    return true;
}
