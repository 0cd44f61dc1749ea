-- Raises the marks of command subjects; they never fall. $1 names, $2 marks.
INSERT INTO oncepay.relay_position AS p (name, mark_at)
SELECT d.name, d.mark_at FROM unnest($1::text[], $2::timestamptz[]) AS d(name, mark_at) ORDER BY d.name
    ON CONFLICT (name) DO UPDATE SET mark_at = excluded.mark_at, updated_at = now()
 WHERE p.mark_at IS NULL OR p.mark_at < excluded.mark_at
