/*
 * adapters/nats/bus_nats.c: the connections and their life. Options and their reasons are
 * measured in research on libnats 3.4.1: without a write deadline a frozen server blocks a publish
 * for ever, and with the default reconnect buffer a publish made while disconnected is stored
 * minutes later.
 */
#include "adapters/nats/bus_internal.h"

#include "pipeline/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECT_TIMEOUT_MS = 2000,
    CONNECT_WAIT_MIN_MS = 100,
    CONNECT_WAIT_MAX_MS = 5000,
    CLOSE_WAIT_MS = 2000,
    FLUSH_WAIT_MS = 1000,
};

int64_t bus_now_ms(void)
{
    return clock_monotonic_us() / 1000;
}

void bus_wake(struct bus *bus)
{
    if (atomic_exchange(&bus->is_awake, true)) return;
    const uint64_t one = 1;
    (void)!write(bus->wake_fd, &one, sizeof one); /* a full counter is as readable as can be */
}

void bus_wakeup_clear(struct bus *bus)
{
    uint64_t count;
    (void)!read(bus->wake_fd, &count, sizeof count);
    atomic_store(&bus->is_awake, false);
}

int bus_fd(const struct bus *bus)
{
    return bus->wake_fd;
}

static void on_disconnected(natsConnection *connection, void *closure)
{
    struct bus_link *link = closure;
    struct bus *bus = link->bus;
    pthread_mutex_lock(&bus->lock);
    const bool is_current = link->connection == connection;
    pthread_mutex_unlock(&bus->lock);
    if (!is_current) return;
    atomic_store(&link->connected, false);
    if (link == &bus->links[BUS_ROLE_PULL]) {
        bus_consumer_disconnected(bus);
    } else {
        bus_publisher_disconnected(bus); /* whichever way it went: its answer may never come */
    }
    bus_wake(bus);
}

static void on_reconnected(natsConnection *connection, void *closure)
{
    struct bus_link *link = closure;
    struct bus *bus = link->bus;
    pthread_mutex_lock(&bus->lock);
    const bool is_current = link->connection == connection;
    if (is_current) bus->stats.reconnects++;
    pthread_mutex_unlock(&bus->lock);
    if (!is_current) return;
    atomic_store(&link->connected, true);
    if (link == &bus->links[BUS_ROLE_PULL]) bus_consumer_reconnected(bus);
    bus_wake(bus);
}

static void on_closed(natsConnection *connection, void *closure)
{
    struct bus_link *link = closure;
    struct bus *bus = link->bus;
    pthread_mutex_lock(&bus->lock);
    link->closes_due--;
    if (link->connection == connection) {
        atomic_store(&link->connected, false);
        link->closed = true;
    }
    pthread_cond_broadcast(&bus->changed);
    bus_wake(bus); /* before the lock is gone: bus_close frees the bus after the last close */
    pthread_mutex_unlock(&bus->lock);
}

/* Errors come back where something was asked for; libnats' default handler would print. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status,
                     void *closure)
{
    (void)connection;
    (void)subscription;
    (void)status;
    (void)closure;
}

/* "tls://name:port" -> "name"; the first server's name when there are several. */
static void host_of(const char *url, char *host, size_t size)
{
    const char *start = strstr(url, "://");
    start = start == NULL ? url : start + 3;
    const char *at = strpbrk(start, "@,");
    if (at != NULL && *at == '@') start = at + 1;
    (void)snprintf(host, size, "%.*s", (int)strcspn(start, ":,/"), start);
}

static natsStatus set_security(natsOptions *options, const struct bus *bus)
{
    if (strstr(bus->url, "tls://") == NULL) return NATS_OK;
    char host[256];
    host_of(bus->url, host, sizeof host);
    natsStatus status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK) status = natsOptions_LoadCATrustedCertificates(options, bus->ca_file);
    if (status == NATS_OK) status = natsOptions_SetExpectedHostname(options, host);
    return status;
}

/* Servers are separated by commas in our form; libnats wants an array. */
static natsStatus set_servers(natsOptions *options, const struct bus *bus)
{
    char *copy = memory_copy_text(bus->url);
    const char *servers[16];
    int count = 0;
    char *rest = copy;
    char *server;
    while ((server = strtok_r(rest, ",", &rest)) != NULL && count < (int)COUNT_OF(servers)) {
        servers[count++] = server;
    }
    const natsStatus status = natsOptions_SetServers(options, servers, count);
    free(copy);
    return status;
}

static natsStatus make_options(struct bus_link *link, natsOptions **out_options)
{
    const struct bus *bus = link->bus;
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);
#define SET(call)                                                                                  \
    if (status == NATS_OK) status = (call)
    SET(set_servers(options, bus));
    SET(set_security(options, bus));
    SET(natsOptions_SetName(options, bus->name));
    SET(natsOptions_SetCustomInboxPrefix(options, BUS_OWN_INBOX));
    SET(natsOptions_SetTimeout(options, CONNECT_TIMEOUT_MS));
    SET(natsOptions_SetWriteDeadline(options, 2000));
    SET(natsOptions_SetPingInterval(options, 5000));
    SET(natsOptions_SetMaxPingsOut(options, 2));
    SET(natsOptions_SetAllowReconnect(options, true));
    SET(natsOptions_SetMaxReconnect(options, -1));
    SET(natsOptions_SetReconnectWait(options, 250));
    SET(natsOptions_SetReconnectJitter(options, 100, 500));
    SET(natsOptions_SetReconnectBufSize(options, 1));
    SET(natsOptions_SetSendAsap(options, link != &bus->links[BUS_ROLE_BULK]));
    SET(natsOptions_SetFailRequestsOnDisconnect(options, true));
    /* Our own loop retries the first connect: theirs stops at a broken handshake (nats.c 926). */
    SET(natsOptions_SetRetryOnFailedConnect(options, false, NULL, NULL));
    SET(natsOptions_SetDisconnectedCB(options, on_disconnected, link));
    SET(natsOptions_SetReconnectedCB(options, on_reconnected, link));
    SET(natsOptions_SetClosedCB(options, on_closed, link));
    SET(natsOptions_SetErrorHandler(options, on_error, NULL));
#undef SET
    if (status == NATS_OK) {
        *out_options = options;
    } else {
        natsOptions_Destroy(options);
    }
    return status;
}

void bus_retire(struct bus *bus, natsSubscription *subscription, natsConnection *connection)
{
    struct bus_retired *retired = memory_allocate(sizeof *retired);
    retired->subscription = subscription;
    retired->connection = connection;
    retired->next = bus->retired;
    bus->retired = retired;
}

/* One attempt. NATS_OK: the link has a new connection, its old one is retired. */
static natsStatus link_open(struct bus_link *link)
{
    natsOptions *options = NULL;
    natsStatus status = make_options(link, &options);
    if (status != NATS_OK) return status;
    struct bus *bus = link->bus;
    pthread_mutex_lock(&bus->lock);
    link->closes_due++; /* before: the closed callback may be quicker than we are */
    pthread_mutex_unlock(&bus->lock);
    natsConnection *connection = NULL;
    status = natsConnection_Connect(&connection, options);
    natsOptions_Destroy(options);
    const bool is_open = status == NATS_OK && !natsConnection_IsClosed(connection);
    pthread_mutex_lock(&bus->lock);
    if (status != NATS_OK) {
        link->closes_due--;
    } else if (link->connection != NULL) {
        bus_retire(bus, NULL, link->connection);
    }
    if (status == NATS_OK) {
        link->connection = connection;
        link->closed = !is_open;
    }
    pthread_mutex_unlock(&bus->lock);
    atomic_store(&link->connected, is_open);
    return status;
}

static bool is_stopped(const struct bus *bus)
{
    return bus->stop != NULL && *bus->stop != 0;
}

/* Between half and all of wait_ms, in slices, so that a stop is seen soon. */
static void sleep_jittered(const struct bus *bus, int64_t wait_ms)
{
    const int64_t until_ms =
        bus_now_ms() + wait_ms / 2 +
        (int64_t)((uint64_t)clock_monotonic_us() % ((uint64_t)wait_ms / 2 + 1));
    while (!is_stopped(bus) && bus_now_ms() < until_ms) {
        const struct timespec slice = { .tv_nsec = 20 * 1000 * 1000 };
        (void)nanosleep(&slice, NULL);
    }
}

static enum status link_open_for_ever(struct bus_link *link)
{
    int64_t wait_ms = CONNECT_WAIT_MIN_MS;
    while (!is_stopped(link->bus)) {
        if (link_open(link) == NATS_OK) return STATUS_OK;
        sleep_jittered(link->bus, wait_ms);
        wait_ms = wait_ms * 2 < CONNECT_WAIT_MAX_MS ? wait_ms * 2 : CONNECT_WAIT_MAX_MS;
    }
    return STATUS_RETRY;
}

/* Wrong options fail here, where no server is needed to see it. */
static const char *options_error(struct bus *bus)
{
    const bool is_plain = strncmp(bus->url, "nats://", 7) == 0;
    if (!is_plain && strncmp(bus->url, "tls://", 6) != 0) {
        return "the NATS address must begin with nats:// or tls://";
    }
    if (strstr(bus->url, "tls://") != NULL && bus->ca_file == NULL) {
        return "a tls:// address needs a file of certificate authorities";
    }
    natsOptions *options = NULL;
    if (make_options(&bus->links[BUS_ROLE_PULL], &options) != NATS_OK) {
        return bus->ca_file != NULL ? "the NATS address or the certificate file is not usable"
                                    : "the NATS address is not usable";
    }
    natsOptions_Destroy(options);
    return NULL;
}

static struct bus *bus_new(const struct bus_options *options)
{
    struct bus *bus = memory_allocate(sizeof *bus);
    bus->url = memory_copy_text(options->url);
    bus->name = memory_copy_text(options->name);
    if (options->ca_file != NULL && options->ca_file[0] != '\0') {
        bus->ca_file = memory_copy_text(options->ca_file);
    }
    bus->stop = options->stop;
    bus->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    INVARIANT(bus->wake_fd >= 0);
    pthread_condattr_t attributes;
    INVARIANT(pthread_mutex_init(&bus->lock, NULL) == 0);
    INVARIANT(pthread_condattr_init(&attributes) == 0);
    INVARIANT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    INVARIANT(pthread_cond_init(&bus->changed, &attributes) == 0);
    (void)pthread_condattr_destroy(&attributes);
    for (size_t i = 0; i < COUNT_OF(bus->links); i++) bus->links[i].bus = bus;
    bus_publisher_init(bus);
    return bus;
}

enum status bus_connect(const struct bus_options *options, struct bus **out_bus,
                        const char **out_error)
{
    struct bus *bus = bus_new(options);
    const char *error = options_error(bus);
    enum status status = error == NULL ? STATUS_OK : STATUS_STOP;
    if (status == STATUS_OK) status = link_open_for_ever(&bus->links[BUS_ROLE_PUBLISH]);
    if (status == STATUS_OK) status = link_open_for_ever(&bus->links[BUS_ROLE_PULL]);
    if (status == STATUS_OK) status = link_open_for_ever(&bus->links[BUS_ROLE_BULK]);
    if (status == STATUS_OK) {
        bus_feed_resubscribe(&bus->links[BUS_ROLE_PUBLISH]);
        *out_bus = bus;
        return STATUS_OK;
    }
    bus_close(bus);
    if (out_error != NULL)
        *out_error = error == NULL ? "stopped before NATS could be reached" : error;
    return status;
}

static void link_reopen(struct bus_link *link)
{
    const int64_t now_ms = bus_now_ms();
    if (now_ms < link->reopen_at_ms) return;
    if (link_open(link) == NATS_OK) {
        link->reopen_wait_ms = 0;
        on_reconnected(link->connection, link);
        bus_feed_resubscribe(link);
        return;
    }
    const int64_t doubled_ms = link->reopen_wait_ms * 2;
    link->reopen_wait_ms = doubled_ms < CONNECT_WAIT_MIN_MS   ? CONNECT_WAIT_MIN_MS
                           : doubled_ms > CONNECT_WAIT_MAX_MS ? CONNECT_WAIT_MAX_MS
                                                              : doubled_ms;
    link->reopen_at_ms = now_ms + link->reopen_wait_ms;
}

void bus_upkeep(struct bus *bus)
{
    for (size_t i = 0; i < COUNT_OF(bus->links); i++) {
        pthread_mutex_lock(&bus->lock);
        const bool is_closed = bus->links[i].closed;
        pthread_mutex_unlock(&bus->lock);
        if (is_closed) link_reopen(&bus->links[i]);
    }
    bus_publisher_expire(bus);
}

void bus_wait(struct bus *bus, int64_t timeout_ms)
{
    bus_upkeep(bus);
    struct pollfd wake = { .fd = bus->wake_fd, .events = POLLIN };
    if (poll(&wake, 1, (int)timeout_ms) > 0) bus_wakeup_clear(bus);
}

bool bus_is_connected(struct bus *bus)
{
    return atomic_load(&bus->links[BUS_ROLE_PUBLISH].connected) &&
           atomic_load(&bus->links[BUS_ROLE_PULL].connected);
}

void bus_stats(struct bus *bus, struct bus_stats *out_stats)
{
    pthread_mutex_lock(&bus->lock);
    *out_stats = bus->stats;
    pthread_mutex_unlock(&bus->lock);
}

bool bus_wait_for_zero(struct bus *bus, const unsigned *due, int64_t timeout_ms)
{
    const int64_t until_us = clock_monotonic_us() + timeout_ms * 1000;
    const struct timespec until = { .tv_sec = until_us / 1000000,
                                    .tv_nsec = (until_us % 1000000) * 1000 };
    while (*due > 0) {
        if (pthread_cond_timedwait(&bus->changed, &bus->lock, &until) == ETIMEDOUT) break;
    }
    return *due == 0;
}

/* Several in a moment are a burst. */
static bool is_burst(struct bus *bus)
{
    enum { MOMENT_MS = 4, SENDS_MAX = 8 };
    const int64_t tick = bus_now_ms() / MOMENT_MS;
    if (atomic_exchange(&bus->burst_tick, tick) != tick) atomic_store(&bus->burst_sends, 0);
    return atomic_fetch_add(&bus->burst_sends, 1) >= SENDS_MAX;
}

natsConnection *bus_sender(struct bus *bus, enum bus_role role)
{
    const bool is_gathered = is_burst(bus) && atomic_load(&bus->links[BUS_ROLE_BULK].connected);
    return bus_connection(bus, is_gathered ? BUS_ROLE_BULK : role);
}

void bus_dispose(struct bus *bus, const char *reply, const char *text)
{
    natsConnection *connection = bus_sender(bus, BUS_ROLE_PULL);
    if (natsConnection_PublishString(connection, reply, text) == NATS_OK) return;
    pthread_mutex_lock(&bus->lock);
    bus->stats.disposals_failed++;
    pthread_mutex_unlock(&bus->lock);
}

void bus_hand_back(struct bus *bus, natsMsg *message, int64_t delay_ms)
{
    char text[64];
    (void)snprintf(text, sizeof text, "-NAK {\"delay\":%" PRId64 "}", delay_ms * 1000000);
    bus_dispose(bus, natsMsg_GetReply(message), text);
    pthread_mutex_lock(&bus->lock);
    bus->stats.handed_back++;
    pthread_mutex_unlock(&bus->lock);
}

/* True when libnats will not call back any more. */
static bool links_close(struct bus *bus)
{
    for (size_t i = 0; i < COUNT_OF(bus->links); i++) {
        struct bus_link *link = &bus->links[i];
        if (link->connection == NULL) continue;
        if (atomic_load(&link->connected)) {
            (void)natsConnection_FlushTimeout(link->connection, FLUSH_WAIT_MS);
        }
        natsConnection_Close(link->connection);
    }
    bool is_quiet = true;
    pthread_mutex_lock(&bus->lock);
    for (size_t i = 0; i < COUNT_OF(bus->links); i++) {
        is_quiet &= bus_wait_for_zero(bus, &bus->links[i].closes_due, CLOSE_WAIT_MS);
    }
    for (struct bus_feed *feed = bus->feeds; feed != NULL; feed = feed->next) {
        is_quiet &= bus_wait_for_zero(bus, &feed->completions_due, CLOSE_WAIT_MS);
    }
    pthread_mutex_unlock(&bus->lock);
    return is_quiet;
}

void bus_close(struct bus *bus)
{
    if (bus == NULL) return;
    while (bus->consumers != NULL) bus_consumer_close(bus->consumers);
    /* Freed under a callback's feet would be worse than a leak in a process that is ending. */
    if (!links_close(bus)) return;
    while (bus->feeds != NULL) bus_feed_close(bus->feeds, 0);
    while (bus->retired != NULL) {
        struct bus_retired *retired = bus->retired;
        bus->retired = retired->next;
        natsSubscription_Destroy(retired->subscription);
        natsConnection_Destroy(retired->connection);
        free(retired);
    }
    for (size_t i = 0; i < COUNT_OF(bus->links); i++) {
        natsConnection_Destroy(bus->links[i].connection);
    }
    bus_publisher_finish(bus);
    (void)close(bus->wake_fd);
    (void)pthread_cond_destroy(&bus->changed);
    (void)pthread_mutex_destroy(&bus->lock);
    free(bus->url);
    free(bus->name);
    free(bus->ca_file);
    free(bus);
}
