# SPDX-License-Identifier: Apache-2.0
"""The noise and the stalls of `daso bench step` (src/bench/pace.cpp), drawn alike."""
import argparse

WORD = 2**64 - 1
MOST = 1_000_003  # steps and nodes stay apart below this
NOISE, STALL = 0, 1


def uniform(counter: int) -> float:
    """0 up to 1, exclusively: splitmix64 of a counter."""
    z = (counter + 1) * 0x9e3779b97f4a7c15 & WORD
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & WORD
    z = (z ^ z >> 27) * 0x94d049bb133111eb & WORD
    return ((z ^ z >> 31) >> 11) / 2**53


def draw(seed: int, node: int, step: int, what: int) -> float:
    """What `daso bench step` (src/bench/pace.cpp) draws for this node and step."""
    return uniform((((seed * MOST + node) * MOST + step) * 2 + what) & WORD)


def pace(options: argparse.Namespace, nodes: int, node: int, step: int) -> tuple[float, float]:
    """By what a step's compute is stretched, and the seconds of a pause before it."""
    stretch = 1.0
    if node == nodes - 1:
        stretch += 2 * options.noise * draw(options.seed, node, step, NOISE)
    stalls = draw(options.seed, node, step, STALL) < options.stall_chance
    return stretch, options.stall_ms / 1000 if stalls else 0.0
