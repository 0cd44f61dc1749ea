/*
 * stages/gateway/gateway_server.c: see gateway_server.h. One polling thread serves all connections:
 * a request that waits for its commit is suspended and costs nothing.
 */
#include "stages/gateway/gateway_server.h"

#include <stdatomic.h>
#include <unistd.h>

#include "pipeline/clock.h"
#include "pipeline/log.h"
#include "pipeline/metrics.h"
#include "stages/gateway/gateway_decide.h"
#include "stages/http_server.h"
#include "stages/psp_registry.h"

enum {
    HEADER_MAX = 64,
    IDLE_S = 15,
    RETRY_AFTER_S = 5,
    BODY_FIRST_BYTES = 4096,
};
/* From the first byte of a request to the last: a trickle holds no connection for ever. */
#define REQUEST_LIMIT_US (30 * CLOCK_SECOND_US)

#define WEBHOOKS "/webhooks/"

struct gateway_server {
    struct gateway_server_options options;
    const struct psp_ops **ops; /* by index of the account */
    struct MHD_Daemon *daemon;
    atomic_size_t waiting;
};

struct request {
    struct gateway_server *server;
    struct MHD_Connection *connection;
    const struct config_account *account;
    const struct psp_ops *ops;
    int64_t started_us;
    uint8_t *body;
    size_t length;
    size_t size;
    bool is_too_large;
    char event_id[64];   /* for the log */
    _Atomic int outcome; /* enum gateway_outcome; 0: not yet */
};

/* --- answers ---------------------------------------------------------------------------------- */

static const char *problem_body(const struct problem *problem, struct arena *arena)
{
    const struct value value = problem_value(problem, 0, arena);
    const struct span json = value_write_json(&value, arena);
    return (const char *)json.data;
}

static enum MHD_Result respond_problem(struct MHD_Connection *connection, enum problem_code code,
                                       const char *detail)
{
    struct arena arena = { NULL };
    const struct problem problem = { code, NULL, detail };
    const struct http_server_answer answer = {
        .status = (unsigned)problem_status(code),
        .content_type = "application/problem+json",
        .body = span_of_text(problem_body(&problem, &arena)),
        .retry_after_s = code == PROBLEM_UNAVAILABLE ? RETRY_AFTER_S : 0,
        .allow = code == PROBLEM_METHOD_NOT_ALLOWED ? detail : NULL,
    };
    const enum MHD_Result result = http_server_respond(connection, &answer);
    arena_finish(&arena);
    return result;
}

static enum MHD_Result respond_received(struct MHD_Connection *connection)
{
    const struct http_server_answer answer = {
        .status = 200,
        .content_type = "application/json",
        .body = span_of_text("{\"received\":true}\n"),
    };
    return http_server_respond(connection, &answer);
}

static void note(const struct request *request, const char *verdict, const char *why)
{
    metrics_add(METRIC_STAGE_MESSAGES, 1, METRICS_LABELS("gateway", verdict));
    LOG_INFO("webhook", LOG_TEXT("verdict", verdict),
             LOG_TEXT("account", request->account == NULL ? NULL : request->account->id),
             LOG_TEXT("event", request->event_id[0] == '\0' ? NULL : request->event_id),
             LOG_TEXT("why", why),
             LOG_NUMBER("ms", (clock_monotonic_us() - request->started_us) / 1000));
}

static enum MHD_Result respond_outcome(struct request *request, enum gateway_outcome outcome)
{
    switch (outcome) {
    case GATEWAY_STORED:
        note(request, "stored", NULL);
        return respond_received(request->connection);
    case GATEWAY_DUPLICATE:
        note(request, "duplicate", NULL);
        return respond_received(request->connection);
    case GATEWAY_UNAVAILABLE:
        note(request, "unavailable", NULL);
        return respond_problem(request->connection, PROBLEM_UNAVAILABLE, NULL);
    case GATEWAY_REJECTED:
        note(request, "rejected", NULL);
        return respond_problem(request->connection, PROBLEM_INTERNAL, NULL);
    }
    UNREACHABLE("gateway outcome out of range");
}

/* --- one webhook ------------------------------------------------------------------------------ */

struct header_list {
    struct http_header items[HEADER_MAX];
    size_t count;
    bool is_too_long;
};

static enum MHD_Result take_header(void *self, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct header_list *list = self;
    (void)kind;
    if (list->count == HEADER_MAX) {
        list->is_too_long = true;
        return MHD_NO;
    }
    list->items[list->count++] = (struct http_header){ name, value == NULL ? "" : value };
    return MHD_YES;
}

/* From the inbox, on its thread. The request lives until it is resumed and answered. */
static void on_done(void *self, enum gateway_outcome outcome)
{
    struct request *request = self;
    atomic_store(&request->outcome, (int)outcome);
    MHD_resume_connection(request->connection);
}

static enum MHD_Result keep(struct request *request, const struct gateway_decision *decision,
                            struct arena *arena)
{
    struct gateway_entry *entry = memory_allocate(sizeof *entry);
    entry->arena = *arena; /* all that the observation points to moves along */
    *arena = (struct arena){ NULL };
    entry->observation = decision->observation;
    entry->row = (struct gateway_row){
        .id = { uuid_new() },
        .command = { uuid_new() },
        .account = request->account->id,
        .observation = &entry->observation,
    };
    entry->done = on_done;
    entry->self = request;
    atomic_fetch_add(&request->server->waiting, 1);
    MHD_suspend_connection(request->connection);
    if (!gateway_inbox_put(request->server->options.inbox, entry)) {
        gateway_entry_free(entry);
        on_done(request, GATEWAY_UNAVAILABLE);
    }
    return MHD_YES;
}

static enum MHD_Result judge(struct request *request)
{
    struct arena arena = { NULL };
    struct header_list headers = { .count = 0 };
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, take_header, &headers);
    if (headers.is_too_long) {
        note(request, "refused", "too many headers");
        return respond_problem(request->connection, PROBLEM_TOO_LARGE, "too many headers");
    }
    const struct gateway_webhook webhook = {
        .ops = request->ops,
        .account = &request->account->psp_account,
        .headers = headers.items,
        .header_count = headers.count,
        .body = { request->body, request->length },
        .now_s = clock_real_us() / CLOCK_SECOND_US,
    };
    const struct gateway_decision decision = gateway_decide(&webhook, &arena);
    enum MHD_Result result = MHD_NO;
    switch (decision.verdict) {
    case GATEWAY_KEEP:
        (void)snprintf(request->event_id, sizeof request->event_id, "%s",
                       decision.observation.provider_event);
        result = keep(request, &decision, &arena);
        break;
    case GATEWAY_IGNORE:
        note(request, "ignored", NULL);
        result = respond_received(request->connection);
        break;
    case GATEWAY_REFUSE:
        note(request, problem_word(decision.problem.code), decision.problem.detail);
        result =
            respond_problem(request->connection, decision.problem.code, decision.problem.detail);
        break;
    }
    arena_finish(&arena);
    return result;
}

/* --- requests --------------------------------------------------------------------------------- */

/* "/webhooks/<account>" and nothing behind it. */
static const struct config_account *find_account(const struct gateway_server *server,
                                                 const char *path, const struct psp_ops **out_ops)
{
    const struct config *config = server->options.config;
    if (strncmp(path, WEBHOOKS, strlen(WEBHOOKS)) != 0) return NULL;
    const struct config_account *account = config_account_find(config, path + strlen(WEBHOOKS));
    if (account != NULL) *out_ops = server->ops[account - config->accounts];
    return account;
}

static enum MHD_Result respond_health(struct gateway_server *server,
                                      struct MHD_Connection *connection, const char *path)
{
    struct health_answer made;
    if (server->options.health == NULL ||
        !health_answer_make(server->options.health, path, &made)) {
        return respond_problem(connection, PROBLEM_NOT_FOUND, NULL);
    }
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS(path));
    const struct http_server_answer answer = {
        .status = (unsigned)made.status,
        .content_type = made.content_type,
        .body = { (const uint8_t *)made.body, made.length },
    };
    const enum MHD_Result result = http_server_respond(connection, &answer);
    free(made.body);
    return result;
}

/* Announced sizes are refused before a byte of them is read. */
static bool is_announced_too_large(const struct gateway_server *server,
                                   struct MHD_Connection *connection)
{
    const char *announced =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (announced == NULL) return false;
    return strtoull(announced, NULL, 10) >
           (unsigned long long)server->options.config->gateway.body_max_bytes;
}

/* The first call for a request: headers only. Sets *out_request if a body is to be read. */
static enum MHD_Result begin(struct gateway_server *server, struct MHD_Connection *connection,
                             const char *path, const char *method, struct request **out_request)
{
    const struct psp_ops *ops = NULL;
    const struct config_account *account = find_account(server, path, &ops);
    if (account == NULL) {
        const bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
        if (is_get) return respond_health(server, connection, path);
        metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS("other"));
        return respond_problem(connection, PROBLEM_NOT_FOUND, NULL);
    }
    metrics_add(METRIC_REQUESTS, 1, METRICS_LABELS("/webhooks/{account}"));
    if (strcmp(method, "POST") != 0) {
        return respond_problem(connection, PROBLEM_METHOD_NOT_ALLOWED, "POST");
    }
    if (is_announced_too_large(server, connection)) {
        metrics_add(METRIC_STAGE_MESSAGES, 1, METRICS_LABELS("gateway", "too_large"));
        return respond_problem(connection, PROBLEM_TOO_LARGE, NULL);
    }
    struct request *request = memory_allocate(sizeof *request);
    request->server = server;
    request->connection = connection;
    request->account = account;
    request->ops = ops;
    request->started_us = clock_monotonic_us();
    *out_request = request;
    return MHD_YES;
}

/*
 * False: the connection is to be closed. What is over the cap is read away for a while, for the
 * answer's sake.
 */
static bool take_body(struct request *request, const char *upload, size_t size)
{
    const size_t size_max = (size_t)request->server->options.config->gateway.body_max_bytes;
    if (clock_monotonic_us() - request->started_us > REQUEST_LIMIT_US) return false;
    request->is_too_large = request->is_too_large || size > size_max - request->length;
    if (request->is_too_large) {
        if (request->length > 4 * size_max) return false;
        request->length += size;
        free(request->body);
        request->body = NULL;
        return true;
    }
    if (request->length + size > request->size) {
        size_t grown = request->size == 0 ? BODY_FIRST_BYTES : request->size * 2;
        while (grown < request->length + size) grown *= 2;
        request->body = memory_resize(request->body, grown);
        request->size = grown;
    }
    memcpy(request->body + request->length, upload, size);
    request->length += size;
    return true;
}

static enum MHD_Result handle(void *self, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct request *request = *state;
    (void)version;
    if (request == NULL) {
        const enum MHD_Result result = begin(self, connection, path, method, &request);
        *state = request;
        return result;
    }
    if (*upload_size > 0) {
        const bool goes_on = take_body(request, upload, *upload_size);
        *upload_size = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    const int outcome = atomic_load(&request->outcome);
    if (outcome != 0) return respond_outcome(request, (enum gateway_outcome)outcome);
    if (request->is_too_large) {
        note(request, "too_large", NULL);
        return respond_problem(connection, PROBLEM_TOO_LARGE, NULL);
    }
    return judge(request);
}

static void completed(void *self, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode how)
{
    struct gateway_server *server = self;
    struct request *request = *state;
    (void)connection;
    (void)how;
    if (request == NULL) return;
    if (atomic_load(&request->outcome) != 0) atomic_fetch_sub(&server->waiting, 1);
    free(request->body);
    free(request);
    *state = NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static bool find_adapters(struct gateway_server *server)
{
    const struct config *config = server->options.config;
    server->ops = memory_allocate((config->account_count + 1) * sizeof(void *));
    for (size_t i = 0; i < config->account_count; i++) {
        server->ops[i] = psp_registry_find(config->accounts[i].psp);
        if (server->ops[i] != NULL) continue;
        LOG_ERROR("there is no such PSP", LOG_TEXT("account", config->accounts[i].id),
                  LOG_TEXT("psp", config->accounts[i].psp));
        return false;
    }
    return true;
}

struct gateway_server *gateway_server_open(const struct gateway_server_options *options)
{
    struct gateway_server *server = memory_allocate(sizeof *server);
    server->options = *options;
    const struct config_gateway *gateway = &options->config->gateway;
    const struct http_server_options http = {
        .address = gateway->address,
        .port = (int)gateway->port,
        .port_file = options->port_file,
        .flags = MHD_ALLOW_SUSPEND_RESUME,
        .connections_max = (unsigned)gateway->connections_max,
        .idle_s = IDLE_S,
        .handle = handle,
        .completed = completed,
        .self = server,
    };
    if (find_adapters(server)) server->daemon = http_server_start(&http);
    if (server->daemon != NULL) {
        LOG_INFO("listening", LOG_TEXT("address", gateway->address),
                 LOG_NUMBER("port", http_server_port(server->daemon)));
        return server;
    }
    gateway_server_close(server);
    return NULL;
}

void gateway_server_quiesce(struct gateway_server *server)
{
    const MHD_socket listening = MHD_quiesce_daemon(server->daemon);
    if (listening != MHD_INVALID_SOCKET) (void)close(listening);
}

size_t gateway_server_waiting(struct gateway_server *server)
{
    return atomic_load(&server->waiting);
}

void gateway_server_close(struct gateway_server *server)
{
    if (server == NULL) return;
    if (server->daemon != NULL) MHD_stop_daemon(server->daemon);
    free(server->ops);
    free(server);
}

int gateway_server_port(struct gateway_server *server)
{
    return http_server_port(server->daemon);
}
