-- Takes the session lock of a payment shard, if nobody holds it. $1 lock class, $2 shard.
-- -> held?, the session (backend), the database's system identifier, now.
SELECT pg_try_advisory_lock($1::int4, $2::int4), pg_backend_pid(),
       (SELECT c.system_identifier FROM pg_control_system() c), now()
