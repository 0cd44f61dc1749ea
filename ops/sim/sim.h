/*
 * ops/sim/sim.h: the simulator put together, and what happens to charges whatever the protocol:
 * executed, changed by time or by a test, told of by webhook.
 */
#ifndef ONCEPAY_SIM_SIM_H
#define ONCEPAY_SIM_SIM_H

#include "ops/sim/arrivals.h"
#include "ops/sim/ledger.h"
#include "ops/sim/protocol.h"
#include "ops/sim/webhook.h"

struct sim_options {
    uint16_t port;
    const char *data_directory;
    uint64_t seed;
    const char *faults;  /* a preset or a file */
    const char *profile; /* NULL: faithful */
    const char *webhook_url;
    int64_t latency_ms;
};

/* A charge that will change by itself. */
struct sim_due;

struct sim {
    struct sim_options options;
    struct deadline_queue deadlines;
    struct fault_set faults;
    struct ledger ledger;
    struct arrivals arrivals;
    struct webhook_sender *webhooks;
    struct server *server;
    struct sim_due *dues;
};

/* What a create comes to. Text is borrowed and copied. */
struct sim_order {
    const struct account *account;
    const char *key; /* NULL: none */
    const char *method;
    const char *metadata; /* a JSON object */
    const char *return_url;
    int64_t amount_minor;
    char currency[4];
    enum charge_state state;
    char decline_code[CHARGE_CODE_SIZE];
    bool is_payable;
    int64_t due_after_ms; /* < 0: stays as it is */
    enum charge_state due_state;
};

/* False: error says why; the simulator can only be finished then. */
bool sim_start(struct sim *sim, const struct sim_options *options, char error[LOGFILE_ERROR_SIZE]);
/* Serves until stop_fd is readable. */
void sim_run(struct sim *sim, int stop_fd);
void sim_finish(struct sim *sim);

/* What follows notes and tells; sim_commit makes it durable, before anybody is answered. */
struct charge *sim_execute(struct sim *sim, const struct sim_order *order);
/* As sim_execute, under a given object name and without an event. */
struct charge *sim_record(struct sim *sim, const struct sim_order *order, const char *object);
void sim_change(struct sim *sim, struct charge *charge, enum charge_state state,
                const char *decline_code);
void sim_commit(struct sim *sim);
/* Forgets charges, keys, events, arrivals and the clock; the fault rules stay. */
void sim_reset(struct sim *sim);

/* A fault rule for every create of an account, whatever its key: the hostile profiles. */
bool sim_has_profile(struct sim *sim, const struct account *account, enum fault_slot slot,
                     struct fault *out);

/* JSON error {"error": text} of the simulator itself, not of a PSP. */
void sim_refuse(struct exchange *exchange, unsigned status, const char *text);

#endif
