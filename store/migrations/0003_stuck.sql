-- 0003: commands that did not move what they name for longer than stuck_after, although no message
-- of theirs is left (protocol I). The relay finds them while it follows the commands, writes a row
-- here, emits them again ever more slowly and deletes the row when the work moved. So the table is
-- as small as the trouble is, and every process reads its stuck gauges from it.

CREATE TABLE oncepay.stuck_command (
    kind            smallint NOT NULL, -- enum command_kind
    entity_id       uuid NOT NULL,
    version         int NOT NULL,
    payment_id      uuid,
    subject         text NOT NULL,
    stage           text NOT NULL,     -- whose work it is …
    channel_account text NOT NULL,     -- … and at which account; '' before there is one
    state           smallint NOT NULL, -- of the payment; 0: a webhook that belongs to none yet
    since           timestamptz NOT NULL, -- when what waits came into the state that it waits in
    emitted_at      timestamptz NOT NULL, -- its last command
    next_at         timestamptz NOT NULL, -- when it is looked at again
    emissions       int NOT NULL DEFAULT 1,
    CONSTRAINT stuck_command_pk PRIMARY KEY (kind, entity_id, version)
);
CREATE INDEX stuck_command_next ON oncepay.stuck_command (next_at, kind, entity_id, version);
