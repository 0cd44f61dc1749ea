-- Where the relay stood. -> name, mark_at, mark_xid, system_identifier, stream_created, stream_last.
SELECT name, mark_at, mark_xid, system_identifier, stream_created, stream_last FROM oncepay.relay_position
