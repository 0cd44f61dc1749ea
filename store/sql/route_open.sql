-- How many attempts are open at each account: those with an unresolved task and those behind a fence.
-- Counting stops at the account's cap. $1 accounts, $2 caps (arrays). -> one count per account, in order.
SELECT (SELECT count(*) FROM (SELECT FROM oncepay.recovery_task t
                               WHERE t.channel_account = d.account AND t.status <> 50
                               ORDER BY t.channel_account, t.first_unknown_at LIMIT d.cap) x)
       + (SELECT coalesce(sum(cardinality(b.attempts)), 0)::int8 FROM oncepay.fence_batch b
           WHERE b.channel_account = d.account)
  FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS d(account, cap, n)
 ORDER BY d.n
