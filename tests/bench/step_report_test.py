# SPDX-License-Identifier: Apache-2.0
"""The statistics and tables of bench/step_table."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import step_report
from step_report import BEGIN, END, Cell, Refusal, Result


def cell_of(**seconds: list[float]) -> Cell:
    results = [Result(name.replace("_", "-"), f"run {name}", times)
               for name, times in seconds.items()]
    return Cell("free", "links without limits", results)


class Order(unittest.TestCase):
    def test_every_round_has_everybody_and_begins_with_another(self):
        rounds = [step_report.order(["a", "b", "c"], number) for number in range(4)]
        self.assertEqual(rounds, [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"],
                                  ["a", "b", "c"]])


class Table(unittest.TestCase):
    def test_a_row_has_median_spread_and_ratios(self):
        cell = cell_of(none=[0.25, 0.2, 0.3], node=[0.5, 0.5, 0.4], ddp=[2, 1, 3],
                       ddp_buckets=[1.25, 1, 1.5], daso=[0.9, 0.5, 0.6])
        cell.find("daso").wait_seconds = [0.01, 0.03, 0.02]
        cell.find("daso").bytes_between_nodes = 650_000.0
        table = {row[0]: row[1:] for row in step_report.rows(cell)}
        # Against 0.25, 0.5, and the faster of the two peers, 1.25.
        self.assertEqual(table["daso"], ["0.6000", "0.5000 … 0.9000", "2.400", "1.200", "0.480",
                                         "0.020", "0.650"])
        self.assertEqual(table["ddp"], ["2.0000", "1.0000 … 3.0000", "8.000", "4.000", "1.600",
                                        "–", "–"])

    def test_the_median_of_an_even_number_lies_between(self):
        self.assertEqual(cell_of(none=[1, 4, 2, 3]).find("none").median, 2.5)

    def test_what_was_not_measured_has_no_ratio(self):
        cell = cell_of(daso=[0.5], ddp_bf16=[1.0])  # bf16 is not what the ratio is against
        self.assertEqual(step_report.rows(cell)[1][3:6], ["–", "–", "–"])

    def test_plain_columns_stand_under_their_titles(self):
        title, *lines = step_report.plain_table(cell_of(none=[0.25], sync=[10.5])).splitlines()
        self.assertEqual(title, "free: links without limits")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_markdown_has_set_up_tables_and_commands(self):
        cells = [cell_of(none=[0.25]), Cell("slow", "links of 100mbit", [
            Result("none", "daso bench step --cluster NAME", [0.5])])]
        text = step_report.markdown(cells, {"machine": "2 cores"})
        self.assertIn("- **machine**: 2 cores\n", text)
        self.assertIn("### Links without limits\n\n| candidate |", text)
        self.assertIn("\n| none | 0.2500 | 0.2500 … 0.2500 | 1.000 | – | – | – | – |\n", text)
        self.assertIn("\n    daso bench step --cluster NAME  # none", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(widths, {9})


class Page(unittest.TestCase):
    def test_only_what_is_between_the_markers_changes(self):
        page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
        once = step_report.insert(page, "new")
        self.assertEqual(once, f"before\n{BEGIN}\nnew\n{END}\nafter\n")
        self.assertEqual(step_report.insert(once, "new"), once)

    def test_a_page_without_the_markers_is_refused(self):
        for page in ("", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}"):
            with self.assertRaises(Refusal):
                step_report.insert(page, "new")

    def test_the_page_has_the_markers(self):
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        step_report.insert((root / "docs" / "benchmarks.md").read_text(), "new")


if __name__ == "__main__":
    unittest.main()
