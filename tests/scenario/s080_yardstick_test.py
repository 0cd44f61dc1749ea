"""The yardsticks of ops/bench write what the stages write: the same rows, states and widths, through the
same guards. Otherwise the comparison of their speeds says nothing.
"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from scenario import BIN, ROOT, Stack  # noqa: E402

PAYMENTS = 192  # three batches of the ceiling
WIDTH_PERCENT = 10

# Rows and bytes of each table that grows with payments; a partitioned table counts as one.
TABLES = """
SELECT t.name, t.rows, t.bytes FROM (
    SELECT 'idempotency_key', count(*), sum(pg_column_size(r)) FROM oncepay.idempotency_key r
     UNION ALL SELECT 'payment', count(*), sum(pg_column_size(r)) FROM oncepay.payment r
     UNION ALL SELECT 'active_payment', count(*), sum(pg_column_size(r)) FROM oncepay.active_payment r
     UNION ALL SELECT 'payment_attempt', count(*), sum(pg_column_size(r)) FROM oncepay.payment_attempt r
     UNION ALL SELECT 'attempt_request', count(*), sum(pg_column_size(r)) FROM oncepay.attempt_request r
     UNION ALL SELECT 'fence_batch', count(*), coalesce(sum(pg_column_size(r)), 0) FROM oncepay.fence_batch r
     UNION ALL SELECT 'evidence', count(*), sum(pg_column_size(r)) FROM oncepay.evidence r
     UNION ALL SELECT 'provider_object', count(*), sum(pg_column_size(r)) FROM oncepay.provider_object r
     UNION ALL SELECT 'routing_decision', count(*), sum(pg_column_size(r)) FROM oncepay.routing_decision r
     UNION ALL SELECT 'state_history', count(*), sum(pg_column_size(r)) FROM oncepay.state_history r
     UNION ALL SELECT 'outbox', count(*), sum(pg_column_size(r)) FROM oncepay.outbox r) t (name, rows, bytes)
"""
# What a payment went through, without what differs from payment to payment.
LIVES = """
SELECT entity, version, from_status, to_status, event, why, (evidence_id IS NULL), (policy_version IS NULL),
       (routing_version IS NULL), count(*)
  FROM oncepay.state_history GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
"""
ENDS = """
SELECT p.status, p.version, p.certainty, p.captured = p.amount, p.applied_version, a.status, a.version, a.certainty,
       a.evidence_id IS NOT NULL, a.provider_payment_id IS NOT NULL, a.first_sent_at IS NOT NULL, count(*)
  FROM oncepay.payment p JOIN oncepay.payment_attempt a ON a.payment_id = p.id
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""
MESSAGES = """
SELECT kind, regexp_replace(subject, '[0-9]+$', 'N'), entity, version, body IS NULL, count(*)
  FROM oncepay.outbox GROUP BY 1, 2, 3, 4, 5
"""


class Yardstick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = Stack("yardstick", environment={"ONCEPAY_SIM_WEBHOOKS": "off"}).up()
        cls.addClassCleanup(cls.stack.down)
        summary = json.loads(cls.stack.run(os.path.join(BIN, "oncepay-feed"), "--quiet", "--payments",
                                           str(PAYMENTS), "--prefix", "pipeline").stdout)
        assert summary["succeeded"] == PAYMENTS, summary
        cls.url = cls.stack.environment["ONCEPAY_PG_URL"]
        cls.looks = {name: sorted(cls.stack.sql(sql)) for name, sql in
                     (("lives", LIVES), ("ends", ENDS), ("messages", MESSAGES))}
        cls.tables = cls.read_tables()

    @classmethod
    def read_tables(cls):
        return {name: (int(rows), int(size)) for name, rows, size in cls.stack.sql(TABLES)}

    def write(self, kind):
        name = "yardstick_" + kind
        self.stack.sql("CREATE DATABASE " + name)
        self.stack.environment["ONCEPAY_PG_URL"] = self.url.replace("/oncepay?", "/%s?" % name, 1)
        self.addCleanup(self.stack.environment.update, {"ONCEPAY_PG_URL": self.url})
        self.stack.cli("migrate")
        written = json.loads(self.stack.run(
            os.path.join(BIN, "oncepay-yardstick"), kind, "--sql",
            os.path.join(ROOT, "ops/yardstick", kind + ".sql"), "--payments", str(PAYMENTS),
            "--prefix", "pipeline").stdout)
        self.assertEqual(written["payments"], PAYMENTS)

    def assert_same(self):
        for name, sql in (("lives", LIVES), ("ends", ENDS), ("messages", MESSAGES)):
            self.assertEqual(sorted(self.stack.sql(sql)), self.looks[name], name)
        for name, (rows, size) in self.read_tables().items():
            expected_rows, expected_size = self.tables[name]
            self.assertEqual(rows, expected_rows, name)
            self.assertLessEqual(abs(size - expected_size) * 100, WIDTH_PERCENT * expected_size,
                                 "%s: %s bytes, the stages wrote %s" % (name, size, expected_size))
        self.stack.verify()

    def test_the_ceiling_writes_the_rows_of_the_stages(self):
        self.write("ceiling")
        self.assert_same()

    def test_the_naive_way_writes_the_rows_of_the_stages(self):
        self.write("naive")
        self.assert_same()


if __name__ == "__main__":
    unittest.main()
