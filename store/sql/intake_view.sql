-- How payments stand now, as the outside sees them. $1 payment ids.
-- -> per payment: id, out_trade_no, status, certainty, amount, currency, captured, refunded, next action,
-- reason, safe to pay again, hold, next check, version. Safe: FAILED or CANCELED with no hold, open
-- stray fact, open case, timer, open attempt or task (protocol E). Counted, since an EXISTS in the select list
-- may become a hash of the whole table. A tombstone's amount and currency are NULL.
SELECT p.id, p.out_trade_no, p.status, p.certainty, p.amount, p.currency, p.captured, p.refunded,
       p.next_action::text, p.reason,
       p.status IN (90, 95) AND a.hold IS NULL AND t.due_at IS NULL
       AND 0 = (SELECT count(*) FROM oncepay.stray_fact s
                 WHERE s.payment_id = p.id
                   AND 0 = (SELECT count(*) FROM oncepay.manual_case c
                             WHERE c.attempt_id = s.attempt_id AND c.kind = 3 AND c.status = 50))
       AND 0 = (SELECT count(*) FROM oncepay.manual_case c WHERE c.payment_id = p.id AND c.status + 0 = 10)
       AND 0 = (SELECT count(*) FROM oncepay.payment_timer w WHERE w.payment_id = p.id)
       AND 0 = (SELECT count(*) FROM oncepay.payment_attempt o WHERE o.payment_id = p.id AND o.status < 50),
       a.hold, nullif(t.due_at, 'infinity'), p.version
  FROM unnest($1::uuid[]) AS d(id)
  JOIN oncepay.payment p ON p.id = d.id
  LEFT JOIN LATERAL (
       SELECT x.hold FROM oncepay.active_payment x
        WHERE x.merchant = p.merchant AND x.target_kind = p.target_kind AND x.target_id = p.target_id
          AND x.payment_id = p.id LIMIT 1) a ON true
  LEFT JOIN LATERAL (
       SELECT min(r.due_at) AS due_at
         FROM oncepay.payment_attempt o
         JOIN oncepay.recovery_task r ON r.attempt_id = o.id AND r.status <> 50
        WHERE o.payment_id = p.id) t ON true
