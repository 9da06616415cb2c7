# SPDX-License-Identifier: Apache-2.0
"""unittest.main() for tests whose namespaces outlive them unless somebody removes them."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest
from collections.abc import Callable


def main(clean_up: Callable[[], None]) -> None:
    """Calls clean_up at the end, whatever the end is: a test that is interrupted, by Ctrl-C or by
    SIGTERM, does not come to its own cleaning up."""
    def told_to_end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, told_to_end)
    try:
        unittest.main(argv=sys.argv[:1])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        clean_up()


def remove_namespaces(names: list[str]) -> None:
    """With all processes in them; those that are not there are no matter."""
    def ip(*words: str) -> str:
        return subprocess.run(["ip", "netns", *words], check=True, text=True, capture_output=True,
                              timeout=60).stdout

    for name in names:
        if not pathlib.Path("/run/netns", name).exists():
            continue
        for pid in ip("pids", name).split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        ip("del", name)
