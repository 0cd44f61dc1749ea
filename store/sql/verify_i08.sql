-- I8: one history row per version, from the first to the row's own; each begins where the one
-- before it ended, and the last one is the row's state and the head of its chain. Result as in
-- verify_i01.sql.
WITH rows AS (
    SELECT p.id AS payment_id, 1::int2 AS entity, p.id, p.version, p.status, p.history_hash
      FROM oncepay.payment p
    UNION ALL
    SELECT a.payment_id, 2::int2, a.id, a.version, a.status, a.history_hash
      FROM oncepay.payment_attempt a
    UNION ALL
    SELECT o.payment_id, 3::int2, o.id, o.version, o.status, o.history_hash
      FROM oncepay.payment_operation o),
lives AS (
    SELECT h.payment_id, h.entity, h.id, count(*) AS versions, min(h.version) AS first,
           max(h.version) AS last
      FROM oncepay.state_history h GROUP BY h.payment_id, h.entity, h.id),
steps AS (
    SELECT h.id, h.entity, h.version, h.from_status,
           lag(h.to_status) OVER life AS before
      FROM oncepay.state_history h
    WINDOW life AS (PARTITION BY h.payment_id, h.entity, h.id ORDER BY h.version)),
bad AS (
    SELECT coalesce(r.id, l.id) AS id,
           CASE WHEN r.id IS NULL THEN format('entity %s has a history and no row', l.entity)
                WHEN l.id IS NULL THEN format('entity %s has a row and no history', r.entity)
                ELSE format('entity %s is at version %s; its history has %s rows, from %s to %s',
                            r.entity, r.version, l.versions, l.first, l.last) END AS what
      FROM rows r
      FULL JOIN lives l ON l.payment_id = r.payment_id AND l.entity = r.entity AND l.id = r.id
     WHERE r.id IS NULL OR l.id IS NULL OR l.first <> 1 OR l.last <> r.version
        OR l.versions <> r.version
    UNION ALL
    SELECT r.id, format('entity %s: its row is not what its last history row says', r.entity)
      FROM rows r
      JOIN oncepay.state_history h
        ON h.payment_id = r.payment_id AND h.entity = r.entity AND h.id = r.id
       AND h.version = r.version
     WHERE h.to_status <> r.status OR NOT oncepay.is_linked(h, r.history_hash)
    UNION ALL
    SELECT s.id, format('entity %s, version %s: it begins at %s, the one before it ended at %s',
                        s.entity, s.version, s.from_status, coalesce(s.before, 0))
      FROM steps s WHERE s.from_status <> coalesce(s.before, 0))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
