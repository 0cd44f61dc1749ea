-- What is known of a stream. $1 name, $2 when it was created, $3 highest sequence that was confirmed.
INSERT INTO oncepay.relay_position (name, stream_created, stream_last) VALUES ($1::text, $2::text, $3::int8)
    ON CONFLICT (name) DO UPDATE
   SET stream_created = excluded.stream_created, stream_last = excluded.stream_last, updated_at = now()
