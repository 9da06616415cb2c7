# SPDX-License-Identifier: Apache-2.0
"""Blocks on the wires that round at random, encoded a second time, from their description alone and
in Python's whole numbers and fractions. Its output is what qsgd_test.cpp expects.

Run as: python3 tests/kernels/qsgd_numbers.py > tests/kernels/qsgd_numbers.json
"""
import json
import struct
from fractions import Fraction

WORD, HALF_WORD = 2**64 - 1, 2**32 - 1
GOLDEN = 0x9E3779B97F4A7C15
ROUNDING = 6  # the purpose of these random numbers
MEAN = -1  # the sender of the mean
BLOCK = 256
UNIT = 1024  # values are whole numbers of its inverse
DRAW = 2**24  # parts of a level that rounding tells apart


def mixed(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def draw_key(seed, exchange, sender):
    state = 0
    for key in (seed, ROUNDING, exchange, sender & WORD):
        state = mixed((state ^ key) + GOLDEN & WORD)
    return mixed(state + GOLDEN & WORD)


def random_bits(key, block, element):
    """32 bits: 64 for the block, then two rounds of a hash."""
    block_bits = mixed(key + (block + 1) * GOLDEN & WORD)
    h = element ^ block_bits & HALF_WORD
    h = (h ^ h >> 16) * 0x7FEB352D & HALF_WORD
    h ^= block_bits >> 32
    h = (h ^ h >> 15) * 0x846CA68B & HALF_WORD
    return h ^ h >> 16


def single(value):
    """A fraction rounded to fp32, as a fraction. A quotient of two fp32 numbers in double precision
    rounds to the same."""
    return Fraction(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def code(quotient, bits, random):
    """The number above the lowest level of the level that the random bits choose."""
    levels = 1 if bits == 1 else 2**(bits - 1) - 1
    step = 2 if bits == 1 else 1
    quotient = min(max(quotient, -levels), levels)
    parts = round(quotient * DRAW) + levels * DRAW  # half to even
    draw = random * step * DRAW >> 32
    return (parts + draw) // (step * DRAW)


def encoded(values, bits, key, block):
    levels = 1 if bits == 1 else 2**(bits - 1) - 1
    scale = single(Fraction(max(map(abs, values)), UNIT) / levels)
    if scale == 0:
        codes = [levels] * BLOCK
    else:
        codes = [code(single(Fraction(value, UNIT) / scale), bits, random_bits(key, block, i))
                 for i, value in enumerate(values)]
    packed = sum(c << (i * bits) for i, c in enumerate(codes))
    return list(struct.pack("<f", float(scale)) + packed.to_bytes(BLOCK * bits // 8, "little"))


def made_up(number):
    """Values of a block: whole numbers up to some size, from a generator of their own."""
    size = [1000, 37, 1 << 20][number % 3]
    return [mixed(number * BLOCK + i) % (2 * size + 1) - size for i in range(BLOCK)]


def cases():
    number = 0
    for bits in range(1, 9):
        for seed, exchange, sender, first in ((1, 0, 0, 0), (1, 7, 3, 100_000),
                                              (2**64 - 1, 12_345, MEAN, 2**33)):
            key = draw_key(seed, exchange, sender)
            blocks = [made_up(number), made_up(number + 1)]
            yield {"wire": f"qsgd{bits}", "seed": seed, "exchange": exchange, "sender": sender,
                   "first_block": first, "key": key, "values": sum(blocks, []),
                   "encoded": sum((encoded(values, bits, key, first + i)
                                   for i, values in enumerate(blocks)), [])}
            number += 2


if __name__ == "__main__":
    print(json.dumps(list(cases())))
