# SPDX-License-Identifier: Apache-2.0
"""Images and labels as IDX files, the format of MNIST.

    python3 bench/peers/idx.py FROM TO SIDE      writes images of FROM, scaled to SIDE × SIDE pixels
"""
import gzip
import pathlib
import struct
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

PARTS = ("train", "t10k")


def read(folder: pathlib.Path, name: str) -> torch.Tensor:
    file = folder / name
    data = file.read_bytes() if file.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    dimensions = data[3]
    shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
    return torch.frombuffer(bytearray(data[4 + 4 * dimensions:]), dtype=torch.uint8).view(shape)


def write(file: pathlib.Path, values: torch.Tensor) -> None:
    head = struct.pack(f">HBB{values.dim()}I", 0, 8, values.dim(), *values.shape)
    file.write_bytes(head + bytes(values.flatten().tolist()))


def images(part: str) -> str:
    return f"{part}-images-idx3-ubyte"


def labels(part: str) -> str:
    return f"{part}-labels-idx1-ubyte"


def scale(source: pathlib.Path, target: pathlib.Path, side: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        small = read(source, images(part)).float().unsqueeze(1)
        large = torch.nn.functional.interpolate(small, size=(side, side), mode="bilinear",
                                                align_corners=False)
        write(target / images(part), large.squeeze(1).round().clamp(0, 255).to(torch.uint8))
        write(target / labels(part), read(source, labels(part)))


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    scale(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]))
