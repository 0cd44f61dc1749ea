/*
 * adapters/nats/bus_feed.c: asynchronous subscriptions that survive a new connection. libnats runs
 * each one's callback on a thread of its own; a feed is freed when libnats has said that the last
 * callback is over.
 */
#include "adapters/nats/bus_internal.h"

static void deliver(natsConnection *connection, natsSubscription *subscription, natsMsg *message,
                    void *closure)
{
    (void)connection;
    (void)subscription;
    const struct bus_feed *feed = closure;
    feed->on_message(feed->owner, message);
}

static void on_complete(void *closure)
{
    struct bus_feed *feed = closure;
    struct bus *bus = feed->bus;
    pthread_mutex_lock(&bus->lock);
    feed->completions_due--;
    pthread_cond_broadcast(&bus->changed);
    pthread_mutex_unlock(&bus->lock);
}

struct bus_feed *bus_feed_open(struct bus *bus, enum bus_role role, const char *subject,
                               void (*on_message)(void *owner, natsMsg *message), void *owner)
{
    struct bus_feed *feed = memory_allocate(sizeof *feed);
    feed->bus = bus;
    feed->link = bus_link(bus, role);
    feed->subject = memory_copy_text(subject);
    feed->on_message = on_message;
    feed->owner = owner;
    feed->next = bus->feeds;
    bus->feeds = feed;
    return feed;
}

enum status bus_feed_subscribe(struct bus_feed *feed)
{
    struct bus *bus = feed->bus;
    pthread_mutex_lock(&bus->lock);
    natsConnection *connection = feed->link->connection;
    if (feed->subscription != NULL) bus_retire(bus, feed->subscription, NULL);
    feed->subscription = NULL;
    feed->completions_due++;
    pthread_mutex_unlock(&bus->lock);

    natsSubscription *subscription = NULL;
    natsStatus status =
        natsConnection_Subscribe(&subscription, connection, feed->subject, deliver, feed);
    if (status == NATS_OK) {
        status = natsSubscription_SetOnCompleteCB(subscription, on_complete, feed);
    }
    pthread_mutex_lock(&bus->lock);
    if (status != NATS_OK) feed->completions_due--;
    if (status != NATS_OK && subscription != NULL) bus_retire(bus, subscription, NULL);
    if (status == NATS_OK) feed->subscription = subscription;
    pthread_mutex_unlock(&bus->lock);
    return status == NATS_OK ? STATUS_OK : STATUS_RETRY;
}

/* A failure here means that this connection broke, too: it is made anew, with all its feeds. */
void bus_feed_resubscribe(struct bus_link *link)
{
    for (struct bus_feed *feed = link->bus->feeds; feed != NULL; feed = feed->next) {
        if (feed->link == link && !feed->is_closed) (void)!bus_feed_subscribe(feed);
    }
}

void bus_feed_drain(struct bus_feed *feed, int64_t timeout_ms)
{
    feed->is_closed = true;
    if (feed->subscription == NULL) return;
    natsStatus status = NATS_CONNECTION_DISCONNECTED; /* nothing is under way then */
    if (atomic_load(&feed->link->connected)) {
        status = natsSubscription_DrainTimeout(feed->subscription, timeout_ms);
    }
    if (status == NATS_OK) {
        (void)natsSubscription_WaitForDrainCompletion(feed->subscription, timeout_ms);
    } else {
        (void)natsSubscription_Unsubscribe(feed->subscription);
    }
    pthread_mutex_lock(&feed->bus->lock);
    bus_retire(feed->bus, feed->subscription, NULL);
    feed->subscription = NULL;
    pthread_mutex_unlock(&feed->bus->lock);
}

void bus_feed_close(struct bus_feed *feed, int64_t timeout_ms)
{
    struct bus *bus = feed->bus;
    bus_feed_drain(feed, timeout_ms);
    pthread_mutex_lock(&bus->lock);
    const bool is_quiet = bus_wait_for_zero(bus, &feed->completions_due, timeout_ms);
    pthread_mutex_unlock(&bus->lock);
    if (!is_quiet) return; /* stays in the list; bus_close looks again */
    struct bus_feed **at = &bus->feeds;
    while (*at != feed) at = &(*at)->next;
    *at = feed->next;
    free(feed->subject);
    free(feed);
}
