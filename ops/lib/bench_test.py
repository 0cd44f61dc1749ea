"""Unit tests of ops/bench's arithmetic and judgement; nothing is started."""

import pathlib
import sys
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_measure as measure  # noqa: E402
import bench_plot  # noqa: E402
import bench_report  # noqa: E402


def stat(parent, own, ended):
    """/proc/<pid>/stat of a process whose name is as bad as names get."""
    return f"7 (a ) b) S {parent} " + "0 " * 9 + f"{own} 0 {ended} 0 " + "0 " * 8


def window(per_s, cpu, foreign=0.0, **more):
    return {"per_s": per_s, "cpu_us_all": cpu, "cpu_us": {"pg": cpu / 2}, "wal_bytes": 7000,
            "flushes": 0.05, "commits": 0.1, "buffers": 200, "busy_cores": 1.9,
            "foreign_cores": foreign, "payments": 100, "p99_ms": 50, "batch": {},
            "jetstream_messages": 3, "streams": {}, "redis_reads": 0.1, "redis_commands": 2, **more}


def found(pipeline=2500, foreign=0.0):
    return {"windows": {"ceiling": [window(5000, 300), window(4000, 300)],
                        "pipeline": [window(pipeline, 600, foreign), window(2000, 600)],
                        "naive": [window(500, 3000)], "rss_mib": {"create": 30},
                        "hot": {"payment": {"updates": 100, "hot": 99},
                                "payment_attempt": {"updates": 100, "hot": 70}}},
            "books": {"agree": True}}


class Measure(unittest.TestCase):
    def test_a_stat_line_is_read_behind_the_name(self):
        self.assertEqual(measure.parse_stat(stat(3, 50, 8)), (3, 50, 8))

    def test_children_that_ended_and_children_that_live_count_with_their_root(self):
        processes = {10: (1, 5, 100), 11: (10, 20, 0), 12: (10, 30, 0), 20: (1, 7, 0), 2: (0, 3, 0),
                     40: (2, 4, 0), 99: (1, 1000, 0)}
        total, kernel = measure.cpu_by_group(processes, {"pg": 10, "nats": 20})
        self.assertEqual(total, {"pg": 155, "nats": 7})
        self.assertEqual(kernel, 7)

    def test_counts_are_in_proportion_between_two_lines(self):
        points = [(100, 0), (200, 10), (300, 30)]
        self.assertEqual([measure.count_at(points, t) for t in (50, 150, 200, 250, 400)],
                         [0, 5, 10, 20, 30])
        self.assertEqual(measure.count_at([], 1), 0)

    def test_a_window_is_what_lies_between_its_samples(self):
        counters = {"wal_bytes": 0, "flushes": 0, "commits": 0, "buffers": 0, "fences": 0}
        first = {"at_us": 1000000, "box": 0, "steal": 0, "kernel": 0, "cpu": {"pg": 0, "bench": 0},
                 "counters": counters}
        last = {"at_us": 3000000, "box": 350, "steal": 0, "kernel": 10,
                "cpu": {"pg": 300, "bench": 10},
                "counters": {**counters, "wal_bytes": 800000, "flushes": 10}}
        w = measure.make_window(first, last, [(1000000, 100), (3000000, 200)], ("pg",))
        self.assertEqual((w["payments"], w["per_s"], w["wal_bytes"], w["flushes"]),
                         (100, 50.0, 8000, 0.1))
        self.assertEqual(w["cpu_us"], {"pg": 300 * 1e6 / measure.TICK / 100})
        self.assertAlmostEqual(w["foreign_cores"], 30 / measure.TICK / 2)

    def test_metrics_and_streams_are_read(self):
        text = ('oncepay_stage_messages_total{stage="route",verdict="taken"} 500\n'
                'oncepay_stage_messages_total{stage="route",verdict="denied"} 2\n'
                "oncepay_stage_batch_seconds_sum 0.1\noncepay_stage_batch_seconds_count 6\n")
        self.assertEqual(measure.parse_metrics(text), (6, 502))
        jsz = '{"account_details":[{"stream_detail":[{"name":"S","state":{"last_seq":9}}]}]}'
        self.assertEqual(measure.parse_streams(jsz), {"S": 9})
        self.assertEqual(measure.parse_streams("{}"), {})


class Judgement(unittest.TestCase):
    def verdicts(self, what, only_gates=False):
        judged = bench_report.judge(bench_report.summarise(what), only_gates)
        return {goal[0]: verdict for goal, _value, verdict in judged}, bench_report.exit_code(judged)

    def test_ratios_are_those_of_pairs(self):
        result = bench_report.summarise(found())
        self.assertEqual((result["rate_ratio"], result["cpu_ratio"], result["naive_ratio"]),
                         (0.5, 0.5, 4.5))

    def test_all_reached_is_zero(self):
        words, code = self.verdicts(found())
        self.assertEqual((set(words.values()), code), ({"reached"}, 0))

    def test_between_least_and_aim_is_short_of_it(self):
        words, code = self.verdicts(found(pipeline=2000))
        self.assertEqual((words["rate_ratio"], code), ("short of it", 1))

    def test_below_the_least_is_missed(self):
        words, code = self.verdicts(found(pipeline=500))
        self.assertEqual((words["rate_ratio"], code), ("MISSED", 1))

    def test_the_clock_is_not_judged_when_others_work(self):
        words, code = self.verdicts(found(pipeline=500, foreign=0.2))
        self.assertEqual((words["rate_ratio"], words["wal_bytes"], code),
                         ("not judged", "reached", 4))

    def test_a_gate_counts_on_a_busy_machine_too(self):
        what = found(foreign=0.2)
        what["windows"]["hot"]["payment_attempt"]["hot"] = 40
        words, code = self.verdicts(what)
        self.assertEqual((words["hot_attempt"], code), ("MISSED", 1))

    def test_the_short_form_judges_no_clock(self):
        words, code = self.verdicts(found(pipeline=1), only_gates=True)
        self.assertEqual(set(words), {"rss_mib_max", "wal_bytes", "flushes", "hot_payment",
                                      "hot_attempt"})
        self.assertEqual(code, 0)

    def test_nothing_measured_is_nothing_judged(self):
        self.assertEqual(self.verdicts({}), ({}, 0))


class Output(unittest.TestCase):
    def test_the_plot_is_well_formed_with_and_without_data(self):
        levels = [window(n, 10, level=name, p50_ms=n) for n, name in ((50, "idle"), (900, "50 %"))]
        full = {**found(), "latency": {"levels": levels},
                "growth": {"few": [window(1, 1)], "many": [window(1, 1)], "stored": 60000,
                           "curve": [window(1, 1, stored=n) for n in (20000, 60000)]}}
        for what in ({}, full):
            xml.dom.minidom.parseString(bench_plot.draw(what))

    def test_the_report_names_value_and_verdict(self):
        result = bench_report.summarise(found())
        text = "\n".join(bench_report.text(found(), result, bench_report.judge(result, False)))
        self.assertRegex(text, r"rate, pipeline / ceiling +0\.5 +>= 0\.5 +reached")
        self.assertIn("books agree", text)


if __name__ == "__main__":
    unittest.main()
