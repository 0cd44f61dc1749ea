"""ops/chaos.d/chaos_test.py: the schedule is the seed's and keeps apart what must be; the checks
find what they are there for; names are answered and lied about. Run by ctest; needs no server.
"""
import collections
import json
import os
import socket
import struct
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks  # noqa: E402
import main  # noqa: E402
import names  # noqa: E402
import report  # noqa: E402
import schedule  # noqa: E402
import states  # noqa: E402

EVERYTHING = {need: True for need in ("standby", "own_mounts", "shim", "faketime",
                                      "packet_filter", "dns")}


def texts(seed, seconds=60, **layout):
    return [str(entry) for entry in schedule.make(seed, seconds, dict(EVERYTHING, **layout))]


class Schedule(unittest.TestCase):
    def test_the_seed_gives_it(self):
        self.assertEqual(texts(5), texts(5))
        self.assertNotEqual(texts(5), texts(6))

    def test_two_faults_never_touch_one_thing_at_a_time(self):
        busy = {}
        for entry in schedule.make(9, 1800, EVERYTHING):
            for thing in entry.fault.things:
                self.assertLessEqual(busy.get(thing, 0), entry.at_s, thing)
                busy[thing] = entry.at_s + entry.fault.seconds
            self.assertLessEqual(entry.at_s + entry.fault.seconds, 1800 + 0.01)

    def test_a_long_run_deals_every_card(self):
        dealt = collections.Counter(entry.fault.name for entry in schedule.make(1, 300, EVERYTHING))
        wanted = collections.Counter(cls.name for cls, _ in schedule.cards(EVERYTHING))
        self.assertEqual({name for name in wanted if dealt[name] < wanted[name]}, set())
        self.assertEqual(dealt["promote"], 1)

    def test_the_fixed_set_deals_every_card(self):
        dealt = set()
        for seed in (18, 19, 20):
            for entry in schedule.make(seed, 54, dict(EVERYTHING, standby=seed % 3 == 2)):
                dealt.add((entry.fault.name, *(entry.fault.parameters[name]
                                               for name in sorted(entry.fault.variants[0]))))
        wanted = {(cls.name, *(variant[name] for name in sorted(variant)))
                  for cls, variant in schedule.cards(EVERYTHING)}
        self.assertEqual(wanted - dealt, set())

    def test_what_comes_again_is_put_where_there_is_room(self):
        fault = schedule.make(1, 10, EVERYTHING)[0].fault
        length = fault.seconds + schedule.SETTLE_S
        later = [schedule.Entry(20.0, fault)]
        self.assertTrue(schedule.has_room(fault, 20 - length - 0.1, [], later))
        self.assertFalse(schedule.has_room(fault, 20 - length + 0.1, [], later))
        self.assertFalse(schedule.has_room(fault, 0, [(1, fault)], []))

    def test_what_the_machine_does_not_allow_is_not_dealt(self):
        self.assertEqual([text for text in texts(3, 600, dns=False, standby=False)
                          if " dns " in text or " promote " in text], [])


class Event:
    def __init__(self, identity, at_ns=0):
        self.id, self.at_ns = identity, at_ns


class Watcher:
    def __init__(self, live, *logs):
        self.live = [Event(identity) for identity in live]
        self.stored = {(at_ns, identity): Event(identity, at_ns)
                       for log in logs for at_ns, identity in enumerate(log)}


class Order(unittest.TestCase):
    wanted = {"a": ("p", 1, ""), "b": ("p", 4, ""), "c": ("q", 1, "")}

    def problems(self, live, *logs):
        return checks.order_of_events(Watcher(live, *logs), self.wanted)

    def test_first_copies_count_and_others_may_lie_between(self):
        self.assertEqual(self.problems("acbab", "acb"), [])

    def test_a_later_one_first_is_found(self):
        self.assertEqual(len(self.problems("bac", "bac")), 1)

    def test_what_was_seen_in_order_once_is_in_order(self):
        self.assertEqual(self.problems("", "ab", "ba"), [])
        self.assertEqual(self.problems("ab", "ba"), [])


class History(unittest.TestCase):
    def problems(self, *told):
        log = [Event(kind) for _, kind in told]
        for event, (version, kind) in zip(log, told):
            event.payment, event.version, event.type = "p", version, kind
        return checks.events_of_history(World([["p", "1", "0", "10"], ["p", "2", "10", "20"],
                                               ["p", "3", "20", "50"], ["p", "4", "50", "50"]],
                                              self.strays), log)

    strays = ()

    def test_each_end_is_told_and_others_need_not_be(self):
        self.assertEqual(self.problems((1, "payment.accepted"), (3, "payment.succeeded"),
                                       (4, "payment.double_success"), (0, "case.opened")), [])

    def test_an_end_that_nobody_was_told(self):
        self.assertEqual(len(self.problems((1, "payment.accepted"))), 1)
        self.assertEqual(len(self.problems((1, "payment.accepted"), (3, "payment.failed"))), 2)

    def test_a_stray_fact_that_nobody_was_told(self):
        self.strays = [["p", "2"], ["p", "5"]]
        told = (1, "payment.accepted"), (3, "payment.succeeded")
        self.assertEqual(len(self.problems(*told)), 1)
        self.assertEqual(self.problems(*told, (4, "payment.double_success")), [])

    def test_an_end_that_was_told_at_another_version(self):
        self.assertEqual(len(self.problems((1, "payment.accepted"), (2, "payment.succeeded"),
                                           (3, "payment.succeeded"))), 1)

    def test_what_never_happened(self):
        self.assertEqual(len(self.problems((1, "payment.accepted"), (3, "payment.succeeded"),
                                           (5, "payment.failed"))), 1)


class World:
    """Answers statements with canned rows, in order."""

    def __init__(self, *rows):
        self.rows = list(rows)
        self.sim_requests = {}

    def sql(self, statement):
        return self.rows.pop(0)

    def take_sim_requests(self):
        pass


class Requests(unittest.TestCase):
    def problems(self, arrivals, excused=(), unsent="f", too_late=()):
        world = World([["acc", "key", "3000", "1000", unsent]], too_late)
        world.sim_requests = {("acc", "key"): [{"real_ms": at} for at in arrivals]}
        return checks.requests(world, excused, collections.Counter())

    def test_one_row_one_request_in_its_time(self):
        self.assertEqual(self.problems([1500]), [])

    def test_more_requests_than_rows(self):
        self.assertEqual(len(self.problems([1500, 1600])), 1)

    def test_what_we_say_was_not_sent_is_not_there(self):
        self.assertEqual(len(self.problems([1500], unsent="t")), 1)
        self.assertEqual(self.problems([], unsent="t"), [])

    def test_later_than_the_row_allows_unless_something_held_it(self):
        self.assertEqual(len(self.problems([5100])), 1)
        self.assertEqual(self.problems([5100], [(5000, 5200)]), [])

    def test_before_its_row_whatever_held_others(self):
        self.assertEqual(len(self.problems([500])), 1)
        self.assertEqual(len(self.problems([500], [(400, 600)])), 1)

    def test_written_for_a_payment_that_was_over(self):
        self.assertEqual(len(self.problems([1500], too_late=[["r", "p", "25"]])), 1)


class TwoObjectsUnderOneKey(unittest.TestCase):
    """What a PSP that keeps only successes does with a declined key."""

    def told(self, state, status=checks.books.ATTEMPT_FAILED, strays=(("a", "pi_2"),)):
        return checks.is_told_object(
            {"what": "object differs", "ours": {"status": status},
             "theirs": {"account": "a", "object": "pi_2", "state": state}}, dict.fromkeys(strays))

    def test_a_later_success_is_told_by_its_stray_fact(self):
        self.assertTrue(self.told("succeeded"))
        self.assertFalse(self.told("succeeded", strays=()))

    def test_a_later_failure_took_no_money(self):
        self.assertTrue(self.told("failed", strays=()))

    def test_a_success_of_ours_has_its_own_object(self):
        self.assertFalse(self.told("failed", status=50))


class Ask:
    def __init__(self, *answers):
        self.body = {"merchant": "m", "out_trade_no": "n", "amount": 5, "currency": "EUR"}
        self.key, self.name, self.answers = "k", ("m", "k"), list(answers)


class Producers:
    def __init__(self, ask, **conflicts):
        self.asks, self.conflicts = {ask.name: ask}, conflicts


class Answers(unittest.TestCase):
    told = (202, json.dumps({"payment": "p"}).encode(), False)
    hash = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a"  # SHA-256 of "k"

    def problems(self, *answers, payment=("p", "m", "n", "5", "EUR"), stored=None):
        kept = ["m", self.hash, "202", stored.hex() if stored else "", "p"]
        return checks.answers(World([list(payment)], [kept]), Producers(Ask(*answers)))

    def test_told_and_stored_agree(self):
        self.assertEqual(self.problems(self.told, self.told), [])

    def test_two_answers_to_one_key(self):
        self.assertEqual(len(self.problems(self.told, (409, b"{}", True))), 2)

    def test_accepted_and_not_there(self):
        self.assertEqual(len(self.problems(self.told, payment=("other", "m", "n", "5", "EUR"))), 1)

    def test_accepted_and_stored_otherwise(self):
        self.assertEqual(len(self.problems(self.told, payment=("p", "m", "n", "6", "EUR"))), 1)

    def test_stored_and_nobody_was_told(self):
        self.assertEqual(len(self.problems((409, self.told[1], False), stored=b"{}")), 2)

    def test_another_answer_is_stored(self):
        self.assertEqual(len(self.problems(self.told, stored=b"{}")), 1)


class Rows(unittest.TestCase):
    def test_of_a_key_that_ran_again_the_last_word_counts(self):
        def row(state):
            return {"account": "a", "key": "k", "state": state}
        self.assertEqual(checks.one_row_a_key([row("failed"), row("succeeded")]),
                         [row("succeeded")])
        self.assertEqual(checks.one_row_a_key([row("failed"), row("failed")]), [row("failed")])
        self.assertEqual(len(checks.one_row_a_key([row("succeeded"), row("succeeded")])), 2)


class Names(unittest.TestCase):
    query = (b"\x12\x34\x01\x00\x00\x01\0\0\0\0\0\0" + b"\x03psp\x05chaos\x04test\0"
             + b"\0\x01\0\x01")

    def test_right_and_wrong(self):
        for how, address in (("right", names.RIGHT), ("wrong", names.WRONG)):
            told = names.answer(self.query, how)
            self.assertEqual(told[:2], self.query[:2])
            self.assertEqual(socket.inet_ntoa(told[-4:]), address)

    def test_unknown_and_other_kinds_have_no_address(self):
        told = names.answer(self.query, "unknown")
        self.assertEqual((told[3] & 15, struct.unpack(">H", told[6:8])[0]), (3, 0))
        self.assertEqual(names.answer(self.query[:-3] + b"\x1c\0\x01", "right")[6:8], b"\0\0")


class Report(unittest.TestCase):
    def test_a_state_that_nobody_reached_is_missing_unless_it_cannot_be(self):
        reached = {name: 1 for name in states.names()}
        able = [{"layout": dict(EVERYTHING)}]
        unable = [{"layout": dict(EVERYTHING, own_mounts=False)}]
        self.assertEqual(report.missing_states(reached, able), [])
        first = states.names()[0]
        self.assertEqual(report.missing_states(dict(reached, **{first: 0}), able), [first])
        for name, need in states.NEEDS.items():
            self.assertEqual(report.missing_states(dict(reached, **{name: 0}), able), [name])
            self.assertEqual(report.missing_states(
                dict(reached, **{name: 0}), [{"layout": dict(EVERYTHING, **{need: False})}]), [])
        self.assertEqual(report.missing_states(reached, unable), [])

    def test_a_fault_that_met_nobody_is_told(self):
        results = [{"begun": {"kill relay": 2, "dns late": 1}, "effective": {"dns late": 1}},
                   {"begun": {"kill relay": 1}, "effective": {}}]
        self.assertEqual(report.without_effect(results), ["kill relay"])
        results[1]["effective"] = {"kill relay": 1}
        self.assertEqual(report.without_effect(results), [])

    def test_what_cannot_be_is_said(self):
        can, why_not = main.allowed("/nowhere", "/nowhere")
        self.assertFalse(can["shim"])
        self.assertIn("slow fsync", why_not["shim"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
