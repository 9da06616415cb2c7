# SPDX-License-Identifier: Apache-2.0
"""Flags of `daso train`, as keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from daso import _core


def words_of(flags: Mapping[str, Any]) -> list[str]:
    """As on a command line. What is None is left out; the library refuses what it does not know."""
    # A kind in brackets: its value can be left out.
    switches = {name for name, kind in _core.flags() if not kind or kind.startswith("[")}
    words = []
    for key, value in flags.items():
        name = key.replace("_", "-")
        if value is None or (name in switches and value is False):
            continue
        if name in switches and value is True:
            words.append(f"--{name}")
        else:
            words.append(f"--{name}={text_of(value)}")
    return words


def text_of(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(one) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
