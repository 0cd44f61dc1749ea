-- When the command was written that opens a message. $1 outbox id. -> created_at; no row: none of ours.
SELECT o.created_at FROM oncepay.outbox o WHERE o.id = $1::uuid
