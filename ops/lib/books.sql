-- ops/lib/books.sql: our books for ops/lib/books.py, one JSON object a line, one snapshot.
-- This is the outside look of ops/demo at the tables; no process uses it. :without names an account
-- whose payments are left out; with '' there is none.
\set QUIET on
\pset format unaligned
\pset tuples_only on
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

SELECT json_build_object('row', 'payment', 'id', id, 'merchant', merchant,
                         'out_trade_no', out_trade_no, 'target_kind', target_kind,
                         'target_id', target_id, 'amount', amount, 'currency', currency,
                         'status', status, 'captured', captured)
FROM oncepay.payment p
WHERE :'without' = '' OR NOT EXISTS (SELECT FROM oncepay.payment_attempt a
                                      WHERE a.payment_id = p.id AND a.channel_account = :'without');

SELECT json_build_object('row', 'attempt', 'payment', payment_id, 'ordinal', ordinal,
                         'account', channel_account, 'key', provider_key, 'amount', amount,
                         'currency', currency, 'object', provider_payment_id, 'status', status,
                         'certainty', certainty)
FROM oncepay.payment_attempt
WHERE operation = 1 AND channel_account <> :'without';

SELECT json_build_object('row', 'stray', 'account', channel_account, 'object', provider_object,
                         'kind', kind, 'amount', amount, 'currency', currency)
FROM oncepay.stray_fact;

SELECT json_build_object('row', 'counts',
                         'requests', (SELECT count(*) FROM oncepay.attempt_request),
                         'tasks_open', (SELECT count(*) FROM oncepay.recovery_task WHERE status <> 50),
                         'cases_open', (SELECT count(*) FROM oncepay.manual_case WHERE status = 10),
                         'dead_letters', (SELECT count(*) FROM oncepay.dead_letter));

COMMIT;
