# SPDX-License-Identifier: Apache-2.0
"""Files of tensors as Python sees them: torch.load for one kind, and a reader and a writer of
safetensors made of nothing but the format's description for the other.

Run as: python3 tensor_files_test.py PROBE [tests], with a Python that has torch
"""
import json
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

PROBE = ""
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}


def read(path):
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0, "the values are not aligned"
    header = json.loads(raw[8 : 8 + length])
    values = bytearray(raw[8 + length :])
    metadata = header.pop("__metadata__", {})
    tensors, used = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == used, f"{name} does not begin where the one before it ends"
        kind, used = TYPES[entry["dtype"]], end
        part = torch.frombuffer(values, dtype=torch.uint8)[begin:end] if end > begin else \
            torch.empty(0, dtype=torch.uint8)
        tensors[name] = part.clone().view(kind).reshape(entry["shape"])
    assert used == len(values), "bytes that belong to no tensor"
    return tensors, metadata


def write(path, tensors, metadata):
    header, values = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        part = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        kind = next(key for key, value in TYPES.items() if value == tensor.dtype)
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [len(values), len(values) + len(part)]}
        values += part
    text = json.dumps(header, indent=1).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + values)


def expected():
    """The same as tensors() of tensor_files_probe.cpp."""
    numbers = (torch.arange(24, dtype=torch.float32) - 7) / 3
    whole = torch.arange(-3, 5)
    return {
        "float": numbers.view(2, 3, 4),
        "double": (numbers.double() * 3).square(),
        "half": numbers.half(),
        "bfloat16": numbers.bfloat16().view(4, 6),
        "int64": whole * 2**40,
        "int32": whole.int() * 2**20,
        "int16": whole.short() * 2**10,
        "int8": whole.to(torch.int8),
        "uint8": torch.arange(250, 256).to(torch.uint8),
        "bool": torch.arange(6) % 2 == 1,
        "scalar": torch.tensor(0.125),
        "empty": torch.empty(0, 3),
        "transposed": numbers.view(4, 6).t(),
        "every second": numbers[1::2],
        "channels_last": numbers.view(1, 2, 3, 4),
        "expanded": torch.ones(3, 2),
        "layer.0.weight ü": numbers[:2],
    }


class TensorFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def probe(self, source, target, **options):
        return subprocess.run([PROBE, source, target], stderr=subprocess.PIPE, text=True,
                              timeout=60, **options)

    def made(self, source, name):
        path = self.folder / name
        result = self.probe(source, path)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertEqual([], list(self.folder.glob("*.part")))
        return path

    def assert_same(self, tensors, wanted):
        self.assertEqual(sorted(tensors), sorted(wanted))
        for name, tensor in wanted.items():
            self.assertEqual(tensors[name].dtype, tensor.dtype, name)
            self.assertEqual(tensors[name].shape, tensor.shape, name)
            self.assertTrue(torch.equal(tensors[name], tensor), name)

    def test_torch_loads_without_trust(self):
        tensors = torch.load(self.made("example", "model.pt"), weights_only=True)
        self.assertIs(type(tensors), dict)
        self.assert_same(tensors, expected())
        for name, tensor in tensors.items():
            self.assertTrue(tensor.is_contiguous(), name)
            self.assertFalse(tensor.requires_grad, name)
            self.assertEqual(tensor.untyped_storage().nbytes(), tensor.nbytes, name)

    def test_torch_loads_by_mapping(self):
        path = self.made("example", "model.pt")
        self.assert_same(torch.load(path, weights_only=True, mmap=True), expected())

    def test_torch_loads_nothing(self):
        self.assertEqual({}, torch.load(self.made("empty", "model.pt"), weights_only=True))

    def test_archive_is_whole(self):
        with zipfile.ZipFile(self.made("example", "model.pt")) as archive:
            self.assertIsNone(archive.testzip())

    def test_another_reader_of_safetensors(self):
        tensors, metadata = read(self.made("example", "model.safetensors"))
        self.assertEqual({"made": "here"}, metadata)
        self.assert_same(tensors, expected())

    def test_another_writer_of_safetensors(self):
        source = self.folder / "theirs.safetensors"
        write(source, expected(), {"format": "pt"})
        tensors, metadata = read(self.made(source, "ours.safetensors"))
        self.assertEqual({"format": "pt"}, metadata)
        self.assert_same(tensors, expected())
        self.assert_same(torch.load(self.made(source, "ours.pt"), weights_only=True), expected())

    def test_same_tensors_make_the_same_file(self):
        for kind in ("pt", "safetensors"):
            paths = [self.made("example", f"{name}.{kind}") for name in "ab"]
            self.assertEqual(paths[0].read_bytes(), paths[1].read_bytes(), kind)

    def test_full_disk_is_an_error_and_keeps_the_previous_file(self):
        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        for kind in ("pt", "safetensors"):
            path = self.made("empty", f"model.{kind}")
            before = path.read_bytes()
            # Python's children ignore SIGXFSZ only if they are told to keep it so.
            result = self.probe("example", path, preexec_fn=little_room, restore_signals=False)
            self.assertEqual(1, result.returncode, result.stderr)
            self.assertIn(f"{path}: cannot be written: File too large", result.stderr)
            self.assertEqual(before, path.read_bytes())
            self.assertEqual([], list(self.folder.glob("*.part")))


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main()
