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

    def read_by_us(self, content, **options):
        """What our reader of torch.save's files finds, told in safetensors."""
        torch.save(content, self.folder / "theirs.pt", **options)
        return read(self.made(self.folder / "theirs.pt", "ours.safetensors"))[0]

    def refused(self, path):
        target = self.folder / "never.safetensors"
        result = self.probe(path, target)
        self.assertEqual(2, result.returncode, result.stderr)
        self.assertFalse(target.exists())
        self.assertIn(str(path), result.stderr)
        return result.stderr

    def test_reads_what_torch_saves(self):
        wanted = expected()
        del wanted["expanded"]  # shows one element six times
        self.assert_same(self.read_by_us(wanted), wanted)
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        self.assert_same(self.read_by_us(module.state_dict()), module.state_dict())
        parameters = dict(module.named_parameters())  # torch.nn.Parameter
        self.assert_same(self.read_by_us(parameters), parameters)
        self.assertEqual({}, self.read_by_us({}))

    def test_reads_its_own(self):
        wanted = expected()
        tensors, _ = read(self.made(self.made("example", "own.pt"), "again.safetensors"))
        self.assert_same(tensors, wanted)

    def test_reads_views_of_one_storage(self):
        whole = torch.arange(12.0)
        views = {"first": whole[:6].view(2, 3), "turned": whole.view(3, 4).t(), "again": whole}
        self.assert_same(self.read_by_us(views), views)

    def test_executes_nothing(self):
        mark = self.folder / "executed"

        class Evil:
            def __reduce__(self):
                return pathlib.Path.touch, (mark,)

        class Shell:
            def __reduce__(self):
                import os
                return os.system, (f"touch {mark}",)

        for evil, name in ((Evil(), "touch"), (Shell(), "system")):
            path = self.folder / "evil.pt"
            torch.save({"weight": evil}, path)
            message = self.refused(path)
            self.assertFalse(mark.exists())
            self.assertIn("nothing is executed", message)
        self.assertIn("system", message)

    def test_refuses_what_is_no_state_dict(self):
        for content, reason in (
                ({"epoch": 3, "weight": torch.ones(2)}, "'epoch', which is no tensor"),
                ({"groups": [1, 2]}, "EMPTY_LIST"), ({"rate": 0.5}, "BINFLOAT"),
                (torch.ones(2), "no dict"), ({"module": torch.nn.Linear(2, 2)}, "asks for"),
                ({"z": torch.ones(2, dtype=torch.complex64)}, "ComplexFloatStorage"),
                ({"e": torch.ones(1).expand(1000)}, "twice"), ({3: torch.ones(2)}, "no text")):
            path = self.folder / "other.pt"
            torch.save(content, path)
            message = self.refused(path)
            self.assertIn(reason.replace("'", '"'), message)
            self.assertIn("state_dict", message)

    def test_refuses_other_formats_of_torch(self):
        path = self.folder / "old.pt"
        torch.save({"weight": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
        self.assertIn("before 1.6", self.refused(path))
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
        self.assertIn("TorchScript", self.refused(path))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/text", "no pickle")
        self.assertIn("data.pkl", self.refused(path))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/data.pkl", b"\x80\x02}." * 20)
        self.assertIn("compressed", self.refused(path))

    def test_refuses_what_is_truncated_or_damaged(self):
        """Every byte of a small file in turn: a reader that trusts any would read elsewhere."""
        whole = self.folder / "whole.pt"
        torch.save({"weight": torch.arange(4.0), "bias": torch.ones(2)}, whole)
        content = whole.read_bytes()
        path = self.folder / "broken.pt"
        for length in range(4, len(content), 97):
            path.write_bytes(content[:length])
            self.refused(path)
        with zipfile.ZipFile(whole) as archive:
            begin = content.index(archive.read("whole/data.pkl"))
            pickle = archive.read("whole/data.pkl")
        for place in range(0, len(pickle), 5):
            changed = bytearray(pickle)
            changed[place] ^= 0x41
            with zipfile.ZipFile(path, "w") as archive:  # with a checksum that fits
                archive.writestr("whole/data.pkl", bytes(changed))
                for name in ("0", "1"):
                    archive.writestr(f"whole/data/{name}", bytes(16 if name == "0" else 8))
            self.assertIn(self.probe(path, self.folder / "x.safetensors").returncode, (0, 2))
        changed = bytearray(content)
        changed[begin] ^= 1
        path.write_bytes(changed)
        self.assertIn("checksum", self.refused(path))

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
