/*
 * stages/psp_lane.h: one channel account inside create or recover: its PSP adapter, its PostgreSQL
 * connection, its pool of HTTP calls and its findings. Lanes share nothing, so a slow PSP cannot
 * starve another; one poll() waits for all of them and for the bus.
 */
#ifndef ONCEPAY_STAGES_PSP_LANE_H
#define ONCEPAY_STAGES_PSP_LANE_H

#include <poll.h>

#include "adapters/http/http_transport.h"
#include "stages/budget.h"
#include "stages/findings.h"

struct psp_lane {
    struct stage *stage;
    const struct config_account *account;
    const struct psp_ops *psp;
    const struct recovery_policy *policy; /* the one that is loaded now */
    struct store *store;
    struct store_queue queue;
    struct http_transport *transport;
    struct findings findings;
    char health_part[SUBJECT_TOKEN_LENGTH_MAX + 16]; /* "postgres/stripe-main" in /readyz */
};

/* False (logged) if the account's PSP is not built or its transport cannot be made. */
bool psp_lane_open(struct psp_lane *lane, struct stage *stage, const struct config_account *account,
                   const struct recovery_policy *policy, size_t calls_max,
                   size_t batch_max) MUST_CHECK;
void psp_lane_close(struct psp_lane *lane);

/*
 * Sends stored request bytes under the stored key, or a look-up (key NULL). The finding has its
 * request id and attempt; its observation is filled in and it goes to the findings when the answer
 * is there. send_by_us is monotonic. After this call the finding is not the caller's any more.
 */
void psp_lane_send(struct psp_lane *lane, struct finding *finding, enum request_kind kind,
                   const struct psp_request *request, const char *key, int64_t send_by_us);

/* Moves everything on that can move without waiting. */
void psp_lane_service(struct psp_lane *lane);
/* Adds this lane's descriptors (at most PSP_LANE_FDS) and lowers *wake_us to when it must run
 * again. */
enum { PSP_LANE_FDS = 2 };
size_t psp_lane_poll(struct psp_lane *lane, struct pollfd *descriptors, int64_t *wake_us);
/* No call, finding or transaction under way. */
bool psp_lane_is_idle(const struct psp_lane *lane);

/* Every account's recovery rules, loaded and kept in PostgreSQL under their version; false: logged,
 * exit code 2. */
bool psp_policy_open(struct stage *stage, struct recovery_policy *out_policy) MUST_CHECK;

#endif
