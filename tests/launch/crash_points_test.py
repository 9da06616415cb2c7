# SPDX-License-Identifier: Apache-2.0
"""A rank that dies at any moment of an exchange takes nothing from the others: the run goes on, and
its replay without faults ends with the same bytes.

Run as: crash_points_test.py DASO LIBRARY [--all]
"""
import itertools
import os
import shutil
import subprocess
import sys
import unittest

from surviving_run import DASO, LIMIT, SurvivingRun

LIBRARY = sys.argv[2]
ALL = "--all" in sys.argv

# Of exchange K, from its beginning to its merge, as a rank and its launcher talk of it; the numbers
# are those of letters that it sends to other ranks meanwhile.
MOMENTS = ("before start K", "after start K", "told start K", "told start K + 1",
           "told start K + 3", "told start K + 6", "before prepared K", "after prepared K",
           "before outcome K", "after outcome K", "told outcome K")
# Where every step is averaged over all nodes nobody talks of exchanges.
STEPS = tuple(f"told next 0 + {letters}" for letters in (150, 151, 152, 157, 163, 180))
EVERY_4TH = ("--warmup-epochs", "0", "--schedule", "fixed", "--skip", "4")
WAYS = {
    "daso, fp32": ("--strategy", "daso", *EVERY_4TH, "--wait", "2", "--wire", "fp32"),
    "daso, int8": ("--strategy", "daso", *EVERY_4TH, "--wait", "2", "--wire", "int8"),
    "daso, int4": ("--strategy", "daso", *EVERY_4TH, "--wait", "2", "--wire", "int4"),
    "daso, rotating": ("--strategy", "daso", *EVERY_4TH, "--wait", "2", "--exchange", "rotating"),
    "local": ("--strategy", "local", *EVERY_4TH),
    "sync": ("--strategy", "sync"),
}
# The 7th falls into the middle of the first epoch, the 14th is its agreement.
EXCHANGES = (5, 11)


def cases():
    for way in WAYS:
        moments = STEPS if way == "sync" else [
            moment.replace("K", str(exchange)) for exchange in EXCHANGES for moment in MOMENTS]
        yield from itertools.product([way], moments)


class CrashPoints(SurvivingRun):
    def test_the_others_go_on_and_the_replay_is_equal(self):
        for number, (way, moment) in enumerate(cases()):
            if not ALL and number % 7 != 0:  # so that all nodes and all moments have their turn
                continue
            with self.subTest(way=way, moment=moment):
                self.crash(number, WAYS[way], moment)

    def crash(self, number: int, flags: tuple[str, ...], moment: str) -> None:
        for folder in (self.out, self.folder / "again"):
            shutil.rmtree(folder, ignore_errors=True)
        self.said.write_text("")
        mark = self.folder / f"mark{number}"
        # Of every node in turn, the first rank: it talks for the others.
        run = self.start(*flags, nodes=3, ranks=2, epochs=12, batch=8,
                         environment={"LD_PRELOAD": LIBRARY, "CRASH_AT": moment, "CRASH_MARK": str(mark),
                                      "CRASH_RANK": str(number % 3 * 2)})
        self.assertEqual(0, self.end_of(run), self.text())
        self.assertTrue(mark.exists(), f"no rank came to '{moment}'")
        again = subprocess.run([DASO, "train", "--replay", str(self.out), "--out",
                                str(self.folder / "again"), "--timeout", "20"],
                               capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(0, again.returncode, again.stderr + self.text())
        self.assertIn(f"the same bytes as {self.out}", again.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
