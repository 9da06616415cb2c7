# SPDX-License-Identifier: Apache-2.0
"""The flags in examples for Kubernetes and Slurm are those of `daso train`.

Run as: flags_test.py DASO EXAMPLES
"""
import pathlib
import re
import subprocess
import sys
import unittest

DASO, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])


class Flags(unittest.TestCase):
    def setUp(self):
        shown = subprocess.run([DASO, "train", "--help"], text=True, capture_output=True,
                               check=True, timeout=60).stdout
        self.known = set(re.findall(r"--[a-z][a-z-]*", shown))

    def check(self, found: list[str]):
        self.assertGreater(len(found), 1)
        self.assertEqual([], sorted(set(found) - self.known))

    def test_kubernetes(self):
        self.check(re.findall(r"^ *- (--[a-z-]+)", (EXAMPLES / "kubernetes.yaml").read_text(),
                              re.MULTILINE))

    def test_slurm(self):
        command = re.search(r"^srun .* train (.*)$", (EXAMPLES / "slurm.sh").read_text(),
                            re.MULTILINE)
        self.check(re.findall(r"--[a-z-]+", command[1]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
