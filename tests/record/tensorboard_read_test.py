# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own code reads what tensorboard_test wrote.

Run as: tensorboard_read_test.py TENSORBOARD_TEST, by a Python that has the package tensorboard. Without it the exit code is 77.
"""
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util
except ImportError as error:
    print(f"skipped: {sys.executable} has no tensorboard ({error}); to run this: {sys.executable} -m pip install tensorboard")
    sys.exit(77)

PROGRAM = sys.argv.pop(1)
ALL = {"scalars": 0, "histograms": 0, "tensors": 0}  # 0: do not thin out


class Read(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([PROGRAM, "--gtest_filter=TensorBoard.ResumedRunWritesASecondFile"],
                       env={**os.environ, "DASO_TENSORBOARD_FOLDER": folder.name}, check=True, timeout=60, stdout=subprocess.DEVNULL)
        cls.files = sorted(pathlib.Path(folder.name).iterdir())
        cls.read = EventAccumulator(folder.name, size_guidance=ALL)
        cls.read.Reload()

    def scalars(self, tag):
        return [(value.step, value.value) for value in self.read.Scalars(tag)]

    def test_all_tags(self):
        tags = self.read.Tags()
        self.assertEqual(sorted(tags["scalars"]), ["killed/loss", "loss", "not a number", "step/beyond 32 bits ü"])
        self.assertEqual(tags["histograms"], ["weights"])

    def test_scalars(self):
        values = self.scalars("loss")
        self.assertEqual([step for step, _ in values], list(range(0, 2000, 10)))
        for step, value in values:
            self.assertAlmostEqual(value, 10 / (10 + step), delta=1e-7 * value)
        self.assertEqual(self.scalars("step/beyond 32 bits ü"), [(2**40, -0.25)])
        (step, value), = self.scalars("not a number")
        self.assertTrue(step == 1 and math.isnan(value))

    def test_times_are_now(self):
        now = self.files[-1].stat().st_mtime
        for value in self.read.Scalars("loss"):
            self.assertLess(abs(value.wall_time - now), 60)

    def test_resumed_steps_replace_those_that_were_lost(self):
        self.assertEqual(self.scalars("killed/loss"), [(step, 100 if step < 6 else 1) for step in range(10)])

    def test_histogram(self):
        wide, same, extreme = self.read.Histograms("weights")
        self.assertEqual([wide.step, same.step, extreme.step], [7, 8, 9])
        h = wide.histogram_value
        self.assertEqual((h.num, h.min, h.max), (1001, -5, 5))
        self.assertAlmostEqual(h.sum, 0, delta=1e-4)
        self.assertAlmostEqual(h.sum_squares, 2 * 500 * 501 * 1001 / 6 / 1e4, delta=1e-3)  # of i/100, i to 500
        h = same.histogram_value
        self.assertEqual((h.num, h.min, h.max, h.sum, h.sum_squares), (3, -2.5, -2.5, -7.5, 18.75))
        self.assertEqual(list(h.bucket), [3])
        h = extreme.histogram_value
        self.assertEqual((h.num, h.sum, list(h.bucket)), (3, 0, [1, 0, 1, 0, 1]))
        self.assertEqual((h.bucket_limit[1], h.bucket_limit[2]), (0, 1e-12))  # a value at a limit is above it

    def test_buckets_hold_the_values_between_their_limits(self):
        values = [i / 100 - 5 for i in range(1001)]
        h = self.read.Histograms("weights")[0].histogram_value
        self.assertEqual(sum(h.bucket), 1001)
        self.assertGreater(len(h.bucket), 60)
        lower = -math.inf
        for limit, count in zip(h.bucket_limit, h.bucket, strict=True):
            self.assertLess(lower, limit)
            # Half of the distance between values is far above the error of a float.
            least = sum(lower + 1e-6 <= value < limit - 1e-6 for value in values)
            most = sum(lower - 1e-6 <= value < limit + 1e-6 for value in values)
            self.assertTrue(least <= count <= most, f"{count} below {limit}")
            lower = limit
        self.assertLess(5, lower)

    def test_as_the_web_page_gets_it(self):
        """It turns older forms of values, as ours, into tensors: left end, right end, number."""
        events = list(EventFileLoader(str(self.files[-1])).Load())
        self.assertEqual(events[0].file_version, "brain.Event:2")
        values = [value for event in events for value in event.summary.value]
        wide, same, _ = [tensor_util.make_ndarray(v.tensor) for v in values if v.tag == "weights"]
        self.assertEqual((wide[0, 0], wide[-1, 1], wide[:, 2].sum()), (-5, 5, 1001))
        self.assertTrue((wide[:, 0] < wide[:, 1]).all())
        self.assertTrue((wide[1:, 0] == wide[:-1, 1]).all())
        self.assertEqual(same[:, 2].sum(), 3)
        plugins = {v.tag: v.metadata.plugin_data.plugin_name for v in values if v.metadata.plugin_data.plugin_name}
        self.assertEqual((plugins["loss"], plugins["weights"]), ("scalars", "histograms"))


if __name__ == "__main__":
    unittest.main()
