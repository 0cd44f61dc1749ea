/* tests/support/payment_rows.c: see payment_rows.h. */
#include "tests/support/payment_rows.h"

enum { SQL_SIZE = 1024 };

void payment_rows_install(const char *url)
{
    FILE *file = fopen(SOURCE_DIR "/tests/support/payment_rows.sql", "r");
    INVARIANT(file != NULL);
    static char text[32 * 1024];
    const size_t length = fread(text, 1, sizeof text - 1, file);
    INVARIANT(length > 0 && length < sizeof text - 1);
    text[length] = '\0';
    (void)fclose(file);
    pg_fixture_run(url, text);
}

static struct uuid ask_id(const char *url, const char *sql)
{
    struct uuid id;
    char *text = pg_fixture_text(url, sql);
    INVARIANT(uuid_parse(text, &id));
    free(text);
    return id;
}

/* 'text' or NULL. */
static const char *quoted(const char *text, char out[128])
{
    if (text == NULL) return "NULL";
    (void)snprintf(out, 128, "'%s'", text);
    return out;
}

struct payment_id payment_rows_pay(const char *url, const char *out_trade_no, const char *target)
{
    char sql[SQL_SIZE];
    char text[128];
    (void)snprintf(sql, sizeof sql, "SELECT test.pay('%s', %s)", out_trade_no,
                   quoted(target, text));
    return (struct payment_id){ ask_id(url, sql) };
}

void payment_rows_move(const char *url, struct payment_id payment, enum payment_state to)
{
    char sql[SQL_SIZE];
    char id[UUID_TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT test.move_payment('%s', %d)",
                   uuid_format(payment.uuid, id), (int)to);
    pg_fixture_run(url, sql);
}

struct attempt_id payment_rows_attempt(const char *url, struct payment_id payment)
{
    char sql[SQL_SIZE];
    char id[UUID_TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT test.attempt('%s')", uuid_format(payment.uuid, id));
    return (struct attempt_id){ ask_id(url, sql) };
}

void payment_rows_send(const char *url, struct attempt_id attempt, int seconds)
{
    char sql[SQL_SIZE];
    char id[UUID_TEXT_SIZE];
    (void)snprintf(sql, sizeof sql, "SELECT test.send('%s', '%d seconds')",
                   uuid_format(attempt.uuid, id), seconds);
    pg_fixture_run(url, sql);
}

struct evidence_id payment_rows_news(const char *url, struct attempt_id attempt,
                                     const struct attempt_news *news)
{
    char sql[SQL_SIZE];
    char id[UUID_TEXT_SIZE];
    char error[128];
    char object[128];
    (void)snprintf(sql, sizeof sql, "SELECT test.news('%s', %d, %d, %s, %d, %s)",
                   uuid_format(attempt.uuid, id), (int)news->to, (int)news->source,
                   quoted(news->error_code, error), news->closure, quoted(news->object, object));
    return (struct evidence_id){ ask_id(url, sql) };
}

char *payment_rows_text(const char *url, const char *sql, struct uuid id)
{
    static const char MARK[] = "$id";
    char text[UUID_TEXT_SIZE];
    char made[SQL_SIZE];
    size_t used = 0;
    (void)uuid_format(id, text);
    for (const char *at = sql; *at != '\0';) {
        INVARIANT(used + UUID_TEXT_SIZE + 2 < sizeof made);
        if (strncmp(at, MARK, sizeof MARK - 1) == 0) {
            used += (size_t)snprintf(made + used, sizeof made - used, "'%s'", text);
            at += sizeof MARK - 1;
        } else {
            made[used++] = *at++;
        }
    }
    made[used] = '\0';
    return pg_fixture_text(url, made);
}

int64_t payment_rows_number(const char *url, const char *sql, struct uuid id)
{
    char *text = payment_rows_text(url, sql, id);
    const int64_t number = strtoll(text, NULL, 10);
    free(text);
    return number;
}
