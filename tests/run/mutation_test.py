# SPDX-License-Identifier: Apache-2.0
"""Files of every format that the program reads, damaged at random: each ends with exit code 0, 1 or
2, never by a signal, a hang or another library's message.

Run as: mutation_test.py DASO PYTHON_WITH_TORCH [SECONDS [SEED]]
The seed of a case that fails is printed; with it, and 1 second, that case comes first.
"""
import gzip
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

DASO, PYTHON = sys.argv[1:3]
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 300
FIRST_SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
LIMIT = 60  # s for a command that takes one
ALONE = ["--nodes", "1", "--ranks-per-node", "1", "--batch-size", "2", "--trace", "none"]
FOREIGN = ("terminate called", "basic_string", "std::", "json.exception", "filesystem error",
           "DASO_ASSERT", "bug at", "c10::", "Sanitizer")


def daso(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([DASO, *map(str, arguments)], capture_output=True, timeout=LIMIT)


def made(*arguments) -> None:
    done = daso(*arguments)
    assert done.returncode == 0, done.stderr.decode(errors="replace")


def mutated(content: bytes, draw: random.Random) -> bytes:
    """One to four of: a bit turned, a number replaced, a part cut out, doubled or overwritten."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        if not changed:
            break
        # Headers are where the decisions are.
        place = draw.randrange(min(len(changed), draw.choice((64, 1024, len(changed)))))
        kind = draw.randrange(6)
        if kind == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            number = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, draw.getrandbits(32)))
            changed[place:place + 4] = struct.pack(draw.choice("<>") + "I", number)
        elif kind == 2:
            del changed[place:place + draw.choice((1, 2, 16, 1000))]
        elif kind == 3:
            changed[place:place] = changed[place:place + draw.choice((1, 8, 100))]
        elif kind == 4:
            del changed[place:]
        else:
            changed[place:place + 1] = draw.choice((b"9", b"-", b'"', b"[", b"{", b"\0", b"\xff", b"="))
    return bytes(changed)


class Files:
    """What is damaged, and the command that reads it."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.cases = []  # of names, files, and what is called with a changed one in its place
        images, text = folder / "images", folder / "text"
        made("make", "images", images, "--train", "8", "--val", "4", "--classes", "2", "--size", "16")
        text.write_text("eins zwei drei fünf\n" * 40)
        run = self.trained("run", f"images:{images},size=8", "mlp")
        spoken = self.trained("spoken", f"text:{text},tokens=characters,length=8", "transformer",
                              "--embedding", "16", "--layers", "1")
        model, words = folder / "model.safetensors", folder / "words.safetensors"
        made("export", run, "--to", model)
        made("export", spoken, "--to", words)
        made("export", run, "--to", folder / "own.pt")
        script = "import sys, torch; torch.save(torch.load(sys.argv[1], weights_only=True), sys.argv[2])"
        subprocess.run([PYTHON, "-c", script, folder / "own.pt", folder / "theirs.pt"], check=True,
                       timeout=LIMIT, capture_output=True)
        photograph = next(images.glob("val/*/*.jpg"))
        drawing = folder / "drawing.png"
        drawing.write_bytes(png())
        job = ["--data", f"images:{images},size=8", "--model", "mlp", *ALONE, "--max-steps", "1"]
        (checkpoint,) = run.glob("checkpoints/*")
        self.add(model, lambda: ("predict", model, photograph))
        self.add(words, lambda: ("generate", words, "--prompt", "e", "--tokens", "3"))
        for file in (folder / "own.pt", folder / "theirs.pt", model):
            self.add(file, lambda file=file: ("train", *job, "--init", file, "--out", self.fresh()))
        self.add(photograph, lambda: ("predict", run, photograph))
        self.add(drawing, lambda: ("predict", run, drawing))
        self.add(checkpoint / "manifest.json", lambda: ("predict", run, photograph))
        self.add(checkpoint / "node-0.safetensors", lambda: ("predict", run, photograph))
        self.add(run / "config.toml", lambda: ("train", "--config", run / "config.toml", "--max-steps",
                                               "1", "--epochs", "1", *ALONE, "--out", self.fresh()))
        self.add(text, lambda: ("eval", spoken, "--data", f"text:{text},tokens=characters,length=8"))
        self.add_data()

    def add_data(self) -> None:
        """Small sets of the formats that are read whole."""
        idx, cifar = self.folder / "idx", self.folder / "cifar"
        idx.mkdir()
        for part, number in (("train", 8), ("t10k", 4)):
            values = bytes(i % 251 for i in range(number * 64))
            (idx / f"{part}-images-idx3-ubyte").write_bytes(
                struct.pack(">IIII", 0x803, number, 8, 8) + values)
            (idx / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(
                struct.pack(">II", 0x801, number) + bytes(i % 2 for i in range(number))))
        cifar.mkdir()
        record = bytes([3]) + bytes(i % 256 for i in range(3072))
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
            (cifar / f"{name}.bin").write_bytes(record * 2)
        for kind, folder in (("idx", idx), ("cifar10", cifar)):
            for file in sorted(folder.iterdir())[:3]:
                self.add(file, lambda kind=kind, folder=folder: (
                    "train", "--data", f"{kind}:{folder}", "--model", "mlp", *ALONE, "--max-steps", "1",
                    "--out", self.fresh()))

    def add(self, file: pathlib.Path, command) -> None:
        self.cases.append((file, file.read_bytes(), command))

    def fresh(self) -> pathlib.Path:
        shutil.rmtree(self.folder / "fresh", ignore_errors=True)
        return self.folder / "fresh"

    def trained(self, name: str, data: str, model: str, *flags: str) -> pathlib.Path:
        made("train", "--data", data, "--model", model, *ALONE, "--max-steps", "1", "--out",
             self.folder / name, *flags)
        return self.folder / name


def png() -> bytes:
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * 20, y * 20, 100) [c] for x in range(12) for c in range(3))
                    for y in range(12))
    header = struct.pack(">IIBBBBB", 12, 12, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def problem_of(command: tuple) -> str | None:
    try:
        done = daso(*command)
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    said = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1, 2):
        return f"exit code {done.returncode}: {said}"
    foreign = [word for word in FOREIGN if word in said]
    return f"says {foreign}: {said}" if foreign else None


def main() -> int:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-mutations-"))
    failures, seed = 0, FIRST_SEED
    try:
        files = Files(folder)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            draw = random.Random(seed)
            file, content, command = draw.choice(files.cases)
            file.write_bytes(mutated(content, draw))
            words = command()
            problem = problem_of(words)
            file.write_bytes(content)
            if problem:
                failures += 1
                print(f"seed {seed}, {file.relative_to(folder)}, daso {' '.join(map(str, words))}: {problem}",
                      flush=True)
            seed += 1
    finally:
        shutil.rmtree(folder)
    print(f"seeds {FIRST_SEED} ... {seed - 1}: {failures} failures")
    return 1 if failures or seed == FIRST_SEED else 0


if __name__ == "__main__":
    sys.exit(main())
