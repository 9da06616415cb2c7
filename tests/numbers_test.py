# SPDX-License-Identifier: Apache-2.0
"""Does a program still come to the numbers that lie beside it, NAME.json beside NAME.py? Numbers
with a point may differ, a list of them as a vector, by a part of its norm; all else must be equal.

Run as: numbers_test.py PROGRAM [TOLERANCE], by a Python that has what the program needs. Where that
is one of OPTIONAL and not there, the exit code is 77.
"""
import json
import math
import pathlib
import re
import subprocess
import sys

OPTIONAL = ("numpy", "PIL", "torchvision")  # that a PyTorch may come without
TOLERANCE = 1e-6  # the part of the norm, by default
FLOOR = 1e-6  # and so much in any case
LIMIT = 500  # seconds
SHOWN = 10


def made_by(program: pathlib.Path):
    done = subprocess.run([sys.executable, "-B", program], text=True, capture_output=True,
                          timeout=LIMIT)
    if done.returncode == 0:
        return json.loads(done.stdout)
    missing = re.search(f"ModuleNotFoundError: No module named '({'|'.join(OPTIONAL)})'",
                        done.stderr)
    if not missing:
        sys.exit(f"{program} ended with {done.returncode}:\n{done.stderr}")
    print(f"skipped: {sys.executable} has no {missing[1]}, which {program.name} needs")
    sys.exit(77)


def numbers(value) -> list:
    """A list of numbers, or one, if any has a point; else nothing."""
    values = value if isinstance(value, list) else [value]
    kinds = set(map(type, values))
    return values if float in kinds and kinds <= {int, float} else []


def differences(kept, made, tolerance: float, place: str = ""):
    """A line for each place where the two differ."""
    one, other = numbers(kept), numbers(made)
    if kept == made:
        return
    if one and len(one) == len(other):
        distance, allowed = math.dist(one, other), FLOOR + tolerance * math.hypot(*one)
        if not distance <= allowed:  # nor with what is no number
            yield f"{place}: differs by {distance:g}, {allowed:g} is allowed"
    elif isinstance(kept, dict) and isinstance(made, dict) and kept.keys() == made.keys():
        for key in kept:
            yield from differences(kept[key], made[key], tolerance, f"{place}/{key}")
    elif isinstance(kept, list) and isinstance(made, list) and len(kept) == len(made):
        for i, (mine, new) in enumerate(zip(kept, made)):
            yield from differences(mine, new, tolerance, f"{place}/{i}")
    else:
        yield f"{place}: {str(kept):.60} is now {str(made):.60}"


def main(program: pathlib.Path, tolerance: float = TOLERANCE) -> int:
    kept = program.with_suffix(".json")
    found = list(differences(json.loads(kept.read_text()), made_by(program), tolerance))
    if found:
        print(f"{kept} is not what {program.name} makes, in {len(found)} places:",
              *found[:SHOWN], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *map(float, sys.argv[2:])))
