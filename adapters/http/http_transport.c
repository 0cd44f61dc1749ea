/*
 * adapters/http/http_transport.c: see http_transport.h. libcurl's socket interface feeds one epoll
 * descriptor, so the owner's poll watches one descriptor however many calls are in flight.
 */
#include "adapters/http/http_call.h"

#include "pipeline/clock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

struct http_transport {
    struct http_transport_options options;
    char *ca_file;
    CURLM *multi;
    int epoll_fd;
    int64_t timer_us; /* when libcurl wants to be called at the latest; -1: never */

    struct http_call **calls; /* every slot ever made, at most in_flight_max */
    size_t call_count;
    struct http_call *free_calls;
    size_t in_use; /* slots that are neither free nor lent to the owner */
    struct http_call *done_first;
    struct http_call *done_last;
    struct http_call *lent; /* whose answer the owner is looking at */
};

static int on_watch(CURL *easy, curl_socket_t socket, int what, void *user, void *socket_user)
{
    (void)easy, (void)socket_user;
    const struct http_transport *transport = user;
    if (what == CURL_POLL_REMOVE) { /* it may be closed already */
        (void)epoll_ctl(transport->epoll_fd, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    struct epoll_event event = { .data.fd = socket };
    if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
    int failed = epoll_ctl(transport->epoll_fd, EPOLL_CTL_MOD, socket, &event);
    if (failed != 0 && errno == ENOENT) {
        failed = epoll_ctl(transport->epoll_fd, EPOLL_CTL_ADD, socket, &event);
    }
    INVARIANT(failed == 0);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *user)
{
    (void)multi;
    struct http_transport *transport = user;
    transport->timer_us =
        timeout_ms < 0 ? -1 : clock_monotonic_us() + timeout_ms * CLOCK_MILLISECOND_US;
    return 0;
}

#define SET(multi, option, value) INVARIANT(curl_multi_setopt(multi, option, value) == CURLM_OK)

static void set_multi_options(struct http_transport *transport)
{
    CURLM *multi = transport->multi;
    SET(multi, CURLMOPT_SOCKETFUNCTION, on_watch);
    SET(multi, CURLMOPT_SOCKETDATA, transport);
    SET(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    SET(multi, CURLMOPT_TIMERDATA, transport);
    SET(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    /* No limit inside libcurl: there a limit is a queue, behind our check of send_by. */
    SET(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 0L);
    SET(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0L);
    SET(multi, CURLMOPT_MAXCONNECTS, (long)transport->options.in_flight_max);
}

struct http_transport *http_transport_create(const struct http_transport_options *options)
{
    INVARIANT(options->in_flight_max > 0 && options->in_flight_max <= 100000);
    INVARIANT(options->connect_timeout_ms > 0 && options->call_limit_ms > 0);
    INVARIANT(options->answer_bytes_max > 0);
    INVARIANT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    (void)signal(SIGPIPE, SIG_IGN);

    struct http_transport *transport = memory_allocate(sizeof *transport);
    transport->options = *options;
    if (options->ca_file != NULL) transport->ca_file = memory_copy_text(options->ca_file);
    transport->options.ca_file = transport->ca_file;
    transport->timer_us = -1;
    transport->calls = memory_allocate(options->in_flight_max * sizeof(struct http_call *));
    transport->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    INVARIANT(transport->epoll_fd >= 0);
    transport->multi = curl_multi_init();
    INVARIANT(transport->multi != NULL);
    set_multi_options(transport);
    return transport;
}

void http_transport_destroy(struct http_transport *transport)
{
    if (transport == NULL) return;
    for (size_t i = 0; i < transport->call_count; i++) {
        /* A no-op for those that are not in the multi handle. */
        (void)curl_multi_remove_handle(transport->multi, transport->calls[i]->easy);
        http_call_destroy(transport->calls[i]);
    }
    (void)curl_multi_cleanup(transport->multi);
    (void)close(transport->epoll_fd);
    free(transport->calls);
    free(transport->ca_file);
    free(transport);
    curl_global_cleanup();
}

static struct http_call *take_call(struct http_transport *transport)
{
    struct http_call *call = transport->free_calls;
    if (call != NULL) {
        transport->free_calls = call->next;
    } else {
        call = http_call_create(&transport->options);
        transport->calls[transport->call_count++] = call;
    }
    call->next = NULL;
    transport->in_use++;
    return call;
}

static void append_done(struct http_transport *transport, struct http_call *call)
{
    call->next = NULL;
    if (transport->done_last == NULL) {
        transport->done_first = call;
    } else {
        transport->done_last->next = call;
    }
    transport->done_last = call;
}

static void collect_done(struct http_transport *transport)
{
    const CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(transport->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL *easy = message->easy_handle;
        const CURLcode result = message->data.result;
        struct http_call *call = NULL;
        INVARIANT(curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call) == CURLE_OK && call != NULL);
        http_call_finish(call, result, clock_monotonic_us());
        INVARIANT(curl_multi_remove_handle(transport->multi, easy) == CURLM_OK);
        append_done(transport, call);
    }
}

static void act(struct http_transport *transport, curl_socket_t socket, int events)
{
    int running;
    INVARIANT(curl_multi_socket_action(transport->multi, socket, events, &running) == CURLM_OK);
}

enum http_start http_transport_start(struct http_transport *transport,
                                     const struct http_request *request, int64_t send_by_us,
                                     void *cookie)
{
    if (!http_call_accepts(&transport->options, request)) return HTTP_REFUSED_REQUEST;
    if (http_transport_room(transport) == 0) return HTTP_REFUSED_FULL;
    const int64_t now_us = clock_monotonic_us();
    if (now_us >= send_by_us) return HTTP_REFUSED_LATE;
    struct http_call *call = take_call(transport);
    http_call_prepare(call, request, now_us, send_by_us, cookie);
    INVARIANT(curl_multi_add_handle(transport->multi, call->easy) == CURLM_OK);
    act(transport, CURL_SOCKET_TIMEOUT, 0); /* on a kept-alive connection this writes the request */
    collect_done(transport);
    return HTTP_STARTED;
}

struct http_answer http_start_answer(enum http_start refusal)
{
    struct http_answer answer = { .phase = PHASE_LOCAL };
    switch (refusal) {
    case HTTP_STARTED:
        break;
    case HTTP_REFUSED_FULL:
        answer.error_code = "in_flight_full";
        return answer;
    case HTTP_REFUSED_LATE:
        answer.error_code = "send_by_passed";
        return answer;
    case HTTP_REFUSED_REQUEST:
        answer.error_code = "bad_request_line";
        return answer;
    }
    UNREACHABLE("a call that was started has no answer yet");
}

size_t http_transport_room(const struct http_transport *transport)
{
    const size_t lent = transport->lent == NULL ? 0 : 1;
    return transport->options.in_flight_max - transport->in_use - lent;
}

size_t http_transport_in_flight(const struct http_transport *transport)
{
    return transport->in_use;
}

int http_transport_poll_fd(const struct http_transport *transport)
{
    return transport->epoll_fd;
}

int http_transport_timeout_ms(const struct http_transport *transport)
{
    if (transport->done_first != NULL) return 0;
    if (transport->timer_us < 0) return -1;
    const int64_t left_us = transport->timer_us - clock_monotonic_us();
    if (left_us <= 0) return 0;
    const int64_t left_ms = (left_us + CLOCK_MILLISECOND_US - 1) / CLOCK_MILLISECOND_US;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

static int curl_events(uint32_t events)
{
    int mask = 0;
    if ((events & EPOLLIN) != 0) mask |= CURL_CSELECT_IN;
    if ((events & EPOLLOUT) != 0) mask |= CURL_CSELECT_OUT;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) mask |= CURL_CSELECT_ERR;
    return mask;
}

void http_transport_drive(struct http_transport *transport)
{
    struct epoll_event events[64];
    int count;
    do {
        count = epoll_wait(transport->epoll_fd, events, (int)COUNT_OF(events), 0);
        for (int i = 0; i < count; i++) {
            /* A socket that an earlier event of this round closed is unknown to libcurl: no-op. */
            act(transport, events[i].data.fd, curl_events(events[i].events));
        }
    } while (count == (int)COUNT_OF(events));
    if (transport->timer_us >= 0 && transport->timer_us <= clock_monotonic_us()) {
        transport->timer_us = -1; /* libcurl sets it again for the next one */
        act(transport, CURL_SOCKET_TIMEOUT, 0);
    }
    collect_done(transport);
}

static void give_back_lent(struct http_transport *transport)
{
    struct http_call *call = transport->lent;
    if (call == NULL) return;
    transport->lent = NULL;
    http_call_recycle(call);
    call->next = transport->free_calls;
    transport->free_calls = call;
}

bool http_transport_next_done(struct http_transport *transport, struct http_done *out)
{
    give_back_lent(transport);
    struct http_call *call = transport->done_first;
    if (call == NULL) return false;
    transport->done_first = call->next;
    if (transport->done_first == NULL) transport->done_last = NULL;
    transport->in_use--;
    transport->lent = call;
    *out = (struct http_done){
        .cookie = call->cookie,
        .answer = call->answer,
        .elapsed_us = call->ended_us - call->started_us,
    };
    return true;
}
