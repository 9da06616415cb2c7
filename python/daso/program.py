# SPDX-License-Identifier: Apache-2.0
"""The program `daso`, which comes with the package."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from daso import _core
from daso.flags import words_of


def path() -> Path:
    """Where the program lies."""
    here = Path(__file__).parent
    for place in (here / "bin" / "daso", Path(os.environ.get("DASO_PROGRAM", "/nowhere"))):
        if place.exists():
            return place
    raise _core.ConfigError(f"the program is not in the package: there is no {here / 'bin/daso'}")


def environment() -> dict[str, str]:
    """That of this process, in which the program finds the PyTorch of this interpreter."""
    torch = importlib.util.find_spec("torch").submodule_search_locations[0]
    folders = [os.path.join(torch, "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}


def main() -> None:
    """What `daso` on the command line starts."""
    program = path()
    os.execve(program, [sys.argv[0], *sys.argv[1:]], environment())


def schedule(**flags: Any) -> list[dict[str, Any]]:
    """What `daso schedule` prints: a dict for each epoch. Flags by their names."""
    return answer("schedule", flags)["trajectory"]


def compare(**flags: Any) -> list[dict[str, Any]]:
    """What `daso compare` finds: a dict for each candidate. Flags by their names, such as
    strategies=["daso", "sync"], nodes=2, epochs=3."""
    return answer("compare", flags)["rows"]


def answer(command: str, flags: dict[str, Any]) -> dict[str, Any]:
    words = [str(path()), command, *words_of(flags), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        kind = _core.ConfigError if done.returncode == 2 else _core.Error
        raise kind(said[-1].removeprefix("daso: ") if said else f"{words} failed")
    return json.loads(done.stdout)
