# SPDX-License-Identifier: Apache-2.0
"""What is said where GPUs cannot be used, with a driver that answers as we tell it: no machine has
all of these troubles.

Run as: driver_test.py DASO DEVICE_PROBE FOLDER_OF_THE_STAND_IN MODULE (the file, which need not be there)
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

DASO, PROBE, STAND_IN, MODULE = sys.argv[1:]
LIMIT = 60  # seconds
BUILT = pathlib.Path(MODULE).exists()
NO_MODULE = ("the CUDA module, by which GPUs are used, is not in this build: its library was not there when daso was "
             f"built (no {MODULE}); ./daso build --cuda builds it")


def run(words: list[str], **variables) -> subprocess.CompletedProcess:
    """With the stand-in for a driver, which the variables tell what to say."""
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    environment |= {"LD_LIBRARY_PATH": STAND_IN} | {name: str(value) for name, value in variables.items()}
    return subprocess.run(words, env=environment, text=True, capture_output=True, timeout=LIMIT)


def doctor(**variables) -> dict:
    done = run([DASO, "doctor", "--json"], **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["gpus"]


class NoUsableGpu(unittest.TestCase):
    def refused(self, sentence: str, **variables):
        """By name it is refused; else the CPU is used, and doctor says the same."""
        asked = run([PROBE, "cuda"], **variables)
        self.assertEqual((2, f"device cuda was asked for, but {sentence}\n"), (asked.returncode, asked.stdout))
        auto = run([PROBE, "auto"], **variables)
        self.assertEqual((0, f"cpu using the CPU: {sentence}\n"), (auto.returncode, auto.stdout))
        gpus = doctor(**variables)
        self.assertEqual((False, sentence), (gpus["usable"], gpus["problem"]))
        self.assertIn(f"no: {sentence}", run([DASO, "doctor"], **variables).stdout)
        return gpus

    def test_a_driver_without_a_gpu(self):
        gpus = self.refused("there is an NVIDIA driver, but no GPU that this process may use",
                            STAND_IN_INIT=100, STAND_IN_CUDA=13000)
        self.assertEqual("13.0", gpus["driver"]["cuda"])
        self.assertEqual([], gpus["devices"])
        self.assertEqual({"there": BUILT}, gpus["module"])

    def test_gpus_that_are_hidden(self):
        self.refused("there is an NVIDIA driver, but no GPU that this process may use "
                     "(CUDA_VISIBLE_DEVICES is '')", STAND_IN_CUDA=13000, CUDA_VISIBLE_DEVICES="")

    def test_a_driver_that_does_not_start(self):
        self.refused("the NVIDIA driver does not start: it says 'a stand-in's error' (error 999)",
                     STAND_IN_INIT=999, STAND_IN_CUDA=13000)

    def test_a_program_without_the_module(self):
        if BUILT:
            self.skipTest("this build has the module")
        self.refused(NO_MODULE, STAND_IN_CUDA=13000, STAND_IN_GPUS="90")

    def test_a_driver_that_is_too_old(self):
        if not BUILT:
            self.skipTest("this build has no CUDA module")
        gpus = doctor(STAND_IN_CUDA=12080, STAND_IN_GPUS="90")
        release = gpus["driver"]["release"]
        cuda = gpus["module"]["CUDA runtime"]
        self.refused(f"the NVIDIA driver{' ' if release else ''}{release} is too old: it knows CUDA 12.8, and daso "
                     f"was built with CUDA {cuda}; install a newer driver", STAND_IN_CUDA=12080, STAND_IN_GPUS="90")

    def test_an_architecture_that_was_not_built(self):
        if not BUILT:
            self.skipTest("this build has no CUDA module")
        gpus = doctor(STAND_IN_CUDA=13000, STAND_IN_GPUS="35")
        self.refused("GPU 0 (Stand-in 0) is of architecture sm_35, for which the CUDA module was not built "
                     f"({gpus['module']['built']}); DASO_CUDA_ARCHITECTURES=35 ./daso build --cuda builds it",
                     STAND_IN_CUDA=13000, STAND_IN_GPUS="35")


class Doctor(unittest.TestCase):
    def test_tells_of_each_gpu(self):
        gpus = doctor(STAND_IN_CUDA=13000, STAND_IN_GPUS="90,120,35")
        self.assertEqual([{"name": f"Stand-in {index}", "compute_capability": capability,
                           "memory_bytes": 8 << 30, "pci": f"0000:{0x1a + index:x}:00",
                           "usable": BUILT and capability != "3.5"}
                          for index, capability in enumerate(("9.0", "12.0", "3.5"))], gpus["devices"])
        self.assertEqual([[0, 1], [1, 2]], gpus["peers"])
        self.assertEqual((BUILT, "" if BUILT else NO_MODULE), (gpus["usable"], gpus["problem"]))
        if BUILT:
            self.assertRegex(gpus["module"]["built"], r"^CUDA \d+\.\d+, sm_\d+")
            self.assertRegex(gpus["module"]["NCCL"], r"^2\.\d+\.\d+$")

    def test_shows_the_same_as_text(self):
        text = run([DASO, "doctor"], STAND_IN_CUDA=13000, STAND_IN_GPUS="90,120").stdout
        self.assertRegex(text, r"GPU 1 +Stand-in 1, compute capability 12.0, 8.0 GiB, PCI 0000:1b:00\n")
        self.assertRegex(text, r"peer access +between all\n")
        self.assertRegex(text, r"driver +.*, for CUDA 13.0\n")
        self.assertRegex(text, r"CUDA module +CUDA \d+\.\d+, sm_\d+" if BUILT else r"CUDA module +not built\n")
        self.assertRegex(text, r"used +yes\n" if BUILT else r"used +no: the CUDA module")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
