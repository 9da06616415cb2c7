# SPDX-License-Identifier: Apache-2.0
"""The statistics, tables and plots of bench/compare_peers."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "peers")]

from compare import accuracy, page, plots, results, runs, scaling, tables
from compare.cells import CELLS
from compare.results import CellResults, Result
from compare.runs import Refusal
from pace import draw, uniform



def cell_of(**seconds: list[float]) -> CellResults:
    return CellResults([Result(name.replace("_", "-"), f"run {name}", times)
                        for name, times in seconds.items()])


def trainings(*curves: list[list[float]], sent: float | None = None) -> list[dict]:
    return [{"seed": i + 1, "curve": curve, "steps": 10, "seconds": curve[-1][0],
             "test_accuracy": curve[-1][1], "bytes_between_nodes": sent}
            for i, curve in enumerate(curves)]


TRAINED = {"target": 0.9, "rate": "8mbit", "delay": "1ms", "commands": {"sync": "daso train"},
           "alone": trainings([[5.0, 0.5]])[0],
           "runs": {"sync": trainings([[1, 0.8], [2, 0.95]], [[1, 0.85], [2, 0.93]], sent=4e7),
                    "ddp": trainings([[2, 0.8], [4, 0.94]], [[2, 0.8], [6, 0.92]]),
                    "daso": trainings([[1, 0.9], [1.5, 0.96]], [[1, 0.8], [1.5, 0.94]]),
                    "local": trainings([[1, 0.1], [2, 0.2]], [[1, 0.8], [2, 0.9]])}}
MADE = {"machine": "2 cores", "date": "2026-01-01", "version": "daso 0"}


class Runs(unittest.TestCase):
    def test_one_that_begins_as_we_are_told_to_end_is_ended(self):
        begun = []

        class Told(subprocess.Popen):
            def __init__(self, *words, **options):
                super().__init__(*words, **options)
                begun.append(self.pid)
                os.kill(os.getpid(), signal.SIGTERM)

        for number in runs.TOLD_BY:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        runs.listen()
        with unittest.mock.patch("subprocess.Popen", Told), self.assertRaises(KeyboardInterrupt):
            runs.run(["sleep", "1000"], limit=60)
        self.assertFalse(pathlib.Path(f"/proc/{begun[0]}").exists())


class Order(unittest.TestCase):
    def test_every_round_has_everybody_and_begins_with_another(self):
        rounds = [results.order(["a", "b", "c"], number) for number in range(4)]
        self.assertEqual(rounds, [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"],
                                  ["a", "b", "c"]])


class Cells(unittest.TestCase):
    def test_the_base_and_twelve_that_differ_in_one_factor(self):
        self.assertEqual(len(CELLS), 13)
        factors = ("nodes", "ranks_per_node", "rate", "delay", "parameters", "noise",
                   "stall_chance")
        base = CELLS["base"]
        for cell in CELLS.values():
            differing = [name for name in factors if getattr(cell, name) != getattr(base, name)]
            self.assertEqual(len(differing), 0 if cell is base else 1, cell.name)


class CellTable(unittest.TestCase):
    def test_a_row_has_median_spread_and_ratios(self):
        cell = cell_of(none=[0.25, 0.2, 0.3], node=[0.5, 0.5, 0.4], ddp=[2, 1, 3],
                       ddp_1mb=[1.25, 1, 1.5], heat=[2], heat_ring=[1], daso=[0.9, 0.5, 0.6])
        cell.find("daso").wait_seconds = [0.01, 0.03, 0.02]
        cell.find("daso").cpu_seconds = [0.004, 0.002, 0.003]
        cell.find("daso").bytes_between_nodes = 650_000.0
        table = {row[0]: row[1:] for row in tables.cell(cell)}
        # Against 0.25, 0.5, the faster of the two DDPs, 1.25, and the faster of the two heats, 1.
        self.assertEqual(table["daso"], ["0.6000", "0.5000 … 0.9000", "2.400", "1.200", "0.480",
                                         "0.600", "0.020", "3.0", "0.650"])
        self.assertEqual(table["ddp"], ["2.0000", "1.0000 … 3.0000", "8.000", "4.000", "1.600",
                                        "2.000", "–", "–", "–"])

    def test_the_median_of_an_even_number_lies_between(self):
        self.assertEqual(cell_of(none=[1, 4, 2, 3]).find("none").median, 2.5)

    def test_what_was_not_measured_has_no_ratio(self):
        cell = cell_of(daso=[0.5], ddp_bf16=[1.0])  # bf16 is not what the ratio is against
        self.assertEqual(tables.cell(cell)[1][3:7], ["–", "–", "–", "–"])

    def test_an_overview_has_a_row_for_each_cell(self):
        head, row = tables.cells({"base": cell_of(none=[1], node=[2], daso=[3], sync=[8], ddp=[10],
                                                  ddp_bf16=[5])})
        self.assertEqual(row, ["base", "1.0000", "2.0000", "3.0000", "–", "8.0000", "10.0000",
                               "5.0000", "1.500", "0.300", "0.800"])
        self.assertEqual(len(head), len(row))

    def test_plain_columns_stand_under_their_titles(self):
        lines = tables.plain(tables.cell(cell_of(none=[0.25], sync=[10.5]))).splitlines()
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})


class Training(unittest.TestCase):
    def test_seconds_to_a_target_are_those_of_the_first_epoch_there(self):
        curve = [[1.0, 0.5], [2.0, 0.9], [3.0, 0.8], [4.0, 0.95]]
        self.assertEqual(accuracy.seconds_to(curve, 0.9), 2.0)
        self.assertIsNone(accuracy.seconds_to(curve, 0.96))

    def test_mean_and_standard_error(self):
        mean, error = accuracy.mean_and_error([1, 2, 3, 4])
        self.assertEqual(mean, 2.5)
        self.assertAlmostEqual(error, (5 / 3) ** 0.5 / 2)  # variance 5/3, of 4 values
        self.assertEqual(accuracy.mean_and_error([3]), (3, None))

    def test_the_table_is_paired_by_seed(self):
        table = {row[0]: row[1:] for row in tables.training(TRAINED)}
        # daso gets there after 1 and 1.5 s, DDP after 4 and 6.
        self.assertEqual(table["daso"], ["1.2 ± 0.2", "0.250", "1.5 ± 0.0", "0.300", "–",
                                         "95.00 ± 1.00", "1.00 ± 0.00"])
        self.assertEqual(table["local"][:2], ["2.0 (1 never)", "–"])
        self.assertEqual(table["sync"][4], "40.0")

    def test_traffic_against_compute(self):
        # 40 MB in 10 steps of 4 nodes are 1 MB, which takes 1 s at 8 Mbit/s; a step takes 0.5 s.
        link, compute = accuracy.traffic_to_compute(TRAINED)
        self.assertAlmostEqual(link, 1.0)
        self.assertAlmostEqual(compute, 0.5)


class Cost(unittest.TestCase):
    def test_the_bound_is_there_and_back_of_all_that_others_own(self):
        # Half of 256 elements goes to the other node, and the own half comes back to it.
        self.assertEqual(scaling.bound(2, 256), 260)
        self.assertEqual(scaling.bound(4, 512), 2 * 0.75 * 520)

    def test_a_row_of_the_table(self):
        found = {"points": [{"nodes": 2, "parameters": 256_000, "exchange_bytes": 286_000.0,
                             "exchange_cpu": [0.001, 0.003, 0.002]}]}
        self.assertEqual(tables.cost(found)[1], ["2", "256000", "0.286", "0.260", "1.1000", "2.0",
                                                 "7.81"])


class Draws(unittest.TestCase):
    def test_the_peers_draw_by_splitmix64_as_bench_step_does(self):
        # The first outputs of splitmix64 from seed 0, as its authors' own program gives them.
        for counter, output in enumerate((0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4,
                                          0x06c45d188009454f)):
            self.assertEqual(uniform(counter), (output >> 11) / 2**53)

    def test_seed_node_and_step_make_the_counter(self):
        self.assertEqual(draw(2, 3, 5, 1), uniform(((2 * 1_000_003 + 3) * 1_000_003 + 5) * 2 + 1))


class Plots(unittest.TestCase):
    def test_all_are_well_formed_and_show_everybody(self):
        drawn = [plots.bars([("none", 0.25), ("ddp", 1.5)], "a < b"),
                 plots.dots({"base": cell_of(node=[0.25], daso=[0.3], ddp=[2])}),
                 plots.curves(TRAINED)]
        for text, names in zip(drawn, (["none", "ddp", "a < b"], ["base"], ["sync", "daso"])):
            shown = "".join(xml.etree.ElementTree.fromstring(text).itertext())
            for name in names:
                self.assertIn(name, shown)

    def test_ticks_are_round_and_few(self):
        self.assertEqual(plots.ticks(1.76), [0, 0.5, 1.0, 1.5])
        self.assertEqual(plots.ticks(100), [0, 20, 40, 60, 80, 100])


class Page(unittest.TestCase):
    def test_only_what_is_between_the_markers_changes(self):
        begin, end = page.markers("base")
        text = f"before\n{begin}\nold\n{end}\nafter\n"
        once = page.insert(text, "base", "new")
        self.assertEqual(once, f"before\n{begin}\nnew\n{end}\nafter\n")
        self.assertEqual(page.insert(once, "base", "new"), once)

    def test_a_page_without_the_markers_is_refused(self):
        begin, end = page.markers("base")
        for text in ("", begin, f"{end}\n{begin}", f"{begin}{end}{begin}"):
            with self.assertRaises(Refusal):
                page.insert(text, "base", "new")

    def test_what_is_kept_goes_into_the_page(self):
        found = {"base": {"made": MADE, "cell": {"name": "base", "differs": ""},
                          "results": [{"candidate": "none", "command": "daso bench step",
                                       "seconds": [0.25, 0.25]}]},
                 "accuracy": {"made": MADE, **TRAINED},
                 "scaling": {"made": MADE, "command": "daso bench step", "points": []}}
        with tempfile.TemporaryDirectory() as scratch:
            docs = pathlib.Path(scratch)
            (docs / "images").mkdir()
            (docs / "benchmarks.md").write_text((ROOT / "docs" / "benchmarks.md").read_text())
            page.write(found, docs)
            text = (docs / "benchmarks.md").read_text()
            self.assertIn("\n| none | 0.2500 | 0.2500 … 0.2500 | 1.000 |", text)
            self.assertIn("medians of 2 rounds.", text)
            self.assertIn("\n    daso bench step  # none\n", text)
            self.assertIn("a ratio of 2.0", text)
            self.assertIn("![](images/benchmark-accuracy.svg)", text)
            self.assertTrue((docs / "images" / "benchmark-base.svg").exists())

    def test_the_page_is_what_the_results_say(self):
        found = results.load(ROOT / "docs" / "benchmarks.json")
        with tempfile.TemporaryDirectory() as scratch:
            docs = pathlib.Path(scratch)
            (docs / "images").mkdir()
            before = (ROOT / "docs" / "benchmarks.md").read_text()
            (docs / "benchmarks.md").write_text(before)
            page.write(found, docs)
            self.assertEqual((docs / "benchmarks.md").read_text(), before)


if __name__ == "__main__":
    unittest.main()
