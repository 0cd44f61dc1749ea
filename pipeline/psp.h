/*
 * pipeline/psp.h: a payment service provider as the stages need it. An adapter is a constant
 * vtable of pure functions: typed request -> bytes, answer bytes -> observation. It never
 * touches the network (adapters/http does), the clock or the store.
 */
#ifndef ONCEPAY_PIPELINE_PSP_H
#define ONCEPAY_PIPELINE_PSP_H

#include "pipeline/arena.h"
#include "pipeline/money.h"
#include "pipeline/state.h"

/* One HTTP send; a replay is a new request of the same attempt (design §2). */
enum request_kind {
    REQUEST_CREATE = 1,
    REQUEST_REPLAY = 2,
    REQUEST_RETRIEVE = 3,
    REQUEST_SEARCH = 4,
    REQUEST_CANCEL = 5,
};
const char *request_kind_name(int code);

/* How far one HTTP request got. Order matters: later means more happened (protocol K). */
enum request_phase {
    PHASE_LOCAL = 1,    /* never handed to the transport */
    PHASE_CONNECT = 2,  /* resolving, connecting, TLS: proven that no request byte left */
    PHASE_SENT = 3,     /* a request byte may have left */
    PHASE_ANSWERED = 4, /* a complete HTTP answer came */
    PHASE_PARSED = 5,   /* … and the adapter understood it */
};
const char *request_phase_name(int code);

/*
 * Method, endpoint, version headers and body: everything but the authentication envelope and the
 * idempotency header, which psp_ops.authenticate adds per send. This is what is hashed and
 * stored (protocol C4) and what a replay sends again byte for byte.
 */
struct psp_request {
    const char *method;       /* "POST" or "GET" */
    const char *path;         /* "/v1/payment_intents", with query */
    const char *content_type; /* NULL when there is no body */
    const char *version;      /* the PSP's API version; NULL when it has none */
    struct span body;
};

enum { PSP_HEADER_MAX = 12 };

/* What the transport gets: absolute URL, header lines ("Name: value"), body. */
struct http_request {
    const char *method;
    const char *url;
    const char *headers[PSP_HEADER_MAX];
    size_t header_count;
    struct span body;
};

struct http_header {
    const char *name;
    const char *value;
};

/* What came back. phase < PHASE_ANSWERED: status 0, body empty, error_code says why. */
struct http_answer {
    enum request_phase phase;
    int status;
    const struct http_header *headers; /* names compared case-insensitively */
    size_t header_count;
    struct span body;
    /* transport's own word: "connect_refused", "timeout", "reset" …; NULL if answered */
    const char *error_code;
};

/* Secrets and addresses of one channel account; borrowed from the configuration. */
struct psp_account {
    const char *id;       /* our name of the account: "stripe-main" */
    const char *base_url; /* "http://127.0.0.1:4700/stripe-main": no trailing slash */
    const char *api_key;
    const char *webhook_secrets[2]; /* old and new during a rotation; NULL when unused */
    int webhook_tolerance_s;
};

/* What a create asks for. provider_key is also our reference in the body (protocol C4). */
struct psp_create {
    const char *provider_key;
    struct money amount;
    const char *method_type; /* "card" */
    const char *method_token;
    bool capture_automatic;
    const char *return_url; /* NULL when none */
};

/* Why a decline was a decline; decides whether another PSP may be tried (research psp.md §0.4). */
enum decline_class {
    DECLINE_NONE = 0,
    DECLINE_HARD_FRAUD,
    DECLINE_HARD_DATA,
    DECLINE_AUTH_REQUIRED,
    DECLINE_FUNDS_LIMIT,
    DECLINE_GENERIC,
    DECLINE_TECHNICAL,
    DECLINE_REQUEST,
};
const char *decline_class_name(int code);

/* What one answer or event says, before anybody judges it. */
enum observation_kind {
    OBSERVED_NOTHING = 0,      /* unreadable, or about something we do not track */
    OBSERVED_UNSENT,           /* transport or local proof: no request byte left */
    OBSERVED_TRANSPORT_LOST,   /* bytes may have left, no complete answer */
    OBSERVED_SERVER_ERROR,     /* 5xx or anything that decides nothing */
    OBSERVED_IN_PROGRESS,      /* the first request under this key is still running (409) */
    OBSERVED_RATE_LIMITED,     /* 429 */
    OBSERVED_AUTH_REJECTED,    /* 401, 403 */
    OBSERVED_REQUEST_REJECTED, /* validation error before execution */
    OBSERVED_KEY_MISMATCH,     /* the key is taken by other parameters */
    OBSERVED_NOT_FOUND,        /* the object looked for does not exist (now) */
    OBSERVED_OBJECT_CREATED,   /* object exists, nothing executed yet */
    OBSERVED_PENDING,          /* executing, or waiting for the customer */
    OBSERVED_SUCCEEDED,
    OBSERVED_DECLINED, /* executed, refused */
    OBSERVED_CANCELED,
};
const char *observation_kind_name(int code);

enum evidence_source {
    SOURCE_LOCAL = 1,
    SOURCE_TRANSPORT = 2,
    SOURCE_ANSWER = 3,
    SOURCE_REPLAY = 4,
    SOURCE_RETRIEVE = 5,
    SOURCE_SEARCH = 6,
    SOURCE_WEBHOOK = 7,
    SOURCE_SETTLEMENT = 8,
    SOURCE_MANUAL = 9,
};
const char *evidence_source_name(int code);

/*
 * One fact from outside. All text lives in the arena given to parse. amount and reference are
 * compared with the attempt by the judge (protocol B5); absent values are NULL or has_amount false.
 */
struct observation {
    enum observation_kind kind;
    enum evidence_source source;
    enum request_phase phase;
    int http_status;             /* 0 when there was none */
    const char *error_code;      /* the PSP's or the transport's code */
    const char *provider_status; /* the PSP's own word: "requires_action" */
    const char *provider_object; /* "pi_…" */
    const char *provider_event;  /* webhook event id */
    const char *reference;       /* our provider_key as the PSP echoes it */
    bool has_amount;
    struct money amount; /* of a success: what was received */
    enum decline_class decline;
    bool replayed;          /* the PSP said that this is a stored first answer */
    bool handed_out;        /* a next action, client secret, QR … reached the customer */
    bool object_payable;    /* somebody but us can still drive the object to success */
    int64_t observed_at_us; /* the PSP's own time of the fact; 0 when it gives none */
    int retry_after_s;      /* 0 when absent */
    const char *excerpt;    /* allow-listed fields of the body as compact JSON; never NULL */
    uint8_t digest[32];     /* SHA-256 over the original body */
};

/*
 * Facts about one PSP that the judge and recovery need (protocol B, C). Times in seconds.
 */
struct psp_capability {
    int version;
    bool has_idempotency_key;
    /* a stored answer under the key closes every earlier request of it */
    bool keeps_failures_under_key;
    bool has_retrieve;
    bool has_search;
    bool has_cancel_by_reference;
    int64_t key_retention_s;
    int64_t key_margin_s; /* >= 1 h; no replay after retention - margin */
    int64_t late_arrival_window_s;
    int64_t lookup_lag_s;                 /* not found before this is no evidence */
    bool lookup_by_reference_is_complete; /* past lookup_lag_s an empty search means: not there */
    int key_length_max;
    /*
     * Answers that prove that nothing was executed, given that no earlier request may have arrived.
     */
    bool rate_limit_is_before_execution;
    bool rejection_is_before_execution;
    bool auth_rejection_is_before_execution;
};

/*
 * Mandatory unless noted. Functions return STATUS_OK or STATUS_BAD_DATA (the input can never be
 * expressed for this PSP; out_error, if given, says which field and rule, without values).
 */
struct psp_ops {
    const char *name; /* "stripe" */
    struct psp_capability capability;

    /* Amount, currency, method as this PSP can express them. */
    enum status (*build_create)(const struct psp_create *in, struct arena *arena,
                                struct psp_request *out, const char **out_error);
    /* provider_object: the PSP's id of what create made. */
    enum status (*build_retrieve)(const char *provider_object, struct arena *arena,
                                  struct psp_request *out);

    /* Adds base URL, credentials and, when key is not NULL, the idempotency header. */
    void (*authenticate)(const struct psp_account *account, const struct psp_request *request,
                         const char *key, struct arena *arena, struct http_request *out);

    /* Never fails: what cannot be read is OBSERVED_SERVER_ERROR or OBSERVED_TRANSPORT_LOST. */
    void (*parse)(enum operation operation, enum request_kind kind,
                  const struct http_answer *answer, struct arena *arena, struct observation *out);

    /*
     * Raw body, signature header, tolerance in both directions against now_s. STATUS_BAD_DATA:
     * not authentic; out_error is one of "signature_missing", "signature_malformed",
     * "signature_mismatch", "timestamp_out_of_tolerance", "body_malformed". On STATUS_OK the
     * observation's provider_event is set; kind OBSERVED_NOTHING means authentic but of no use.
     */
    enum status (*verify_webhook)(const struct psp_account *account,
                                  const struct http_header *headers, size_t header_count,
                                  struct span body, int64_t now_s, struct arena *arena,
                                  struct observation *out, const char **out_error);
};

/*
 * Stored form of a psp_request: an HTTP-like head and body, self-contained. Encoding is canonical:
 * equal requests give equal bytes. decode borrows from bytes and copies into arena where needed.
 */
struct span psp_request_encode(const struct psp_request *request, struct arena *arena);
enum status psp_request_decode(struct span bytes, struct arena *arena,
                               struct psp_request *out) MUST_CHECK;

#endif
