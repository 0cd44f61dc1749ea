/* adapters/nats/bus_subscription.c: core messages into a bounded queue; the oldest give way. */
#include "adapters/nats/bus_internal.h"

enum { SUBSCRIBE_WAIT_MS = 2000 };

static void on_message(void *owner, natsMsg *message)
{
    struct bus_subscription *subscription = owner;
    struct bus *bus = subscription->bus;
    struct bus_delivery *dropped = NULL;
    pthread_mutex_lock(&bus->lock);
    bus_queue_push(&subscription->queue, bus_delivery_new(bus, message, true));
    if (subscription->queue.count > subscription->queue_max) {
        dropped = bus_queue_pop(&subscription->queue);
        bus->stats.core_dropped++;
    }
    pthread_mutex_unlock(&bus->lock);
    if (dropped != NULL) bus_delivery_free(dropped);
    bus_wake(bus);
}

enum status bus_subscription_open(struct bus *bus, const char *subject, size_t queue_max,
                                  struct bus_subscription **out_subscription)
{
    INVARIANT(queue_max > 0);
    struct bus_subscription *subscription = memory_allocate(sizeof *subscription);
    subscription->bus = bus;
    subscription->queue_max = queue_max;
    bus_queue_init(&subscription->queue);
    subscription->feed = bus_feed_open(bus, BUS_ROLE_PULL, subject, on_message, subscription);
    enum status status = bus_feed_subscribe(subscription->feed);
    /* What is published from here on must be heard, and publishes take the other connection. */
    if (status == STATUS_OK && natsConnection_FlushTimeout(bus_connection(bus, BUS_ROLE_PULL),
                                                           SUBSCRIBE_WAIT_MS) != NATS_OK) {
        status = STATUS_RETRY;
    }
    if (status == STATUS_OK) {
        *out_subscription = subscription;
    } else {
        bus_subscription_close(subscription);
    }
    return status;
}

size_t bus_subscription_take(struct bus_subscription *subscription, size_t max,
                             struct bus_message *out_messages)
{
    struct bus *bus = subscription->bus;
    bus_upkeep(bus);
    size_t count = 0;
    while (count < max) {
        pthread_mutex_lock(&bus->lock);
        struct bus_delivery *delivery = bus_queue_pop(&subscription->queue);
        pthread_mutex_unlock(&bus->lock);
        if (delivery == NULL) break;
        bus_delivery_open(delivery, &out_messages[count++]);
    }
    return count;
}

void bus_subscription_close(struct bus_subscription *subscription)
{
    if (subscription == NULL) return;
    struct bus *bus = subscription->bus;
    bus_feed_drain(subscription->feed, 1000);
    pthread_mutex_lock(&bus->lock);
    const bool is_quiet = bus_wait_for_zero(bus, &subscription->feed->completions_due, 1000);
    pthread_mutex_unlock(&bus->lock);
    if (!is_quiet) return; /* a callback may still use it: leaked rather than pulled away */
    bus_feed_close(subscription->feed, 0);
    struct bus_delivery *delivery;
    while ((delivery = bus_queue_pop(&subscription->queue)) != NULL) bus_delivery_free(delivery);
    free(subscription);
}

static char *inbox_below(const char *prefix, char inbox[BUS_INBOX_SIZE])
{
    natsInbox *made = NULL;
    INVARIANT(natsInbox_Create(&made) == NATS_OK);
    (void)snprintf(inbox, BUS_INBOX_SIZE, "%s%s", prefix, strchr(made, '.'));
    natsInbox_Destroy(made);
    return inbox;
}

char *bus_inbox_new(char inbox[BUS_INBOX_SIZE])
{
    return inbox_below("_INBOX", inbox);
}

char *bus_own_inbox_new(char inbox[BUS_INBOX_SIZE])
{
    return inbox_below(BUS_OWN_INBOX, inbox);
}
