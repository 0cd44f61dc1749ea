/* store/store_connect.c: see store_connect.h. */
#include "store/store_connect.h"

#include "pipeline/base.h"

enum { PARAMS_MAX = 64 };

/* Of PQconnectStartParams; ended by NULL. */
struct params {
    const char *names[PARAMS_MAX + 1];
    const char *values[PARAMS_MAX + 1];
    size_t count;
};

/* A list with commas, begun with another of its members. */
static char *rotate_list(const char *list, size_t by)
{
    size_t members = 1;
    for (const char *at = list; *at != '\0'; at++) members += *at == ',';
    const char *begin = list;
    for (size_t skip = by % members; skip > 0; skip--) begin = strchr(begin, ',') + 1;
    char *out = memory_copy_text(list);
    if (begin == list) return out;
    const size_t length = strlen(begin);
    memcpy(out, begin, length);
    out[length] = ',';
    memcpy(out + length + 1, list, (size_t)(begin - list) - 1);
    return out;
}

static bool is_host_list(const char *keyword)
{
    return strcmp(keyword, "host") == 0 || strcmp(keyword, "hostaddr") == 0 ||
           strcmp(keyword, "port") == 0;
}

static void add(struct params *params, const char *name, const char *value)
{
    INVARIANT(params->count < PARAMS_MAX);
    params->names[params->count] = name;
    params->values[params->count++] = value;
}

PGconn *store_connect_start(const char *url, size_t first_host, const char *application,
                            const char *settings)
{
    struct params params = { .count = 0 };
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    if (options == NULL) return NULL;
    for (PQconninfoOption *option = options; option->keyword != NULL; option++) {
        if (option->val == NULL) continue;
        if (is_host_list(option->keyword)) {
            char *rotated = rotate_list(option->val, first_host);
            PQfreemem(option->val);
            option->val = rotated;
        }
        add(&params, option->keyword, option->val);
    }
    /* The last of one name counts. */
    add(&params, "application_name", application);
    add(&params, "options", settings);
    add(&params, "client_encoding", "UTF8");
    add(&params, "keepalives_idle", "10");
    PGconn *connection = PQconnectStartParams(params.names, params.values, 0);
    PQconninfoFree(options);
    return connection;
}
