/*
 * stages/gateway/gateway_server.h: the gateway's HTTP side: POST /webhooks/{account}, and /livez,
 * /readyz, /metrics. Bodies are read whole, up to a cap, before they are looked at; a webhook is
 * answered 2xx only once it is committed. Everything else is answered with problem details.
 */
#ifndef ONCEPAY_STAGES_GATEWAY_GATEWAY_SERVER_H
#define ONCEPAY_STAGES_GATEWAY_GATEWAY_SERVER_H

#include "config/config.h"
#include "stages/gateway/gateway_inbox.h"
#include "stages/health.h"

struct gateway_server;

struct gateway_server_options {
    const struct config *config; /* accounts, address, port, limits */
    struct gateway_inbox *inbox;
    struct health *health;
    const char *port_file; /* NULL or "": none */
};

/* NULL if the port cannot be had, or an account's PSP is not known here; logged. */
struct gateway_server *gateway_server_open(const struct gateway_server_options *options);
/* Takes no further connection; requests that wait go on. */
void gateway_server_quiesce(struct gateway_server *server);
/* Requests that have not had their answer. */
size_t gateway_server_waiting(struct gateway_server *server);
/* None may be waiting for the inbox any more. */
void gateway_server_close(struct gateway_server *server);
int gateway_server_port(struct gateway_server *server);

#endif
