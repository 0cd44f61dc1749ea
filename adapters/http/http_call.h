/*
 * adapters/http/http_call.h: one call of the transport: its libcurl handle, what may be said about
 * bytes that left, and the bounded answer. Only http_transport.c includes it.
 */
#ifndef ONCEPAY_ADAPTERS_HTTP_CALL_H
#define ONCEPAY_ADAPTERS_HTTP_CALL_H

#include "adapters/http/http_transport.h"

#include <curl/curl.h>

enum { HTTP_ANSWER_HEADER_MAX = 64, HTTP_ANSWER_HEADER_BYTES_MAX = 16 * 1024 };

struct http_bytes {
    char *data;
    size_t length;
    size_t capacity;
};

struct http_call {
    struct http_call *next; /* on the transport's free or done list */
    CURL *easy;             /* of one request */
    const struct http_transport_options *options;

    void *cookie;
    int64_t started_us;
    int64_t ended_us;
    int64_t send_by_us;
    struct curl_slist *header_lines;
    struct http_bytes request_body;
    size_t request_body_read;

    bool handed_over;    /* libcurl was allowed to write this request: from here on no proof */
    bool send_by_passed; /* … or was stopped because it was too late */
    bool resend_refused; /* … or wanted to write it a second time */
    bool answer_too_large;

    bool headers_ended;
    struct http_bytes header_text; /* "name\0value\0" … */
    size_t header_count;
    struct http_header headers[HTTP_ANSWER_HEADER_MAX];
    struct http_bytes answer_body;
    struct http_answer answer;
};

/* Borrows the options. */
struct http_call *http_call_create(const struct http_transport_options *options);
void http_call_destroy(struct http_call *call);

/* True if the request may go on the wire as it is. */
bool http_call_accepts(const struct http_transport_options *options,
                       const struct http_request *request);
/* Copies the request into the handle; after it the handle may be given to a multi handle. */
void http_call_prepare(struct http_call *call, const struct http_request *request, int64_t now_us,
                       int64_t send_by_us, void *cookie);
/* Fills call->answer from what came and from libcurl's verdict. */
void http_call_finish(struct http_call *call, CURLcode result, int64_t now_us);
/* Gives back what only one request needed; the slot and its connection stay usable. */
void http_call_recycle(struct http_call *call);

#endif
