# SPDX-License-Identifier: Apache-2.0
"""What PyTorch makes of images that are resized with antialias, as torchvision does it for tensors;
and that PIL makes the same of them. resample_test.cpp compares.

Run as, with a Python that has torch, numpy and pillow:
    python3 tests/data/resample_numbers.py > tests/data/resample_numbers.json
"""
import json

import numpy
import torch
import torch.nn.functional as F
from PIL import Image

STRIDE = 61  # of the values that are kept; shares no factor with a size, so every column has some
# Width and height of an image, its crop (left, top, width, height), and the side of the square.
CROPS = [
    (20, 14, (0, 0, 20, 14), 32),    # more pixels
    (42, 33, (0, 0, 42, 33), 32),    # fewer, by 1.3 and by hardly anything
    (118, 97, (0, 0, 118, 97), 32),  # by 3.7 and by 3
    (11, 90, (0, 0, 11, 90), 24),    # more across, fewer down
    (75, 60, (13, 9, 41, 33), 28),   # what lies around a crop has no say in it
    (75, 60, (0, 40, 9, 20), 28),    # at two edges
    (300, 200, (57, 31, 207, 160), 20),
]
# Width and height, and the side of the square that is their centre.
CENTRES = [(100, 75, 28), (61, 190, 24), (20, 17, 28), (64, 64, 56), (333, 250, 32)]


def made(width, height):
    """Looks rough, and needs no file: 3 x height x width, 0 ... 1."""
    x, y = torch.arange(width), torch.arange(height).reshape(-1, 1)
    c = torch.arange(3).reshape(-1, 1, 1)
    return ((7 * x * x + 13 * y * y + 5 * x * y + 29 * c) % 256).double() / 255


def resized(image, height, width):
    result = F.interpolate(image[None], (height, width), mode="bilinear", antialias=True,
                           align_corners=False)[0]
    for plane, expected in zip(image, result):
        pil = Image.fromarray(plane.float().numpy()).resize((width, height),
                                                            Image.Resampling.BILINEAR)
        assert abs(numpy.asarray(pil) - expected.numpy()).max() < 1e-5
    return result


def cropped(width, height, crop, size):
    """As RandomResizedCrop does once it has drawn the crop."""
    left, top, across, down = crop
    image = made(width, height)[:, top:top + down, left:left + across]
    return {"width": width, "height": height, "crop": crop, "size": size,
            "values": sample(resized(image, size, size))}


def centred(width, height, size):
    """As Resize and CenterCrop do: the shorter side first."""
    shorter = round(size * 256 / 224)
    least = min(width, height)
    across, down = (shorter if side == least else int(shorter * side / least)
                    for side in (width, height))
    left, top = round((across - size) / 2), round((down - size) / 2)
    image = resized(made(width, height), down, across)
    return {"width": width, "height": height, "size": size,
            "values": sample(image[:, top:top + size, left:left + size])}


def sample(image):
    return [round(value, 8) for value in image.flatten()[::STRIDE].tolist()]


if __name__ == "__main__":
    cases = [cropped(*case) for case in CROPS] + [centred(*case) for case in CENTRES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    print(f'{{"stride": {STRIDE}, "cases": [\n{lines}\n]}}')
