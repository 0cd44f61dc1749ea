/*
 * adapters/redis/cache_link.c: one non-blocking hiredis connection and its circuit. Connecting and
 * greeting go on in passing, a step per call and never waited for, so a Redis that is dead, frozen
 * or refuses us costs the first deadline and nothing more. hiredis' own timeouts are per read, so a
 * trickling server could stretch them; here one deadline covers a whole exchange.
 */
#include "adapters/redis/cache_internal.h"

#include "pipeline/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

static int64_t now_ms(void)
{
    return clock_monotonic_us() / 1000;
}

/* --- the address ----------------------------------------------------------------------------- */

static int hex_value(char digit)
{
    static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = digit == '\0' ? NULL : strchr(DIGITS, digit);
    return at == NULL ? -1 : (int)((at - DIGITS) % 16);
}

/* A copy with %XX resolved. */
static char *decode(const char *text, size_t length)
{
    char *out = memory_allocate(length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const int high = text[i] == '%' && i + 2 < length ? hex_value(text[i + 1]) : -1;
        const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
        if (low >= 0) {
            out[used++] = (char)(high * 16 + low);
            i += 2;
        } else {
            out[used++] = text[i];
        }
    }
    return out;
}

/* Digits up to the end of text or the stop character; -1 if it is no number in 0..max. */
static int parse_number(const char *text, char stop, int max)
{
    int number = 0;
    if (*text == '\0' || *text == stop) return -1;
    for (; *text != '\0' && *text != stop; text++) {
        if (*text < '0' || *text > '9') return -1;
        number = number * 10 + (*text - '0');
        if (number > max) return -1;
    }
    return number;
}

static const char *parse_credentials(struct cache_link *link, const char *rest)
{
    const char *at = strrchr(rest, '@');
    if (at == NULL) return rest;
    const char *colon = memchr(rest, ':', (size_t)(at - rest));
    if (colon == NULL) return NULL;
    if (colon > rest) link->user = decode(rest, (size_t)(colon - rest));
    link->password = decode(colon + 1, (size_t)(at - colon - 1));
    return at + 1;
}

enum status cache_link_init(struct cache_link *link, const char *url)
{
    *link = (struct cache_link){ .port = 6379 };
    if (strncmp(url, "unix://", 7) == 0 && url[7] == '/') {
        link->path = memory_copy_text(url + 7);
        return STATUS_OK;
    }
    if (strncmp(url, "redis://", 8) != 0) return STATUS_STOP;
    const char *rest = parse_credentials(link, url + 8);
    if (rest == NULL) return STATUS_STOP;
    const bool is_bracketed = rest[0] == '['; /* an IPv6 address */
    if (is_bracketed) rest++;
    const size_t host_length = strcspn(rest, is_bracketed ? "]" : ":/");
    if (host_length == 0 || (is_bracketed && rest[host_length] == '\0')) return STATUS_STOP;
    link->host = decode(rest, host_length);
    rest += host_length + (is_bracketed ? 1 : 0);
    if (*rest != '\0' && *rest != ':' && *rest != '/') return STATUS_STOP;
    if (*rest == ':') {
        link->port = parse_number(++rest, '/', 65535);
        rest += strcspn(rest, "/");
    }
    if (*rest == '/' && rest[1] != '\0') link->database = parse_number(rest + 1, '\0', 1000000);
    return link->port <= 0 || link->database < 0 ? STATUS_STOP : STATUS_OK;
}

void cache_link_finish(struct cache_link *link)
{
    if (link->context != NULL) redisFree(link->context);
    if (link->password != NULL) explicit_bzero(link->password, strlen(link->password));
    free(link->host);
    free(link->path);
    free(link->user);
    free(link->password);
    *link = (struct cache_link){ 0 };
}

/* Once: resolving may take as long as the resolver likes, so no probe does it again. */
static bool resolve(struct cache_link *link)
{
    if (link->path != NULL || link->address[0] != '\0') return true;
    if (now_ms() < link->resolve_at_ms) return false;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    link->resolve_at_ms = now_ms() + CACHE_RESOLVE_INTERVAL_MS;
    if (getaddrinfo(link->host, NULL, &hints, &found) != 0) return false;
    const bool is_named = getnameinfo(found->ai_addr, found->ai_addrlen, link->address,
                                      sizeof link->address, NULL, 0, NI_NUMERICHOST) == 0;
    freeaddrinfo(found);
    if (!is_named) link->address[0] = '\0';
    return is_named;
}

/* --- the circuit ----------------------------------------------------------------------------- */

static void drop(struct cache_link *link)
{
    if (link->context != NULL) redisFree(link->context);
    link->context = NULL;
    link->phase = LINK_DOWN;
    link->next_try_ms = now_ms() + CACHE_PROBE_INTERVAL_MS;
}

void cache_link_fail(struct cache_link *link)
{
    link->failures++;
    if (link->phase == LINK_UP) link->opened++;
    drop(link);
}

static void begin_connecting(struct cache_link *link)
{
    link->next_try_ms = now_ms() + CACHE_PROBE_INTERVAL_MS; /* until then this try may take */
    if (!resolve(link)) return;
    link->context = link->path != NULL ? redisConnectUnixNonBlock(link->path)
                                       : redisConnectNonBlock(link->address, link->port);
    if (link->context == NULL || link->context->err != 0) {
        drop(link);
    } else {
        link->phase = LINK_CONNECTING;
    }
}

void cache_link_append(struct cache_link *link, size_t count, const struct span *words)
{
    const char *texts[16];
    size_t lengths[16];
    INVARIANT(count <= COUNT_OF(texts));
    for (size_t i = 0; i < count; i++) {
        texts[i] = words[i].length == 0 ? "" : (const char *)words[i].data;
        lengths[i] = words[i].length;
    }
    INVARIANT(redisAppendCommandArgv(link->context, (int)count, texts, lengths) == REDIS_OK);
}

static void greet(struct cache_link *link)
{
    char database[16];
    (void)snprintf(database, sizeof database, "%d", link->database);
    const struct span auth[] = { span_of_text("AUTH"),
                                 span_of_text(link->user != NULL ? link->user : "default"),
                                 span_of_text(link->password) };
    const struct span auth_old[] = { auth[0], auth[2] }; /* understood before Redis 6, too */
    const struct span select[] = { span_of_text("SELECT"), span_of_text(database) };
    const struct span ping[] = { span_of_text("PING") };
    link->replies_due = 2;
    if (link->password != NULL && link->user != NULL) cache_link_append(link, 3, auth);
    if (link->password != NULL && link->user == NULL) cache_link_append(link, 2, auth_old);
    if (link->password != NULL) link->replies_due++;
    cache_link_append(link, 2, select);
    cache_link_append(link, 1, ping);
    link->phase = LINK_GREETING;
}

/* Ready for events within wait_ms? poll also reports errors, which the next read or write finds. */
static bool wait_for(const struct cache_link *link, short events, int64_t wait_ms)
{
    struct pollfd fd = { .fd = link->context->fd, .events = events };
    return poll(&fd, 1, wait_ms > 0 ? (int)wait_ms : 0) > 0;
}

static void finish_connecting(struct cache_link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(link->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        drop(link);
    } else {
        greet(link);
    }
}

/* Writes and reads what is possible now. False: the connection is broken. */
static bool pump(struct cache_link *link)
{
    int is_written = 0;
    if (redisBufferWrite(link->context, &is_written) != REDIS_OK) return false;
    if (!wait_for(link, POLLIN, 0)) return true;
    return redisBufferRead(link->context) == REDIS_OK;
}

/* NULL in *out_reply: none complete yet. False: what came is not Redis' protocol. */
static bool next_reply(struct cache_link *link, redisReply **out_reply)
{
    void *reply = NULL;
    if (redisGetReplyFromReader(link->context, &reply) != REDIS_OK) return false;
    *out_reply = reply;
    return true;
}

static void finish_greeting(struct cache_link *link)
{
    if (!pump(link)) {
        drop(link);
        return;
    }
    while (link->replies_due > 0) {
        redisReply *reply = NULL;
        if (!next_reply(link, &reply)) {
            drop(link);
            return;
        }
        if (reply == NULL) return;
        const bool is_welcome = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        link->replies_due--;
        if (is_welcome) continue;
        drop(link);
        return;
    }
    link->phase = LINK_UP;
}

bool cache_link_advance(struct cache_link *link)
{
    if (link->phase == LINK_UP) return true;
    const bool is_due = now_ms() >= link->next_try_ms;
    if (is_due && link->phase != LINK_DOWN)
        drop(link); /* that try took too long; the next one waits */
    if (is_due && link->phase == LINK_DOWN && now_ms() >= link->next_try_ms) begin_connecting(link);
    if (link->phase == LINK_CONNECTING && wait_for(link, POLLOUT, 0)) finish_connecting(link);
    if (link->phase == LINK_GREETING) finish_greeting(link);
    return link->phase == LINK_UP;
}

bool cache_link_connect(struct cache_link *link, int64_t wait_ms)
{
    const int64_t until_ms = now_ms() + wait_ms;
    while (!cache_link_advance(link) && link->phase != LINK_DOWN) {
        const int64_t left_ms = until_ms - now_ms();
        if (left_ms <= 0) break;
        (void)wait_for(link, link->phase == LINK_CONNECTING ? POLLOUT : POLLIN, left_ms);
    }
    return link->phase == LINK_UP;
}

static bool exchange(struct cache_link *link, size_t count, int64_t timeout_ms,
                     redisReply **replies, size_t *out_count)
{
    const int64_t until_ms = now_ms() + timeout_ms;
    for (;;) {
        int is_written = 0;
        if (redisBufferWrite(link->context, &is_written) != REDIS_OK) return false;
        redisReply *reply = NULL;
        do {
            if (!next_reply(link, &reply)) return false;
            if (reply != NULL) replies[(*out_count)++] = reply;
        } while (reply != NULL && *out_count < count);
        if (*out_count == count) return true;
        const int64_t left_ms = until_ms - now_ms();
        if (left_ms <= 0) return false;
        const short events = (short)(POLLIN | (is_written ? 0 : POLLOUT));
        (void)wait_for(link, events, left_ms);
        if (wait_for(link, POLLIN, 0) && redisBufferRead(link->context) != REDIS_OK) return false;
    }
}

bool cache_link_exchange(struct cache_link *link, size_t count, int64_t timeout_ms,
                         redisReply **out_replies)
{
    size_t got = 0;
    if (exchange(link, count, timeout_ms, out_replies, &got)) return true;
    while (got > 0) freeReplyObject(out_replies[--got]);
    cache_link_fail(link);
    return false;
}
