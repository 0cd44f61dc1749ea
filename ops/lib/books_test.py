"""ops/lib/books_test.py: the comparison of books sees each kind of disagreement. Run by ctest."""

import argparse
import copy
import unittest

import books


def payment(number, status=50, captured=1000):
    return {"row": "payment", "id": f"p{number}", "merchant": "m-1001", "out_trade_no": f"o-{number}",
            "target_kind": "order", "target_id": f"o-{number}", "amount": 1000, "currency": "EUR",
            "status": status, "captured": captured}


def attempt(number, status=50, certainty=5):
    return {"row": "attempt", "payment": f"p{number}", "ordinal": 1, "account": "stripe-main",
            "key": f"k{number}", "amount": 1000, "currency": "EUR", "object": f"pi_{number}",
            "status": status, "certainty": certainty}


def charge(number, state="succeeded"):
    return {"account": "stripe-main", "key": f"k{number}", "object": f"pi_{number}", "amount": 1000,
            "currency": "EUR", "state": state}


COUNTS = {"row": "counts", "requests": 2, "tasks_open": 0, "cases_open": 0, "dead_letters": 0}


class Comparison(unittest.TestCase):
    def setUp(self):
        self.rows = [payment(1), attempt(1), payment(2, 90, 0), attempt(2, 60, 3), COUNTS]
        self.ledger = [charge(1), charge(2, "failed")]

    def books(self):
        compared = books.Books(self.rows, self.ledger)
        compared.compare()
        return compared

    def said(self):
        return [d["what"] for d in self.books().disagreements]

    def test_equal_books_agree(self):
        self.assertEqual(self.said(), [])
        self.assertEqual(self.books().double_charges(), 0)

    def test_missing_charge(self):
        del self.ledger[0]
        self.assertEqual(self.said(), ["ours is SUCCEEDED"])

    def test_charge_of_nobody(self):
        self.ledger.append(charge(3))
        self.assertEqual(self.said(), ["a charge that no attempt of ours explains"])

    def test_other_account_is_another_charge(self):
        self.ledger[0]["account"] = "stripe-backup"
        self.assertEqual(len(self.said()), 2)

    def test_amount_and_currency_and_object(self):
        for field, value in (("amount", 1001), ("currency", "USD"), ("object", "pi_other")):
            self.setUp()
            self.ledger[0][field] = value
            self.assertEqual(len(self.said()), 1, field)

    def test_failed_but_charged(self):
        self.ledger[1]["state"] = "succeeded"
        self.assertEqual(len(self.said()), 1)
        self.rows.append({"row": "stray", "account": "stripe-main", "object": "pi_2", "kind": 1,
                          "amount": 1000, "currency": "EUR"})
        self.assertEqual(self.said(), [])

    def test_failed_but_open(self):
        self.ledger[1]["state"] = "pending"
        self.assertEqual(self.said(), ["ours is FAILED, theirs is open"])

    def test_no_side_effect_but_a_row(self):
        self.rows[3]["certainty"] = books.NO_SIDE_EFFECT
        self.assertEqual(self.said(), ["ours is NO_SIDE_EFFECT"])

    def test_captured_without_success(self):
        self.rows[1]["status"], self.ledger[0]["state"] = 60, "failed"
        self.assertIn("CAPTURED without exactly one succeeded attempt in full", self.said())

    def test_captured_in_part(self):
        self.rows[0]["captured"] = 999
        self.assertEqual(len(self.said()), 1)

    def test_failed_payment_with_success(self):
        self.rows[0]["status"] = 90
        self.assertEqual(self.said(), ["over, but an attempt succeeded"])

    def test_unknown_is_open_either_way(self):
        self.rows[0]["status"], self.rows[1]["status"], self.rows[1]["certainty"] = 20, 40, 1
        self.assertEqual(self.said(), [])

    def test_two_charges_under_one_key(self):
        self.ledger.append(charge(1))
        self.assertIn("more than one charge under one key", self.said())
        self.assertEqual(self.books().double_charges(), 1)

    def test_two_charges_of_one_target(self):
        second = payment(3)
        second["target_id"] = "o-1"
        self.rows += [second, attempt(3)]
        self.ledger.append(charge(3))
        self.assertEqual(self.books().double_charges(), 1)
        for row in (self.rows[0], second):
            row["target_kind"], row["target_id"] = "none", None
        self.assertEqual(self.books().double_charges(), 0)

    def test_lost(self):
        accepted = [["m-1001", "o-1", "p1"], ["m-1001", "o-2", "other"], ["m-1001", "o-9", "p9"]]
        self.assertEqual(len(self.books().lost(accepted)), 2)

    def test_result_is_good_only_if_all_is(self):
        feed = {"unanswered": 0}
        arguments = argparse.Namespace(faults="none", verify=0)
        make = lambda: books.make_result(self.books(), feed, [["m-1001", "o-1", "p1"]], arguments)
        self.assertTrue(make()["ok"])
        self.assertEqual(make()["by_status"], {"CAPTURED": 1, "FAILED": 1})
        arguments.verify = 1
        self.assertFalse(make()["ok"])
        arguments.verify, feed["unanswered"] = 0, 1
        self.assertFalse(make()["ok"])
        feed["unanswered"], self.ledger = 0, copy.deepcopy(self.ledger[1:])
        self.assertFalse(make()["ok"])


if __name__ == "__main__":
    unittest.main()
