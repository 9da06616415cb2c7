# SPDX-License-Identifier: Apache-2.0
"""A bit of a parameter is flipped in the memory of one rank of `daso train --on-failure continue`.

Run as: flipped_bit_test.py DASO
"""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import unittest

from surviving_run import DASO, LIMIT, SurvivingRun, await_that, processes_of, rank_of

FAILED = 1
# Steps that change no parameter, so that it is known what they are.
STILL = ("--lr", "1e-30", "--weight-decay", "0", "--seed", "1")
BYTES = 64
# An epoch without end: the agreement at the end of one averages what is wrong between two exchanges
# away, and nobody would notice.
DATA = "synthetic:train=10000000,test=16,size=8,channels=1"
STRATEGIES = {"sync": ("--strategy", "sync"),
              "daso": ("--strategy", "daso", "--warmup-epochs", "0", "--schedule", "fixed", "--skip", "4")}


def regions(pid: int):
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end, rights = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
        if rights.startswith("rw"):
            yield int(begin, 16), int(end, 16)


def flip(pid: int, values: bytes) -> int:
    """Flips a bit wherever these values are. How often that was."""
    found = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for begin, end in regions(pid):
            try:
                memory.seek(begin)
                text = memory.read(end - begin)
            except (OSError, ValueError):
                continue  # of a device, or gone by now
            place = text.find(values)
            while place >= 0:
                memory.seek(begin + place)
                memory.write(bytes([values[0] ^ 1]))
                found += 1
                place = text.find(values, place + 1)
    return found


class FlippedBit(SurvivingRun):
    def parameters(self) -> bytes:
        """Some of those that every run of these flags has."""
        out, weights = self.folder / "still", self.folder / "weights"
        for command in (["train", "--data", DATA, "--model", "mlp", "--max-steps", "1", "--out", out,
                         *STILL],
                        ["export", out, "--format", "safetensors", "--to", weights]):
            subprocess.run([DASO, *command], check=True, capture_output=True, timeout=LIMIT)
        data = weights.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        tensors = json.loads(data[8:8 + length])
        tensors.pop("__metadata__", None)
        begin, end = max((one["data_offsets"] for one in tensors.values()), key=lambda at: at[1] - at[0])
        place = 8 + length + (begin + end) // 2 // 4 * 4
        return data[place:place + BYTES]

    def flip_on(self, rank: int) -> None:
        values = self.parameters()
        metrics = self.out / "metrics.jsonl"
        await_that(lambda: metrics.exists() and metrics.stat().st_size > 0, "a number of steps")
        pids = [pid for pid in processes_of(self.out) if rank_of(pid) == rank]
        self.assertEqual(1, len(pids), self.text())
        os.kill(pids[0], signal.SIGSTOP)
        try:
            self.assertGreater(flip(pids[0], values), 0)
        finally:
            os.kill(pids[0], signal.SIGCONT)

    def test_its_node_comes_back_with_what_the_others_have(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                run = self.start(*STRATEGIES[strategy], *STILL, nodes=4, data=DATA)
                self.flip_on(1)
                try:
                    await_that(lambda: "4 of 4 nodes (node 1 joined)" in self.text(), "its return")
                except AssertionError as late:
                    raise AssertionError(f"{late}: {self.text()}") from None
                self.assertIsNone(run.poll(), self.text())
                lost = [line for line in self.text().splitlines() if "is lost" in line]
                self.assertEqual(1, len(lost), self.text())
                self.assertRegex(lost[0], r"rank 1 .* on node node1 differs from the others\); node1 is lost")
                self.doCleanups()
                self.setUp()

    def test_of_two_nobody_knows_which_one_is_right(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                run = self.start(*STRATEGIES[strategy], *STILL, data=DATA)
                self.flip_on(1)
                self.assertEqual(FAILED, self.end_of(run), self.text())
                self.assertRegex(self.text(), r"on node node1 differs from that on node node0")
                self.assertNotIn("the others go on", self.text())
                self.doCleanups()
                self.setUp()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
