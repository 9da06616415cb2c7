# SPDX-License-Identifier: Apache-2.0
"""The permutation of an epoch, the images of synthetic data and random crops, written a second time,
from their description alone and in Python's whole and decimal numbers. Its output is what
data_numbers_test.cpp expects.

Run as: python3 tests/data/data_numbers.py > tests/data/data_numbers.json
"""
import json
from decimal import Decimal

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
UNIT = 256
PATTERNS, GRID, AMPLITUDE, SHIFT = 2, 6, 96, 6
NOISE = 0.25  # where --data says nothing else
TRIES = 10  # of a crop
ORDER, PATTERN, TRAIN, TEST = 1, 2, 3, 4  # purposes of random numbers


def mixed(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


class Stream:
    def __init__(self, *keys):
        self.state = 0
        for key in keys:
            self.state = mixed((self.state ^ key) + GOLDEN & WORD)

    def next(self):
        self.state = self.state + GOLDEN & WORD
        return mixed(self.state)

    def below(self, bound):
        while (value := self.next()) < 2**64 % bound:
            pass
        return value % bound

    def around(self, reach):
        return self.below(2 * reach + 1) - reach

    def fraction(self):
        return Decimal(self.next() >> 11) / 2**53


def toward_zero(a, b):
    return abs(a) // b * (1 if a >= 0 else -1)


def permutation(examples, seed, epoch):
    order = list(range(examples))
    random = Stream(seed, ORDER, epoch)
    for left in range(examples, 1, -1):
        i = random.below(left)
        order[left - 1], order[i] = order[i], order[left - 1]
    return order


def channel(size, random):
    grid = [[random.around(UNIT) for _ in range(GRID)] for _ in range(GRID)]

    def place(i):
        cell = i * GRID // size
        f = i * GRID * UNIT // size - cell * UNIT
        return cell, f * f * (3 * UNIT - 2 * f) // UNIT**2

    def between(a, b, part):
        return toward_zero(a * (UNIT - part) + b * part, UNIT)

    field = []
    for y in range(size):
        row, down = place(y)
        for x in range(size):
            column, right = place(x)
            corner = [[grid[(row + i) % GRID][(column + j) % GRID] for j in (0, 1)] for i in (0, 1)]
            field.append(between(between(*corner[0], right), between(*corner[1], right), down))
    largest = max(1, max(abs(value) for value in field))
    return [toward_zero(value * AMPLITUDE, largest) for value in field]


def image(purpose, index, classes, size, channels, noise, seed):
    """The class and the bytes of an example."""
    random = Stream(seed, purpose, index)
    label = index % classes
    number = random.below(PATTERNS)
    contrast = UNIT // 2 + random.below(UNIT // 2 + 1)
    factor = contrast if random.below(2) == 0 else -contrast
    down = random.around(size // SHIFT)
    right = random.around(size // SHIFT)
    scale = round(noise * 255 * UNIT)
    values = []
    for c in range(channels):
        plane = channel(size, Stream(seed, PATTERN, (label * PATTERNS + number) * channels + c))
        for y in range(size):
            for x in range(size):
                value = plane[(y + down) % size * size + (x + right) % size]
                bits = random.next()
                total = sum(bits >> 16 * i & 0xFFFF for i in range(4)) - 2 * 65535
                difference = value * factor + toward_zero(total * scale, 37837)
                values.append(min(255, max(0, toward_zero(128 * UNIT + difference, UNIT))))
    return label, values


def crop(width, height, random):
    """Left, top, width and height, in 28 digits."""
    for _ in range(TRIES):
        area = width * height * (Decimal("0.08") + Decimal("0.92") * random.fraction())
        ratio = Decimal("0.75") * (Decimal(16) / 9) ** random.fraction()  # 3 : 4 ... 4 : 3
        across, down = round((area * ratio).sqrt()), round((area / ratio).sqrt())
        if 1 <= across <= width and 1 <= down <= height:
            top = random.below(height - down + 1)
            return [random.below(width - across + 1), top, across, down]
    raise ValueError(f"no crop fits into {width} x {height}")


def crops(width, height, seed):
    return {"width": width, "height": height, "seed": seed,
            "crops": [crop(width, height, Stream(seed, number)) for number in range(6)]}


def fnv(values):
    digest = 14695981039346656037
    for value in values:
        digest = (digest ^ value) * 1099511628211 & WORD
    return f"{digest:016x}"


def synthetic(text, purpose, index, **options):
    options = {"classes": 10, "size": 32, "channels": 3, "noise": NOISE, "seed": 1} | options
    label, values = image(purpose, index, **options)
    part = "train" if purpose == TRAIN else "test"
    return {"data": text, "part": part, "index": index, "label": label, "first": values[:8],
            "digest": fnv(values)}


def main():
    orders = [{"examples": n, "seed": s, "epoch": e, "order": permutation(n, s, e)}
              for n, s, e in ((1, 0, 0), (10, 0, 0), (10, 0, 1), (17, 2**63 + 5, 3))]
    images = [synthetic("synthetic", TRAIN, i) for i in (0, 1, 4095)]
    images.append(synthetic("synthetic", TEST, 1023))
    images.append(synthetic("synthetic:seed=77,noise=0.35,classes=3,size=20,channels=2", TEST, 8,
                            seed=77, noise=0.35, classes=3, size=20, channels=2))
    drawn = [crops(*case) for case in ((500, 375, 1), (375, 500, 2), (61, 64, 3), (4000, 1500, 4))]
    print(json.dumps({"orders": orders, "images": images, "crops": drawn}, indent=1))


if __name__ == "__main__":
    main()
