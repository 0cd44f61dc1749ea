/*
 * config/config_schema.c: every key of oncepay.yaml, one row each. A new key is a row here, a
 * member in config.h and, if it depends on another, a rule in config_check.c.
 */
#include "config/config_schema.h"

#define AT(owner, member) offsetof(struct owner, member)
#define TABLE(fields, owner)                                                                       \
    {                                                                                              \
        fields, COUNT_OF(fields), sizeof(struct owner), SCHEMA_NO_PLACE                            \
    }

enum { URL_LENGTH_MAX = 2048, NAME_LENGTH_MAX = 255 };
#define MANY INT64_C(1000000000000)

const struct schema_variable CONFIG_VARIABLES[] = {
    { "ONCEPAY_SIM_URL", "where oncepay-psp-sim listens" },
    { "ONCEPAY_SECRETS", "a folder with secret files" },
    { "ONCEPAY_NATS_URL", "nats-server" },
    { "ONCEPAY_PG_URL", "PostgreSQL" },
    { "ONCEPAY_REDIS_URL", "Redis" },
};
const size_t CONFIG_VARIABLE_COUNT = COUNT_OF(CONFIG_VARIABLES);

static const struct schema_field NATS_FIELDS[] = {
    { "url", SCHEMA_TEXT, AT(config_nats, url), .fallback = "nats://127.0.0.1:4222", .min = 8,
      .max = URL_LENGTH_MAX, .environment = "ONCEPAY_NATS_URL",
      .help = "nats://user:password@host:port, several with commas; tls:// needs ca_file" },
    { "ca_file", SCHEMA_PATH, AT(config_nats, ca_file), .fallback = "",
      .help = "certificate authorities that may sign the server's certificate" },
};
static const struct schema_table NATS = TABLE(NATS_FIELDS, config_nats);

static const struct schema_field POSTGRES_FIELDS[] = {
    { "url", SCHEMA_TEXT, AT(config_postgres, url), .fallback = "postgresql:///oncepay", .min = 1,
      .max = URL_LENGTH_MAX, .environment = "ONCEPAY_PG_URL",
      .help = "a libpq connection string or URI" },
    { "connect_timeout", SCHEMA_DURATION, AT(config_postgres, connect_timeout_ms), .fallback = "5s",
      .min = 1000, .max = 60000, .help = "for one connection attempt" },
    { "statement_timeout", SCHEMA_DURATION, AT(config_postgres, statement_timeout_ms),
      .fallback = "10s", .min = 1000, .max = 60000,
      .help = "for one statement; the relay's command mark lags by it (protocol H1)" },
    { "lock_timeout", SCHEMA_DURATION, AT(config_postgres, lock_timeout_ms), .fallback = "5s",
      .min = 100, .max = 60000, .help = "for one lock; then the batch is decided again" },
};
static const struct schema_table POSTGRES = TABLE(POSTGRES_FIELDS, config_postgres);

static const struct schema_field REDIS_FIELDS[] = {
    { "url", SCHEMA_TEXT, AT(config_redis, url), .fallback = "redis://127.0.0.1:6379", .min = 8,
      .max = URL_LENGTH_MAX, .environment = "ONCEPAY_REDIS_URL",
      .help = "redis://[[user]:password@]host[:port][/database] or unix:///path" },
    { "connect_timeout", SCHEMA_DURATION, AT(config_redis, connect_timeout_ms), .fallback = "100ms",
      .min = 10, .max = 1000, .help = "waited for at start only" },
    { "command_timeout", SCHEMA_DURATION, AT(config_redis, command_timeout_ms), .fallback = "50ms",
      .min = 5, .max = 1000, .help = "for one batch; then PostgreSQL decides" },
    { "placeholder", SCHEMA_DURATION, AT(config_redis, placeholder_ms), .fallback = "10s",
      .min = 1000, .max = 10000, .help = "life of an idempotency placeholder (protocol E)" },
    { "hmac_key_file", SCHEMA_PATH, AT(config_redis, hmac_key_file), .min = 1,
      .help = "secret, 16 bytes or more, that signs what we keep in Redis" },
};
static const struct schema_table REDIS = TABLE(REDIS_FIELDS, config_redis);

static const struct schema_field GATEWAY_FIELDS[] = {
    { "address", SCHEMA_TEXT, AT(config_gateway, address), .fallback = "127.0.0.1", .min = 2,
      .max = NAME_LENGTH_MAX, .help = "address that the HTTP gateway listens on" },
    { "port", SCHEMA_INTEGER, AT(config_gateway, port), .fallback = "4780", .max = 65535,
      .environment = "ONCEPAY_GATEWAY_PORT", .help = "its port; 0 takes a free one" },
    { "body_max", SCHEMA_SIZE, AT(config_gateway, body_max_bytes), .fallback = "256KiB",
      .min = 4096, .max = 4194304, .help = "biggest request or webhook body" },
    { "connections_max", SCHEMA_INTEGER, AT(config_gateway, connections_max), .fallback = "512",
      .min = 1, .max = 65535, .help = "open connections" },
    { "answer_wait", SCHEMA_DURATION, AT(config_gateway, answer_wait_ms), .fallback = "5s",
      .min = 100, .max = 60000, .help = "how long a request waits for intake's reply" },
};
static const struct schema_table GATEWAY = TABLE(GATEWAY_FIELDS, config_gateway);

static const struct schema_field METRICS_FIELDS[] = {
    { "address", SCHEMA_TEXT, AT(config_metrics, address), .fallback = "127.0.0.1", .min = 2,
      .max = NAME_LENGTH_MAX, .help = "address of /metrics, /livez and /readyz of each process" },
    { "port", SCHEMA_INTEGER, AT(config_metrics, port), .fallback = "0", .max = 65535,
      .environment = "ONCEPAY_METRICS_PORT", .help = "its port; 0 takes a free one" },
};
static const struct schema_table METRICS = TABLE(METRICS_FIELDS, config_metrics);

static const struct schema_field MERCHANT_FIELDS[] = {
    { "id", SCHEMA_TOKEN, AT(config_merchant, id),
      .help = "subject token of pay.intake.<merchant>.>" },
    { "key_lifetime_h", SCHEMA_INTEGER, AT(config_merchant, key_lifetime_h), .fallback = "24",
      .min = 1, .max = 8760, .help = "how long an idempotency key answers (usual: 168)" },
};
static const struct schema_table MERCHANT = TABLE(MERCHANT_FIELDS, config_merchant);

static const struct schema_field LIMITS_FIELDS[] = {
    { "creates_per_s", SCHEMA_INTEGER, AT(config_limits, creates_per_s), .fallback = "50", .min = 1,
      .max = 100000, .help = "calls that may charge, per second and process" },
    { "creates_concurrent", SCHEMA_INTEGER, AT(config_limits, creates_concurrent), .fallback = "32",
      .min = 1, .max = 4096, .help = "such calls in flight per process" },
    { "lookups_per_s", SCHEMA_INTEGER, AT(config_limits, lookups_per_s), .fallback = "25", .min = 1,
      .max = 100000, .help = "replays and lookups of recover, per second and process" },
    { "lookups_concurrent", SCHEMA_INTEGER, AT(config_limits, lookups_concurrent), .fallback = "8",
      .min = 1, .max = 4096, .help = "such calls in flight per process" },
    { "open_attempts_max", SCHEMA_INTEGER, AT(config_limits, open_attempts_max),
      .fallback = "50000", .min = 1, .max = 10000000,
      .help = "above it route stops choosing the account" },
};
static const struct schema_table LIMITS = TABLE(LIMITS_FIELDS, config_limits);

static const struct schema_field ACCOUNT_FIELDS[] = {
    { "id", SCHEMA_TOKEN, AT(config_account, id),
      .help = "subject token of pay.create.<account>.*; part of history for ever" },
    { "psp", SCHEMA_TOKEN, AT(config_account, psp), .help = "the adapter that speaks to it" },
    { "base_url", SCHEMA_TEXT, AT(config_account, base_url), .min = 10, .max = URL_LENGTH_MAX,
      .help = "before the PSP's own paths; https outside development; no slash at the end" },
    { "failure_domain", SCHEMA_TOKEN, AT(config_account, failure_domain),
      .help = "what fails together (PSP and region)" },
    { "currencies", SCHEMA_TOKENS, AT(config_account, currencies), .min = 1, .max = 200,
      .help = "ISO 4217 codes it takes" },
    { "methods", SCHEMA_TOKENS, AT(config_account, methods), .min = 1, .max = 32,
      .help = "payment methods it takes" },
    { "token_realms", SCHEMA_TOKENS, AT(config_account, token_realms), .min = 1, .max = 32,
      .help = "whose method tokens it can charge" },
    { "amount_minor_min", SCHEMA_INTEGER, AT(config_account, amount_minor_min), .fallback = "1",
      .min = 1, .max = MANY, .help = "smallest amount, in minor units" },
    { "amount_minor_max", SCHEMA_INTEGER, AT(config_account, amount_minor_max),
      .fallback = "99999999", .min = 1, .max = MANY, .help = "biggest amount, in minor units" },
    { "api_key_file", SCHEMA_PATH, AT(config_account, api_key_file), .min = 1,
      .help = "secret that authenticates our calls" },
    { "webhook_secret_file", SCHEMA_PATH, AT(config_account, webhook_secret_file), .min = 1,
      .help = "secret that signs the PSP's webhooks" },
    { "webhook_secret_old_file", SCHEMA_PATH, AT(config_account, webhook_secret_old_file),
      .fallback = "", .help = "the one before, during a rotation" },
    { "webhook_tolerance_s", SCHEMA_INTEGER, AT(config_account, webhook_tolerance_s),
      .fallback = "300", .min = 1, .max = 3600, .help = "age of a webhook's signature, both ways" },
    { "accept_manual_recovery", SCHEMA_TEXT, AT(config_account, accept_manual_recovery),
      .fallback = "", .max = NAME_LENGTH_MAX,
      .help = "owner of an account that lacks idempotency keys or lookup; refused otherwise" },
    { "limits", SCHEMA_MAP, AT(config_account, limits), .table = &LIMITS,
      .help = "budgets of this account" },
};
static const struct schema_table ACCOUNT = { ACCOUNT_FIELDS, COUNT_OF(ACCOUNT_FIELDS),
                                             sizeof(struct config_account),
                                             AT(config_account, line) };

static const struct schema_field STAGE_FIELDS[] = {
    { "batch_max", SCHEMA_INTEGER, AT(config_stage, batch_max), .fallback = "256", .min = 1,
      .max = 4096, .help = "messages or rows decided in one transaction" },
    { "queue_max", SCHEMA_INTEGER, AT(config_stage, queue_max), .fallback = "512", .min = 1,
      .max = 8192, .help = "messages that may wait in the process for their batch" },
    { "retry_min", SCHEMA_DURATION, AT(config_stage, retry_ms_min), .fallback = "250ms", .min = 10,
      .max = 60000, .help = "first wait when infrastructure is away" },
    { "retry_max", SCHEMA_DURATION, AT(config_stage, retry_ms_max), .fallback = "5s", .min = 10,
      .max = 60000, .help = "longest such wait" },
};
static const struct schema_table STAGE = TABLE(STAGE_FIELDS, config_stage);

static const struct schema_field STAGES_FIELDS[] = {
    { "intake", SCHEMA_MAP, AT(config_stages, intake), .table = &STAGE, .help = "oncepay-intake" },
    { "route", SCHEMA_MAP, AT(config_stages, route), .table = &STAGE, .help = "oncepay-route" },
    { "create", SCHEMA_MAP, AT(config_stages, create), .table = &STAGE, .help = "oncepay-create" },
    { "recover", SCHEMA_MAP, AT(config_stages, recover), .table = &STAGE,
      .help = "oncepay-recover" },
    { "settle", SCHEMA_MAP, AT(config_stages, settle), .table = &STAGE, .help = "oncepay-settle" },
};
static const struct schema_table STAGES = TABLE(STAGES_FIELDS, config_stages);

static const struct schema_field RELAY_FIELDS[] = {
    { "poll", SCHEMA_DURATION, AT(config_relay, poll_ms), .fallback = "50ms", .min = 5,
      .max = 10000, .help = "look for events when nobody pokes" },
    { "command_lag", SCHEMA_DURATION, AT(config_relay, command_lag_ms), .fallback = "10s",
      .min = 1000, .max = 300000,
      .help = "age at which a command is looked at, besides the statement timeout (protocol H1)" },
    { "batch_max", SCHEMA_INTEGER, AT(config_relay, batch_max), .fallback = "512", .min = 1,
      .max = 10000, .help = "rows read in one round" },
    { "events_in_flight_max", SCHEMA_INTEGER, AT(config_relay, events_in_flight_max),
      .fallback = "1024", .min = 1, .max = 8192, .help = "unconfirmed event publishes" },
    { "republish_per_s_max", SCHEMA_INTEGER, AT(config_relay, republish_per_s_max),
      .fallback = "2000", .min = 1, .max = 100000, .help = "cap on re-emission" },
};
static const struct schema_table RELAY = TABLE(RELAY_FIELDS, config_relay);

static const struct schema_field STREAM_FIELDS[] = {
    { "messages_max", SCHEMA_INTEGER, AT(config_stream, messages_max), .fallback = "1000000",
      .min = 1, .max = MANY, .help = "a full stream refuses the publish: back-pressure" },
    { "bytes_max", SCHEMA_SIZE, AT(config_stream, bytes_max), .fallback = "256MiB", .min = 1024,
      .max = MANY, .help = "the same in bytes; the server reserves it" },
};
static const struct schema_table STREAM = TABLE(STREAM_FIELDS, config_stream);

static const struct schema_field STREAMS_FIELDS[] = {
    { "replicas", SCHEMA_INTEGER, AT(config_streams, replicas), .fallback = "1", .min = 1, .max = 5,
      .help = "1 in development, 3 or 5 in production" },
    { "message_max", SCHEMA_SIZE, AT(config_streams, message_bytes_max), .fallback = "64KiB",
      .min = 16384, .max = 1048576, .help = "biggest message, headers included" },
    { "duplicate_window_s", SCHEMA_INTEGER, AT(config_streams, duplicate_window_s),
      .fallback = "120", .min = 1, .max = 86400, .help = "how long a message id is remembered" },
    { "ack_wait_s", SCHEMA_INTEGER, AT(config_streams, ack_wait_s), .fallback = "30", .min = 5,
      .max = 300, .help = "then an unacked message goes to another worker" },
    { "ack_pending_max", SCHEMA_INTEGER, AT(config_streams, ack_pending_max), .fallback = "20000",
      .min = 1, .max = 1000000,
      .help = "delivered and parked messages of a durable, all workers together" },
    { "event_age_max_s", SCHEMA_INTEGER, AT(config_streams, event_age_max_s), .fallback = "604800",
      .min = 3600, .max = 31536000, .help = "how long PAY_EVENT keeps" },
    { "intake", SCHEMA_MAP, AT(config_streams, intake), .table = &STREAM, .help = "PAY_INTAKE" },
    { "route", SCHEMA_MAP, AT(config_streams, route), .table = &STREAM, .help = "PAY_ROUTE" },
    { "create", SCHEMA_MAP, AT(config_streams, create), .table = &STREAM, .help = "PAY_CREATE" },
    { "recover", SCHEMA_MAP, AT(config_streams, recover), .table = &STREAM, .help = "PAY_RECOVER" },
    { "settle", SCHEMA_MAP, AT(config_streams, settle), .table = &STREAM, .help = "PAY_SETTLE" },
    { "event", SCHEMA_MAP, AT(config_streams, event), .table = &STREAM, .help = "PAY_EVENT" },
    { "advisory", SCHEMA_MAP, AT(config_streams, advisory), .table = &STREAM,
      .help = "PAY_ADVISORY" },
};
static const struct schema_table STREAMS = TABLE(STREAMS_FIELDS, config_streams);

static const struct schema_field TIMERS_FIELDS[] = {
    { "start_by_s", SCHEMA_INTEGER, AT(config_timers, start_by_s), .fallback = "900", .min = 10,
      .max = 86400, .help = "from the message's storing: no first send after it (C8)" },
    { "replay_until_s", SCHEMA_INTEGER, AT(config_timers, replay_until_s), .fallback = "3600",
      .min = 1, .max = 86400, .help = "from the first fence: no replay after it (C5)" },
    { "send_by_ms", SCHEMA_INTEGER, AT(config_timers, send_by_ms), .fallback = "2000", .min = 100,
      .max = 10000, .help = "fence to hand-over; later it is not sent (C2)" },
    { "call_limit_ms", SCHEMA_INTEGER, AT(config_timers, call_limit_ms), .fallback = "30000",
      .min = 1000, .max = 120000, .help = "one PSP call, hand-over to answer (C2)" },
    { "call_connect_ms", SCHEMA_INTEGER, AT(config_timers, call_connect_ms), .fallback = "5000",
      .min = 100, .max = 60000, .help = "of that, to connect" },
    { "fence_grace_ms", SCHEMA_INTEGER, AT(config_timers, fence_grace_ms), .fallback = "5000",
      .min = 1000, .max = 60000, .help = "fence batch is due this long after the call limit (C2)" },
    { "lease_s", SCHEMA_INTEGER, AT(config_timers, lease_s), .fallback = "45", .min = 5, .max = 600,
      .help = "of a recovery task; outlives send_by and call limit (G)" },
    { "stuck_after_s", SCHEMA_INTEGER, AT(config_timers, stuck_after_s), .fallback = "60",
      .min = 60, .max = 300, .help = "alarm; a case at five times that (I)" },
    { "late_arrival_extra_s", SCHEMA_INTEGER, AT(config_timers, late_arrival_extra_s),
      .fallback = "0", .max = 604800, .help = "added to each PSP's late-arrival window (C6)" },
    { "pending_age_max_s", SCHEMA_INTEGER, AT(config_timers, pending_age_max_s),
      .fallback = "86400", .min = 60, .max = 2592000, .help = "PROCESSING longer gets a case (I)" },
    { "drain_s", SCHEMA_INTEGER, AT(config_timers, drain_s), .fallback = "35", .min = 1, .max = 300,
      .help = "SIGTERM to exit, at most" },
};
static const struct schema_table TIMERS = TABLE(TIMERS_FIELDS, config_timers);

static const struct schema_field CONFIG_FIELDS[] = {
    { "installation", SCHEMA_TOKEN, AT(config, installation),
      .help = "part of every provider key (C4): never change it" },
    { "development", SCHEMA_BOOLEAN, AT(config, development), .fallback = "false",
      .help = "allows http to PSPs, one replica and secrets that others may read" },
    { "recovery_file", SCHEMA_PATH, AT(config, recovery_file), .fallback = "recovery.yaml",
      .min = 1, .environment = "ONCEPAY_RECOVERY", .help = "the recovery policy" },
    { "nats", SCHEMA_MAP, AT(config, nats), .table = &NATS, .help = "JetStream" },
    { "postgres", SCHEMA_MAP, AT(config, postgres), .table = &POSTGRES, .help = "the truth" },
    { "redis", SCHEMA_MAP, AT(config, redis), .table = &REDIS, .help = "the helper" },
    { "gateway", SCHEMA_MAP, AT(config, gateway), .table = &GATEWAY, .help = "HTTP in" },
    { "metrics", SCHEMA_MAP, AT(config, metrics), .table = &METRICS, .help = "HTTP for monitors" },
    { "merchants", SCHEMA_LIST, AT(config, merchants), AT(config, merchant_count), .max = 10000,
      .table = &MERCHANT, .help = "who may ask for payments" },
    { "accounts", SCHEMA_LIST, AT(config, accounts), AT(config, account_count), .max = 1000,
      .table = &ACCOUNT, .help = "channel accounts, in order of preference" },
    { "stages", SCHEMA_MAP, AT(config, stages), .table = &STAGES, .help = "batches and waits" },
    { "relay", SCHEMA_MAP, AT(config, relay), .table = &RELAY, .help = "oncepay-relay" },
    { "streams", SCHEMA_MAP, AT(config, streams), .table = &STREAMS, .help = "topology limits" },
    { "timers", SCHEMA_MAP, AT(config, timers), .table = &TIMERS, .help = "times of the protocol" },
};
const struct schema_table CONFIG_SCHEMA = TABLE(CONFIG_FIELDS, config);
