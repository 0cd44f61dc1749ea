/*
 * pipeline/command.h: what a stage tells the next one: ids and versions, never documents. Each
 * command is one outbox row; a bus message carries up to 64 of them, committed together, for one
 * subject (protocol H1). Body, MessagePack:
 *   {v: 1, commands: [{o: outbox id, p: payment id, e: entity id, n: version, k: kind}]}
 * Ids are 16-byte binaries. A version is a hint for commands to that version; an end that is
 * announced is never dropped as stale (protocol F).
 */
#ifndef ONCEPAY_PIPELINE_COMMAND_H
#define ONCEPAY_PIPELINE_COMMAND_H

#include "pipeline/arena.h"
#include "pipeline/id.h"
#include "pipeline/subject.h"

/* Codes are on the wire and in outbox rows: never renumbered. */
enum command_kind {
    COMMAND_ROUTE = 1,  /* entity payment, version: the attempt ordinal it follows, from 0 */
    COMMAND_CREATE = 2, /* entity attempt, version: the attempt's */
    COMMAND_SETTLE = 3, /* entity attempt that has an end or news, version: the attempt's */
    /* To settle: entity routing decision without a candidate, version: the ordinal it follows. */
    COMMAND_NO_ROUTE = 4,
    /* To recover: entity webhook inbox row, version 0; payment nil if not known. */
    COMMAND_EVIDENCE = 5,
};
/* "route", "create", "settle", "no_route", "evidence"; NULL for a code that is none. */
const char *command_kind_name(int code);

struct command {
    struct outbox_id outbox;
    struct payment_id payment; /* nil uuid when not known */
    struct uuid entity;
    int64_t version;
    enum command_kind kind;
};

enum { COMMAND_SCHEMA_VERSION = 1, COMMAND_BATCH_MAX = 64, COMMAND_BODY_BYTES_MAX = 8192 };

/* 1 to COMMAND_BATCH_MAX commands; the bytes live in the arena. */
struct span command_batch_encode(const struct command *commands, size_t count, struct arena *arena);

enum command_reading {
    COMMAND_READ,      /* out_* are set */
    COMMAND_NEWER,     /* a later schema version or kind: hand the message back (protocol H6) */
    COMMAND_MALFORMED, /* can never be read: dead letter */
};
/* Unknown fields are ignored. out_commands is in the arena; out_* untouched unless COMMAND_READ. */
enum command_reading command_batch_decode(struct span body, struct arena *arena,
                                          const struct command **out_commands,
                                          size_t *out_count) MUST_CHECK;

enum { COMMAND_MESSAGE_ID_SIZE = 64 };
/* Nats-Msg-Id of a batch: its first row's id, and ".<run>" if run > 0 (republished by relay). */
char *command_message_id(struct outbox_id first, int64_t run, char text[COMMAND_MESSAGE_ID_SIZE]);

#endif
