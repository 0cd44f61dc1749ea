-- What settle decides from, one row per command. Every look-up is by key and LATERAL … LIMIT 1, so
-- that no cached plan can turn it into a scan.
-- $1 payment ids, $2 command kinds (3 settle, 4 no_route), $3 attempt ids, $4 ordinals that a
-- no_route follows.
-- -> 0 place (from 1)
--    payment: 1 exists, 2 merchant, 3 out_trade_no, 4 amount, 5 currency, 6 capture_mode,
--      7 status, 8 version, 9 certainty, 10 reason, 11 announced, 12 authorised, 13 captured,
--      14 refunded, 15 next_action, 16 applied_attempt, 17 applied ordinal, 18 applied_version,
--      19 traceparent
--    attempt: 20 exists, 21 operation, 22 ordinal, 23 status, 24 certainty, 25 version,
--      26 decline_class, 27 error_code, 28 account, 29 provider_key, 30 provider object, 31 amount,
--      32 currency, 33 handed_out, 34 evidence, 35 its source, 36 its amount, 37 its currency,
--      38 last excerpt, 39 cited, 40 task due, 41 open requests, 42 has known answer,
--      43 last send_by
--    around: 44 pointer version (NULL: it does not name this payment), 45 hold, 46 stray fact,
--      47 case, 48 grave case, 49 reason of the routing decision (NULL: no such decision), 50 now
WITH d AS MATERIALIZED (
    SELECT *
      FROM unnest($1::uuid[], $2::int2[], $3::uuid[], $4::int4[])
           WITH ORDINALITY AS d(payment_id, kind, attempt_id, follows, place))
SELECT d.place::int4,
       p.id IS NOT NULL, p.merchant, p.out_trade_no, p.amount, p.currency, p.capture_mode,
       p.status, p.version, p.certainty, p.reason, p.announced, p.authorised, p.captured,
       p.refunded, p.next_action::text, p.applied_attempt, b.ordinal, p.applied_version,
       p.traceparent,
       a.id IS NOT NULL, a.operation, a.ordinal, a.status, a.certainty, a.version,
       a.decline_class, a.error_code, a.channel_account, a.provider_key,
       coalesce(a.provider_payment_id, m.provider_object), a.amount,
       a.currency, a.handed_out, a.evidence_id, m.source, m.amount, m.currency,
       m.excerpt, m.cited IS NOT NULL, m.due_at, m.open_requests,
       coalesce(m.has_known_answer, false), m.last_send_by,
       t.version, t.hold, coalesce(m.is_open, false),
       coalesce(m.has_case, false), coalesce(m.has_grave_case, false), m.reason, now()
  FROM d
  LEFT JOIN LATERAL (SELECT * FROM oncepay.payment f WHERE f.id = d.payment_id LIMIT 1) p ON true
  LEFT JOIN LATERAL (
       SELECT * FROM oncepay.payment_attempt f
        WHERE d.kind = 3 AND f.id = d.attempt_id AND f.payment_id = d.payment_id LIMIT 1) a ON true
  LEFT JOIN LATERAL (
       SELECT f.ordinal FROM oncepay.payment_attempt f
        WHERE f.id = p.applied_attempt LIMIT 1) b ON true
  LEFT JOIN LATERAL (
       SELECT f.version, f.hold FROM oncepay.active_payment f
        WHERE f.merchant = p.merchant AND f.target_kind = p.target_kind
          AND f.target_id = p.target_id AND f.payment_id = p.id LIMIT 1) t ON true
  -- The way of nearly all: a success that the payment still waits for. It left that state if it was
  -- told so before, and it asks nothing of requests, cases and stray facts: all that stays unread.
  LEFT JOIN LATERAL (
       SELECT e.source, e.provider_object, e.amount, e.currency, x.excerpt, c.cited, w.due_at,
              q.open_requests, q.has_known_answer, q.last_send_by, s.is_open, k.has_case,
              k.has_grave_case, r.reason
         FROM (SELECT) more
         LEFT JOIN LATERAL (
              SELECT f.source, f.provider_object, f.amount, f.currency FROM oncepay.evidence f
               WHERE f.payment_id = a.payment_id AND f.id = a.evidence_id LIMIT 1) e ON true
         LEFT JOIN LATERAL (
              SELECT f.excerpt FROM oncepay.evidence f
               WHERE a.handed_out AND f.payment_id = a.payment_id AND f.attempt_id = a.id
                 AND f.phase = 5
               ORDER BY f.id DESC LIMIT 1) x ON true
         LEFT JOIN LATERAL (
              SELECT true AS cited FROM oncepay.state_history f
               WHERE a.status >= 50 AND f.payment_id = p.id AND f.entity = 1 AND f.id = p.id
                 AND f.evidence_id = a.evidence_id LIMIT 1) c ON true
         LEFT JOIN LATERAL (
              SELECT f.due_at FROM oncepay.recovery_task f
               WHERE a.status < 50 AND f.attempt_id = a.id AND f.status <> 50
                 AND f.due_at < 'infinity' LIMIT 1) w ON true
         -- An answer with a known outcome under the key may close the others: the capability says so.
         LEFT JOIN LATERAL (
              SELECT count(*) FILTER (WHERE NOT coalesce(u.is_closed, false)) AS open_requests,
                     bool_or(coalesce(u.is_known, false)) AS has_known_answer,
                     max(f.send_by) AS last_send_by
                FROM oncepay.attempt_request f
                LEFT JOIN LATERAL (
                     SELECT bool_or(g.closure > 0) AS is_closed,
                            bool_or(g.closure = 2 AND g.source IN (3, 4)) AS is_known
                       FROM oncepay.evidence g
                      WHERE g.payment_id = f.payment_id AND g.request_id = f.id) u ON true
               WHERE f.payment_id = a.payment_id AND f.attempt_id = a.id
                 AND f.kind IN (1, 2)) q ON true
         LEFT JOIN LATERAL (
              SELECT true AS is_open FROM oncepay.stray_fact f
               WHERE f.payment_id = p.id
                 AND 0 = (SELECT count(*) FROM oncepay.manual_case g
                           WHERE g.attempt_id = f.attempt_id AND g.kind = 3 AND g.status = 50)
               LIMIT 1) s ON true
         LEFT JOIN LATERAL (
              SELECT true AS has_case, bool_or(f.kind IN (2, 3, 4, 9)) AS has_grave_case
                FROM oncepay.manual_case f
               WHERE f.payment_id = p.id AND f.status + 0 = 10 HAVING count(*) > 0) k ON true
         LEFT JOIN LATERAL (
              SELECT coalesce(f.reasons ->> 'reason', 'no_route') AS reason
                FROM oncepay.routing_decision f
               WHERE d.kind = 4 AND f.payment_id = d.payment_id AND f.follows = d.follows
                 AND f.channel_account IS NULL LIMIT 1) r ON true
        WHERE NOT coalesce(a.status = 50 AND p.status IN (20, 25) AND NOT a.handed_out, false)
       OFFSET 0) m ON true
