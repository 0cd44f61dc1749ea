/*
 * tests/fuzz/http_answer_fuzz.c: the bytes of an HTTP answer, through libcurl and the callbacks of
 * the transport, from a peer on a local socket that says its piece and no more. Whatever it is:
 * after the request was handed over nothing proves that no byte left (protocol B2), and what is
 * kept of an answer is bounded and clean.
 */
#include "adapters/http/http_call.h"
#include "adapters/stripe/stripe.h"
#include "pipeline/clock.h"
#include "tests/fuzz/fuzz.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 4096, INPUT_BYTES_MAX = 64 * 1024 };

static const struct http_transport_options OPTIONS = {
    .answer_bytes_max = ANSWER_BYTES_MAX,
    .connect_timeout_ms = 1000,
    .call_limit_ms = 1000,
    .allow_plain_http = true,
};

static char peer_name[64]; /* in the abstract namespace: no file, no port */

static int peer_listen(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(peer_name, sizeof peer_name, "oncepay-fuzz-%ld", (long)getpid());
    const size_t length = strlen(peer_name);
    memcpy(address.sun_path + 1, peer_name, length);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    INVARIANT(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0);
    INVARIANT(listen(listener, 1) == 0);
    return listener;
}

/* Says what it has to say and no more, without having listened. */
static int peer_answer(int listener, struct span answer)
{
    const int peer = accept(listener, NULL, NULL);
    if (peer < 0) return -1;
    INVARIANT(write(peer, answer.data, answer.length) == (ssize_t)answer.length);
    INVARIANT(shutdown(peer, SHUT_WR) == 0);
    return peer;
}

/* libcurl's side and the peer's in turn, on this one thread. */
static CURLcode exchange(struct http_call *call, struct span answer)
{
    static CURLM *multi;
    static int listener;
    if (multi == NULL) {
        multi = curl_multi_init();
        listener = peer_listen();
    }
    INVARIANT(curl_easy_setopt(call->easy, CURLOPT_ABSTRACT_UNIX_SOCKET, peer_name) == CURLE_OK);
    INVARIANT(curl_easy_setopt(call->easy, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK);
    INVARIANT(curl_multi_add_handle(multi, call->easy) == CURLM_OK);
    int peer = -1;
    int running = 1;
    int left = 0;
    while (running > 0) {
        INVARIANT(curl_multi_perform(multi, &running) == CURLM_OK);
        if (peer < 0) peer = peer_answer(listener, answer);
        if (running > 0) (void)curl_multi_poll(multi, NULL, 0, peer < 0 ? 0 : 100, NULL);
    }
    const CURLMsg *message = curl_multi_info_read(multi, &left);
    INVARIANT(message != NULL && message->msg == CURLMSG_DONE && peer >= 0);
    const CURLcode result = message->data.result;
    INVARIANT(curl_multi_remove_handle(multi, call->easy) == CURLM_OK);
    (void)close(peer);
    return result;
}

static void check_answer(const struct http_answer *answer, struct arena *arena)
{
    struct observation observation;
    INVARIANT(answer->phase == PHASE_SENT || answer->phase == PHASE_ANSWERED);
    INVARIANT((answer->phase == PHASE_SENT) == (answer->error_code != NULL));
    INVARIANT(answer->body.length <= ANSWER_BYTES_MAX);
    INVARIANT(answer->header_count <= HTTP_ANSWER_HEADER_MAX);
    INVARIANT(answer->phase == PHASE_SENT || answer->status >= 200);
    for (size_t i = 0; i < answer->header_count; i++) {
        INVARIANT(answer->headers[i].name[0] != '\0');
        INVARIANT(strpbrk(answer->headers[i].name, "\n:") == NULL);
        INVARIANT(strchr(answer->headers[i].value, '\n') == NULL);
    }
    stripe_ops.parse(OPERATION_CREATE, REQUEST_CREATE, answer, arena, &observation);
    INVARIANT(observation.kind != OBSERVED_UNSENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_call *call;
    static const struct http_request REQUEST = {
        .method = "POST",
        .url = "http://127.0.0.1:1/v1/payment_intents",
        .headers = { "Content-Type: application/x-www-form-urlencoded" },
        .header_count = 1,
        .body = { (const uint8_t *)"amount=1", 8 },
    };
    struct arena arena = { NULL };
    if (size > INPUT_BYTES_MAX) return 0;
    if (call == NULL) call = http_call_create(&OPTIONS);
    const int64_t now_us = clock_monotonic_us();
    http_call_prepare(call, &REQUEST, now_us, now_us + 60 * CLOCK_SECOND_US, NULL);
    const CURLcode result = exchange(call, (struct span){ data, size });
    http_call_finish(call, result, clock_monotonic_us());
    check_answer(&call->answer, &arena);
    http_call_recycle(call);
    arena_finish(&arena);
    return 0;
}
