/* ops/sim/sim.c: see sim.h. */
#include "ops/sim/sim.h"

#include "ops/sim/admin.h"

#include <errno.h>

enum { WAIT_MS_MAX = 1000 };

/* Charges that change by themselves. */

struct sim_due {
    struct sim_due *previous;
    struct sim_due *next;
    struct sim *sim;
    struct charge *charge;
    struct deadline deadline;
};

static void due_destroy(struct sim_due *due)
{
    struct sim *sim = due->sim;
    deadline_cancel(&sim->deadlines, &due->deadline);
    if (due->previous != NULL) due->previous->next = due->next;
    if (due->next != NULL) due->next->previous = due->previous;
    if (sim->dues == due) sim->dues = due->next;
    free(due);
}

static void forget_dues(struct sim *sim)
{
    struct sim_due *next = NULL;
    for (struct sim_due *due = sim->dues; due != NULL; due = next) {
        next = due->next;
        deadline_cancel(&sim->deadlines, &due->deadline);
        free(due);
    }
    sim->dues = NULL;
}

static void on_due(void *self)
{
    struct sim_due *due = self;
    struct sim *sim = due->sim;
    struct charge *charge = due->charge;
    due_destroy(due);
    if (charge->due_real_ms == 0) return; /* somebody else changed it first */
    sim_change(sim, charge, charge->due_state,
               charge->due_state == CHARGE_DECLINED ? "generic_decline" : NULL);
    sim_commit(sim);
}

static void watch(struct sim *sim, struct charge *charge)
{
    struct sim_due *due = memory_allocate(sizeof *due);
    due->sim = sim;
    due->charge = charge;
    due->deadline = (struct deadline){ .fire = on_due, .self = due };
    due->next = sim->dues;
    if (sim->dues != NULL) sim->dues->previous = due;
    sim->dues = due;
    const int64_t left_ms = charge->due_real_ms - ident_real_ms();
    deadline_arm(&sim->deadlines, &due->deadline, ident_monotonic_ms() + left_ms);
}

struct charge *sim_record(struct sim *sim, const struct sim_order *order, const char *object)
{
    const struct protocol *protocol = protocol_of_account(order->account);
    const int64_t now_ms = ident_real_ms();
    struct charge *charge = memory_allocate(sizeof *charge);
    *charge = (struct charge){
        .account = order->account,
        .key = order->key == NULL ? NULL : memory_copy_text(order->key),
        .method = memory_copy_text(order->method),
        .metadata = memory_copy_text(order->metadata),
        .return_url = order->return_url == NULL ? NULL : memory_copy_text(order->return_url),
        .amount_minor = order->amount_minor,
        .created_s = now_ms / 1000,
        .changed_s = now_ms / 1000,
        .state = order->state,
        .is_payable = order->is_payable,
        .due_real_ms = order->due_after_ms < 0 ? 0 : now_ms + order->due_after_ms,
        .due_state = order->due_state,
    };
    memcpy(charge->currency, order->currency, sizeof charge->currency);
    memcpy(charge->decline_code, order->decline_code, sizeof charge->decline_code);
    (void)snprintf(charge->object, sizeof charge->object, "%s", object);
    (void)ident_make(protocol->charge_prefix, charge->charge_id);
    ledger_add_charge(&sim->ledger, charge);
    if (charge->due_real_ms != 0) watch(sim, charge);
    return charge;
}

struct charge *sim_execute(struct sim *sim, const struct sim_order *order)
{
    char object[IDENT_SIZE];
    (void)ident_make(protocol_of_account(order->account)->object_prefix, object);
    struct charge *charge = sim_record(sim, order, object);
    webhook_emit(sim->webhooks, charge);
    return charge;
}

void sim_change(struct sim *sim, struct charge *charge, enum charge_state state,
                const char *decline_code)
{
    ledger_change_charge(&sim->ledger, charge, state, decline_code, ident_real_ms() / 1000);
    webhook_emit(sim->webhooks, charge);
}

void sim_commit(struct sim *sim)
{
    ledger_commit(&sim->ledger);
}

void sim_reset(struct sim *sim)
{
    server_close_held(sim->server); /* they point into the books */
    webhook_clear(sim->webhooks);
    forget_dues(sim);
    arrivals_clear(&sim->arrivals);
    faults_restart_counts(&sim->faults);
    ledger_clear(&sim->ledger);
}

bool sim_has_profile(struct sim *sim, const struct account *account, enum fault_slot slot,
                     struct fault *out)
{
    const struct fault_subject subject = { .account = account->name, .draw = "" };
    return faults_draw(&sim->faults, slot, &subject, out);
}

void sim_refuse(struct exchange *exchange, unsigned status, const char *text)
{
    struct textbuf body = { 0 };
    textbuf_text(&body, "{\"error\":");
    textbuf_json(&body, textbuf_is_utf8(text) ? text : "malformed text");
    textbuf_text(&body, "}\n");
    server_finish(exchange, SERVER_ANSWER, status, "application/json", &body, 0);
}

/* Requests. */

static void on_request(void *self, struct exchange *exchange)
{
    struct sim *sim = self;
    if (exchange->is_body_too_large) {
        sim_refuse(exchange, 413, "the body is larger than 256 KiB");
        return;
    }
    if (strncmp(exchange->path, "/_sim/", 6) == 0) {
        admin_handle(sim, exchange->path + 5, exchange);
        return;
    }
    const char *account = exchange->path + 1;
    const size_t length = strcspn(account, "/");
    const struct protocol *protocol = protocol_of_path(account + length);
    if (exchange->path[0] != '/' || protocol == NULL || !ident_is_token(account, length)) {
        sim_refuse(exchange, 404, "paths are /<account>/v1/... and /_sim/...");
        return;
    }
    char name[65];
    memcpy(name, account, length);
    name[length] = '\0';
    protocol->handle(sim, name, account + length, exchange);
}

void sim_run(struct sim *sim, int stop_fd)
{
    struct curl_waitfd extra[2] = {
        { .fd = server_fd(sim->server), .events = CURL_WAIT_POLLIN },
        { .fd = stop_fd, .events = CURL_WAIT_POLLIN },
    };
    while ((extra[1].revents & CURL_WAIT_POLLIN) == 0) {
        int wait_ms = deadline_wait_ms(&sim->deadlines, ident_monotonic_ms(), WAIT_MS_MAX);
        wait_ms = server_wait_ms(sim->server, wait_ms);
        extra[0].revents = extra[1].revents = 0;
        (void)curl_multi_poll(webhook_multi(sim->webhooks), extra, COUNT_OF(extra), wait_ms, NULL);
        deadline_run(&sim->deadlines, ident_monotonic_ms());
        server_run(sim->server);
        webhook_run(sim->webhooks);
    }
}

/* Start and end. */

static json_t *read_rules(const char *source, char error[LOGFILE_ERROR_SIZE])
{
    json_error_t where = { 0 };
    const char *preset = faults_preset(source);
    json_t *rules = preset != NULL ? json_loads(preset, JSON_REJECT_DUPLICATES, &where)
                                   : json_load_file(source, JSON_REJECT_DUPLICATES, &where);
    if (rules == NULL) {
        (void)snprintf(error, LOGFILE_ERROR_SIZE, "faults %s:%d:%d: %s", source, where.line,
                       where.column, where.text);
    }
    return rules;
}

/* A profile is a rule for all accounts. */
static bool add_profile(struct sim *sim, const char *profile, char error[LOGFILE_ERROR_SIZE])
{
    static const char *const PROFILES[] = { "keep_successes_only", "declined_stays_payable" };
    char problem[FAULTS_ERROR_SIZE] = "is not keep_successes_only or declined_stays_payable";
    bool is_good = false;
    for (size_t i = 0; i < COUNT_OF(PROFILES); i++) {
        if (strcmp(PROFILES[i], profile) != 0) continue;
        json_t *rule = json_pack("{s:s}", "action", profile);
        is_good = faults_append(&sim->faults, rule, problem);
        json_decref(rule);
    }
    if (!is_good) (void)snprintf(error, LOGFILE_ERROR_SIZE, "profile %s: %s", profile, problem);
    return is_good;
}

static bool load_rules(struct sim *sim, char error[LOGFILE_ERROR_SIZE])
{
    json_t *rules = read_rules(sim->options.faults, error);
    if (rules == NULL) return false;
    char problem[FAULTS_ERROR_SIZE];
    const bool is_good = faults_replace(&sim->faults, rules, problem);
    json_decref(rules);
    if (!is_good) {
        (void)snprintf(error, LOGFILE_ERROR_SIZE, "faults %s: %s", sim->options.faults, problem);
        return false;
    }
    return sim->options.profile == NULL || add_profile(sim, sim->options.profile, error);
}

bool sim_start(struct sim *sim, const struct sim_options *options, char error[LOGFILE_ERROR_SIZE])
{
    *sim = (struct sim){ .options = *options,
                         .faults = { .seed = options->seed },
                         .ledger = { .log = { .fd = -1 } } };
    if (!load_rules(sim, error)) return false;
    if (!ledger_open(&sim->ledger, options->data_directory, error)) return false;
    sim->webhooks =
        webhook_create(options->webhook_url, &sim->ledger, &sim->faults, &sim->deadlines);
    sim->server = server_create(options->port, &sim->deadlines, on_request, sim);
    if (sim->server == NULL) {
        (void)snprintf(error, LOGFILE_ERROR_SIZE, "127.0.0.1:%u: %s", (unsigned)options->port,
                       strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sim->ledger.charge_count; i++) {
        if (sim->ledger.charges[i]->due_real_ms != 0) watch(sim, sim->ledger.charges[i]);
    }
    webhook_resume(sim->webhooks);
    return true;
}

void sim_finish(struct sim *sim)
{
    server_destroy(sim->server);
    webhook_destroy(sim->webhooks);
    forget_dues(sim);
    arrivals_clear(&sim->arrivals);
    ledger_close(&sim->ledger);
    faults_finish(&sim->faults);
    deadline_finish(&sim->deadlines);
}
