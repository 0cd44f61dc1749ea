/*
 * tests/contract/bus_fixture.h: a private nats-server with JetStream on file storage, and a small
 * topology whose limits a test can reach.
 */
#ifndef ONCEPAY_TESTS_CONTRACT_BUS_FIXTURE_H
#define ONCEPAY_TESTS_CONTRACT_BUS_FIXTURE_H

#include "adapters/nats/bus_nats.h"
#include "tests/support/server_fixture.h"

struct bus_fixture {
    struct server_fixture server;
    struct bus *bus;
    struct arena arena;
    struct bus_topology topology;
    struct bus_stream_spec streams[2];
    struct bus_consumer_spec consumers[3];
};

/*
 * Streams WORK (work.a.*, work.b.*; consumers a and b) and LOG (log.>, limits, consumer log). The
 * test may change the specs before it applies them.
 */
void bus_fixture_start(struct bus_fixture *fixture);
void bus_fixture_finish(struct bus_fixture *fixture);

/* Writes the server's configuration with this password of user "oncepay". */
void bus_fixture_password(struct bus_fixture *fixture, const char *password);
/* A connection of its own; the test closes it. */
struct bus *bus_fixture_connect(struct bus_fixture *fixture);
/* Applies the topology; must go well. */
void bus_fixture_apply(struct bus_fixture *fixture);
struct bus_consumer *bus_fixture_consumer(struct bus_fixture *fixture, const char *durable);
/* A raw request that must go well. */
void bus_fixture_request(struct bus_fixture *fixture, const char *subject, const char *json);

/* Publishes "<prefix><n>" as body and message id, n from 0, and waits until all are stored. */
void bus_fixture_publish(struct bus_fixture *fixture, const char *subject, const char *prefix,
                         size_t count);
/* Takes up to max, asking for want, until max came or timeout_ms passed. */
size_t bus_fixture_take(struct bus_fixture *fixture, struct bus_consumer *consumer, size_t want,
                        size_t max, struct bus_message *out_messages, int64_t timeout_ms);
/* Waits until the stream has that many messages. */
bool bus_fixture_wait_stored(struct bus_fixture *fixture, const char *stream, uint64_t count,
                             int64_t timeout_ms);
bool bus_fixture_wait_connected(struct bus_fixture *fixture, int64_t timeout_ms);
int64_t bus_fixture_now_ms(void);

#endif
