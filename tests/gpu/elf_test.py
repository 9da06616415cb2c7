# SPDX-License-Identifier: Apache-2.0
"""The program for CPUs neither links CUDA nor loads it. (LibTorch's CPU library itself needs
libcudart and libcupti; that is PyTorch's own.)

Run as: elf_test.py DASO LIBDASO
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

DASO, LIBRARY = sys.argv[1:]
LINKED = re.compile(r"lib(cuda|cudart|torch_cuda|c10_cuda|nccl|cudnn|daso_cuda)\b")
LOADED = re.compile(r"lib(cuda|torch_cuda|c10_cuda|nccl|cudnn|daso_cuda)\b")
LIMIT = 120  # seconds


def needed(file: str) -> list[str]:
    shown = subprocess.run(["readelf", "-d", file], text=True, capture_output=True, check=True,
                           env=os.environ | {"LC_ALL": "C"}).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", shown)


def loaded(words: list[str]) -> set[str]:
    """The names of all files that the loader mapped into the command's processes."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, cwd=folder, env=os.environ | {
            "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": f"{folder}/loader"})
        assert done.returncode == 0, done.stderr
        text = "".join(path.read_text() for path in pathlib.Path(folder).glob("loader.*"))
    return set(re.findall(r"file=(\S+) \[0\];  generating link map", text))


class Linked(unittest.TestCase):
    def test_program_and_library_link_nothing_of_cuda(self):
        for file in (DASO, LIBRARY):
            names = needed(file)
            self.assertIn("libtorch_cpu.so", names)
            self.assertEqual([], [name for name in names if LINKED.search(name)], file)


class Loaded(unittest.TestCase):
    def test_training_on_the_cpu_loads_nothing_of_cuda(self):
        names = loaded([DASO, "train", "--device", "cpu", "--nodes", "2", "--ranks-per-node", "1", "--max-steps", "8"])
        self.assertTrue(any("libtorch_cpu.so" in name for name in names))
        self.assertEqual([], sorted(name for name in names if LOADED.search(name)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
