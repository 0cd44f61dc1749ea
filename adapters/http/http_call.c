/*
 * adapters/http/http_call.c: see http_call.h.
 *
 * The proof. libcurl asks on_prerequest each time it is about to write a request to a connection
 * that is up (TLS done). Before the first yes no request byte can have left; after it any may have.
 * libcurl re-sends by itself when a kept-alive connection dies before the first byte of the answer:
 * that is the second question, and the answer is no. A POST is guarded twice, since its body cannot
 * be rewound (measured on 7.88.1: with POSTFIELDS, or without this file's two callbacks, the second
 * request does go out).
 */
#include "adapters/http/http_call.h"

#include "pipeline/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>

enum {
    /* Servers close idle connections after 60 s and more; what we never reuse cannot die on us. */
    IDLE_CONNECTION_MAX_S = 50,
    KEPT_BUFFER_BYTES = 16 * 1024,
};

static void bytes_append(struct http_bytes *bytes, const void *data, size_t length)
{
    if (bytes->capacity - bytes->length < length) {
        size_t capacity = bytes->capacity == 0 ? 1024 : bytes->capacity;
        while (capacity - bytes->length < length) capacity *= 2;
        bytes->data = memory_resize(bytes->data, capacity);
        bytes->capacity = capacity;
    }
    if (length > 0) memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

static void bytes_clear(struct http_bytes *bytes)
{
    bytes->length = 0;
    if (bytes->capacity <= KEPT_BUFFER_BYTES) return;
    free(bytes->data);
    *bytes = (struct http_bytes){ 0 };
}

/* --- what libcurl asks while it sends ------------------------------------------------------- */

static int on_prerequest(void *user, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
    (void)peer_ip, (void)local_ip, (void)peer_port, (void)local_port;
    struct http_call *call = user;
    if (call->handed_over) {
        call->resend_refused = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (clock_monotonic_us() >= call->send_by_us) {
        call->send_by_passed = true;
        return CURL_PREREQFUNC_ABORT;
    }
    call->handed_over = true;
    return CURL_PREREQFUNC_OK;
}

/*
 * The head may be out already when the body is asked for, and the process may have been stopped in
 * between. A head without its body starts nothing at the PSP, but it is no proof either.
 */
static size_t on_read_body(char *buffer, size_t size, size_t count, void *user)
{
    struct http_call *call = user;
    if (call->request_body_read == 0 && clock_monotonic_us() >= call->send_by_us) {
        call->send_by_passed = true;
        return CURL_READFUNC_ABORT;
    }
    const size_t left = call->request_body.length - call->request_body_read;
    const size_t length = left < size * count ? left : size * count;
    if (length > 0) memcpy(buffer, call->request_body.data + call->request_body_read, length);
    call->request_body_read += length;
    return length;
}

static int on_seek_body(void *user, curl_off_t offset, int origin)
{
    (void)user, (void)offset, (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

/* --- what libcurl hands over while it receives ----------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct http_call *call = user;
    const size_t length = size * count;
    if (length > call->options->answer_bytes_max - call->answer_body.length) {
        call->answer_too_large = true;
        return 0;
    }
    bytes_append(&call->answer_body, data, length);
    return length;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void keep_header(struct http_call *call, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    if (colon == NULL || colon == line || is_blank(line[0])) return; /* no header, or folded */
    const char *value = colon + 1;
    const char *end = line + length;
    while (end > value && is_blank(end[-1])) end--;
    while (value < end && is_blank(*value)) value++;
    if (memchr(line, '\0', length) != NULL) return;
    bytes_append(&call->header_text, line, (size_t)(colon - line));
    bytes_append(&call->header_text, "", 1);
    bytes_append(&call->header_text, value, (size_t)(end - value));
    bytes_append(&call->header_text, "", 1);
    call->header_count++;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct http_call *call = user;
    const size_t length = size * count;
    if (length >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* also the one behind a 100 Continue */
        bytes_clear(&call->header_text);
        call->header_count = 0;
        call->headers_ended = false;
        return length;
    }
    if (call->headers_ended) return length; /* trailers of a chunked body */
    if (length <= 2 && is_blank(line[0])) {
        call->headers_ended = true;
        return length;
    }
    if (call->header_count == HTTP_ANSWER_HEADER_MAX ||
        length > HTTP_ANSWER_HEADER_BYTES_MAX - call->header_text.length) {
        call->answer_too_large = true;
        return 0;
    }
    keep_header(call, line, length);
    return length;
}

/*
 * The kernel gives up on bytes that stay unacknowledged for the call limit, even when we have
 * closed the socket by then: a request cannot arrive later than send_by + call limit (I20).
 */
static int on_socket(void *user, curl_socket_t socket, curlsocktype purpose)
{
    (void)purpose;
    const unsigned limit_ms = *(const unsigned *)user;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
    return CURL_SOCKOPT_OK;
}

/* --- life ------------------------------------------------------------------------------------ */

#define SET(easy, option, value) INVARIANT(curl_easy_setopt(easy, option, value) == CURLE_OK)

static void set_wire_rules(CURL *easy, const struct http_transport_options *options)
{
    /* A resolver thread that hangs is left behind; joining it would stop every other call. */
    SET(easy, CURLOPT_QUICK_EXIT, 1L);
    SET(easy, CURLOPT_PROTOCOLS_STR, options->allow_plain_http ? "http,https" : "https");
    SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(easy, CURLOPT_PROXY, ""); /* the environment's too: behind one nothing would be proven */
    SET(easy, CURLOPT_NOPROXY, "*");
    SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
    SET(easy, CURLOPT_PATH_AS_IS, 1L);
    SET(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(easy, CURLOPT_USERAGENT, "oncepay");
    SET(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    SET(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (options->ca_file != NULL) SET(easy, CURLOPT_CAINFO, options->ca_file);
    SET(easy, CURLOPT_NOSIGNAL, 1L);
    SET(easy, CURLOPT_TCP_NODELAY, 1L);
    SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    SET(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_MAX_S);
    SET(easy, CURLOPT_TIMEOUT_MS, (long)options->call_limit_ms);
    SET(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    /* libcurl takes a void pointer and on_socket only reads through it. */
    SET(easy, CURLOPT_SOCKOPTDATA, &options->call_limit_ms);
}

static void set_callbacks(struct http_call *call)
{
    CURL *easy = call->easy;
    SET(easy, CURLOPT_PRIVATE, call);
    SET(easy, CURLOPT_PREREQFUNCTION, on_prerequest);
    SET(easy, CURLOPT_PREREQDATA, call);
    SET(easy, CURLOPT_READFUNCTION, on_read_body);
    SET(easy, CURLOPT_READDATA, call);
    SET(easy, CURLOPT_SEEKFUNCTION, on_seek_body);
    SET(easy, CURLOPT_SEEKDATA, call);
    SET(easy, CURLOPT_HEADERFUNCTION, on_header);
    SET(easy, CURLOPT_HEADERDATA, call);
    SET(easy, CURLOPT_WRITEFUNCTION, on_body);
    SET(easy, CURLOPT_WRITEDATA, call);
}

/*
 * A handle hears one answer: libcurl 7.88.1 keeps pointing at the last header of the handle's
 * previous answer, which it has freed, and adds to it when an answer begins with a folded line
 * (found by fuzzing). Kept-alive connections are the multi handle's, so they stay.
 */
static void open_handle(struct http_call *call)
{
    call->easy = curl_easy_init();
    INVARIANT(call->easy != NULL);
    set_wire_rules(call->easy, call->options);
    set_callbacks(call);
}

struct http_call *http_call_create(const struct http_transport_options *options)
{
    struct http_call *call = memory_allocate(sizeof *call);
    call->options = options;
    open_handle(call);
    return call;
}

void http_call_destroy(struct http_call *call)
{
    if (call == NULL) return;
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->header_lines);
    free(call->request_body.data);
    free(call->header_text.data);
    free(call->answer_body.data);
    free(call);
}

static bool is_clean_line(const char *line)
{
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < 0x20 || *line == 0x7f) return false;
    }
    return true;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

bool http_call_accepts(const struct http_transport_options *options,
                       const struct http_request *request)
{
    const bool is_get = strcmp(request->method, "GET") == 0;
    if (!is_get && strcmp(request->method, "POST") != 0) return false;
    if (is_get && request->body.length > 0) return false;
    const bool is_plain = starts_with(request->url, "http://");
    if (!starts_with(request->url, "https://") && !(is_plain && options->allow_plain_http)) {
        return false;
    }
    if (!is_clean_line(request->url) || request->header_count > PSP_HEADER_MAX) return false;
    for (size_t i = 0; i < request->header_count; i++) {
        const char *line = request->headers[i];
        if (!is_clean_line(line) || strchr(line, ':') == NULL) return false;
    }
    return true;
}

static void add_header_line(struct http_call *call, const char *line)
{
    struct curl_slist *longer = curl_slist_append(call->header_lines, line);
    INVARIANT(longer != NULL);
    call->header_lines = longer;
}

/* A connection that is not up when send_by passes will not be used: no reason to go on trying. */
static long connect_limit_ms(const struct http_call *call, int64_t now_us)
{
    const int64_t left_ms = (call->send_by_us - now_us) / CLOCK_MILLISECOND_US + 1;
    return (long)(left_ms < call->options->connect_timeout_ms ? left_ms
                                                              : call->options->connect_timeout_ms);
}

void http_call_prepare(struct http_call *call, const struct http_request *request, int64_t now_us,
                       int64_t send_by_us, void *cookie)
{
    call->cookie = cookie;
    call->started_us = now_us;
    call->send_by_us = send_by_us;
    for (size_t i = 0; i < request->header_count; i++) add_header_line(call, request->headers[i]);
    add_header_line(call, "Expect:"); /* no pause, and no second try, for a 100 Continue */
    bytes_append(&call->request_body, request->body.data, request->body.length);

    SET(call->easy, CURLOPT_URL, request->url);
    SET(call->easy, CURLOPT_HTTPHEADER, call->header_lines);
    SET(call->easy, CURLOPT_CONNECTTIMEOUT_MS, connect_limit_ms(call, now_us));
    if (strcmp(request->method, "POST") == 0) {
        SET(call->easy, CURLOPT_POST, 1L);
        SET(call->easy, CURLOPT_POSTFIELDS, NULL);
        SET(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.length);
    } else {
        SET(call->easy, CURLOPT_HTTPGET, 1L);
    }
}

/* --- end ------------------------------------------------------------------------------------- */

static const char *connect_error(const struct http_call *call)
{
    long os_error = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_error);
    return os_error == ECONNREFUSED ? "connect_refused" : "connect_failed";
}

/* Our own word for it: libcurl's codes change between versions, and so do its messages. */
static const char *error_word(const struct http_call *call, CURLcode result)
{
    if (call->send_by_passed) return "send_by_passed";
    if (call->resend_refused || result == CURLE_SEND_FAIL_REWIND) return "connection_died";
    if (call->answer_too_large) return "answer_too_large";
    /* An enum of libcurl's with a hundred values, so a table instead of a full switch. */
    static const struct {
        CURLcode code;
        const char *word;
    } WORDS[] = {
        { CURLE_COULDNT_RESOLVE_HOST, "resolve_failed" },
        { CURLE_SSL_CONNECT_ERROR, "tls_failed" },
        { CURLE_PEER_FAILED_VERIFICATION, "tls_untrusted" },
        { CURLE_SSL_CACERT_BADFILE, "tls_ca_file" },
        { CURLE_GOT_NOTHING, "no_answer" },
        { CURLE_PARTIAL_FILE, "half_answer" },
        { CURLE_RECV_ERROR, "reset" },
        { CURLE_SEND_ERROR, "reset" },
        { CURLE_WEIRD_SERVER_REPLY, "bad_answer" },
        { CURLE_UNSUPPORTED_PROTOCOL, "bad_answer" },
        { CURLE_BAD_CONTENT_ENCODING, "bad_answer" },
        { CURLE_URL_MALFORMAT, "bad_url" },
    };
    if (result == CURLE_COULDNT_CONNECT) return connect_error(call);
    const bool timed_out = result == CURLE_OPERATION_TIMEDOUT;
    if (timed_out) return call->handed_over ? "timeout" : "connect_timeout";
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        if (WORDS[i].code == result) return WORDS[i].word;
    }
    return "transport_failed";
}

static void index_headers(struct http_call *call)
{
    const char *at = call->header_text.data;
    for (size_t i = 0; i < call->header_count; i++) {
        call->headers[i].name = at;
        at += strlen(at) + 1;
        call->headers[i].value = at;
        at += strlen(at) + 1;
    }
}

void http_call_finish(struct http_call *call, CURLcode result, int64_t now_us)
{
    call->ended_us = now_us;
    long status = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK || status < 200) {
        call->answer = (struct http_answer){
            .phase = call->handed_over ? PHASE_SENT : PHASE_CONNECT,
            .error_code = result == CURLE_OK ? "bad_answer" : error_word(call, result),
        };
        return;
    }
    index_headers(call);
    call->answer = (struct http_answer){
        .phase = PHASE_ANSWERED,
        .status = (int)status,
        .headers = call->headers,
        .header_count = call->header_count,
        .body = { (const uint8_t *)call->answer_body.data, call->answer_body.length },
    };
}

void http_call_recycle(struct http_call *call)
{
    curl_easy_cleanup(call->easy);
    open_handle(call);
    curl_slist_free_all(call->header_lines);
    call->header_lines = NULL;
    bytes_clear(&call->request_body);
    bytes_clear(&call->header_text);
    bytes_clear(&call->answer_body);
    call->request_body_read = 0;
    call->header_count = 0;
    call->handed_over = call->send_by_passed = call->resend_refused = false;
    call->answer_too_large = call->headers_ended = false;
    call->answer = (struct http_answer){ 0 };
}
