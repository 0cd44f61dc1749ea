-- Raises a shard's low-water mark; it never falls while the database is the same.
-- $1 name, $2 xid, $3 system identifier, $4 when the snapshot was taken. -> name if it moved.
INSERT INTO oncepay.relay_position AS p (name, mark_xid, system_identifier, mark_at)
VALUES ($1::text, $2::int8::text::xid8, $3::int8, $4::timestamptz)
    ON CONFLICT (name) DO UPDATE
   SET mark_xid = excluded.mark_xid, system_identifier = excluded.system_identifier, mark_at = excluded.mark_at,
       updated_at = now()
 WHERE p.system_identifier IS DISTINCT FROM excluded.system_identifier OR p.mark_xid IS NULL
    OR p.mark_xid <= excluded.mark_xid
RETURNING p.name
