-- How far republishing has come. $1 name, $2 xid (NULL: nothing is republished), $3 system identifier.
INSERT INTO oncepay.relay_position (name, mark_xid, system_identifier)
VALUES ($1::text, $2::int8::text::xid8, $3::int8)
    ON CONFLICT (name) DO UPDATE
   SET mark_xid = excluded.mark_xid, system_identifier = excluded.system_identifier, updated_at = now()
