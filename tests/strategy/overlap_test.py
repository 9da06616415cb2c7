# SPDX-License-Identifier: Apache-2.0
"""An exchange on slow links is hidden behind training, and a blocking mean is not. Needs root.

Run as: overlap_test.py DASO DASO_CLUSTER
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_end

DASO, CLUSTER = sys.argv[1:3]
NAME = f"overlap{os.getpid()}"
RATE = 20e6 / 8  # bytes a second, each way
SKIP = 4
LIMIT = 120  # seconds, of everything that should take much less


def down() -> None:
    subprocess.run([CLUSTER, "down", "--name", NAME], stdout=subprocess.DEVNULL, timeout=LIMIT)


class SlowLinks(unittest.TestCase):
    def setUp(self):
        self.addCleanup(down)
        subprocess.run([CLUSTER, "up", "--name", NAME, "--nodes", "2", "--rate", "20mbit",
                        "--delay", "200us"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)

    def seconds(self, *flags: str) -> tuple:
        """What an exchange blocks a rank, and what its bytes take on the link, at least."""
        done = subprocess.run(
            [DASO, "bench", "step", "--cluster", NAME, "--nodes", "2", "--ranks-per-node", "1",
             "--layers", "4", "--parameters", "400000", "--forward-ms", "100", "--backward-ms", "200",
             "--skip", str(SKIP), "--wait", "2", "--steps", "8", "--warmup-steps", "4", "--json",
             *flags], check=True, text=True, capture_output=True, timeout=LIMIT)
        report = json.loads(done.stdout)
        return report["wait_seconds"] * SKIP, report["bytes_between_nodes"] * SKIP / RATE

    def test_an_exchange_in_the_background_blocks_for_a_fraction_of_its_transfer(self):
        blocked, transfer = self.seconds("--strategy", "daso", "--wire", "int8")
        self.assertGreater(transfer, 0.15)
        self.assertLess(blocked, transfer / 3)

    def test_a_blocking_mean_blocks_for_all_of_it(self):
        blocked, transfer = self.seconds("--strategy", "local")
        self.assertGreater(blocked, 0.9 * transfer)


clean_end.main(down)
