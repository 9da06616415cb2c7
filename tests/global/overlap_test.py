# SPDX-License-Identifier: Apache-2.0
"""An exchange on slow links is hidden behind training, and a blocking mean is not. Needs root.

Run as: overlap_test.py DASO DASO_CLUSTER
"""
import json
import os
import subprocess
import sys
import unittest

DASO, CLUSTER = sys.argv[1:3]
RATE = 20e6 / 8  # bytes a second, each way
SKIP = 4
LIMIT = 120  # seconds, of everything that should take much less


def down(name: str) -> None:
    subprocess.run([CLUSTER, "down", "--name", name], stdout=subprocess.DEVNULL, timeout=LIMIT)


class SlowLinks(unittest.TestCase):
    def setUp(self):
        self.name = f"overlap{os.getpid()}"
        self.addCleanup(down, self.name)
        subprocess.run([CLUSTER, "up", "--name", self.name, "--nodes", "2", "--rate", "20mbit",
                        "--delay", "200us"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)

    def seconds(self, *flags: str) -> tuple:
        """What an exchange blocks a rank, and what its bytes take on the link, at least."""
        done = subprocess.run(
            [DASO, "bench", "step", "--cluster", self.name, "--nodes", "2", "--ranks-per-node", "1",
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


unittest.main(argv=sys.argv[:1])
