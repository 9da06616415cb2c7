# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run while it goes on."""

from __future__ import annotations

import shutil
import sys
import time
import weakref
from typing import Any

_BETWEEN = 0.2  # seconds between two drawings


class Bar:
    """A bar on a terminal, on standard error as tqdm's, and a line per epoch on standard output."""

    def __init__(self, run: Any, shown: bool):
        self._run = weakref.proxy(run)
        self._wanted = shown
        self._drawn = False
        self._last = 0.0

    @property
    def _shown(self) -> bool:
        return self._wanted and self._run.world.rank == 0

    def step(self) -> None:
        if not self._shown or not sys.stderr.isatty():
            return
        now = time.monotonic()
        if now - self._last < _BETWEEN:
            return
        self._last = now
        core = self._run._core
        done = core.batch / core.steps_per_epoch
        filled = int(16 * done)
        metrics = self._run.metrics
        text = (
            f"epoch {core.epoch + 1} [{'#' * filled}{'.' * (16 - filled)}] "
            f"loss {metrics.get('train_loss', 0):.4f}  "
            f"{metrics.get('samples_per_second', 0):.0f} samples/s"
        )
        columns = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\033[K{text[:columns]}")
        sys.stderr.flush()
        self._drawn = True

    def epoch(self) -> None:
        if not self._shown:
            return
        self._clear()
        metrics = self._run.metrics
        parts = [f"epoch {metrics['epoch'] + 1:3}", f"loss {metrics['train_loss']:.4f}"]
        if metrics.get("test_loss") is not None:
            parts.append(f"test loss {metrics['test_loss']:.4f}")
        if metrics.get("test_accuracy") is not None:
            parts.append(f"accuracy {metrics['test_accuracy']:.4f}")
        parts.append(f"{metrics['samples_per_second']:.0f} samples/s")
        parts.append(f"waiting {100 * metrics['wait_share']:.0f} %")
        print("  ".join(parts), flush=True)

    def end(self) -> None:
        if self._shown:
            self._clear()
            print(f"all output is in {self._run.out}", flush=True)

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._drawn = False
