# SPDX-License-Identifier: Apache-2.0
"""How a run goes on when nodes come and go."""

from __future__ import annotations

import os
import sys

from daso import _core


class Views:
    """What a Run does where nodes may be lost (`daso run --on-failure continue`).

    The world of a view ends with it; model, optimizer and place stay, and go on in the next. A step
    that was broken off is left at once, as it was before it began, and its batch comes again; what
    the body of the loop does after the step is then undone with it. After a step that is done the
    view is left when the body of the loop has ended.
    """

    @property
    def _broken_off(self) -> bool:
        return self._survives and (self._left or self._broken or self._core.view_over)

    def _note_loss(self, error: _core.PeerError) -> None:
        if not self._survives or self._left:
            raise error
        self._core.note_trouble(str(error))
        self._broken = True

    def _remember(self) -> None:
        """What the body of the loop may change before its step is done."""
        groups = None if self.optimizer is None else self._state.groups()
        self._before = (self._keeping.copies(), groups, self._rate_before)

    def _leave_step(self, error: _core.PeerError) -> None:
        self._note_loss(error)
        copies, groups, self._rate = self._before
        self._keeping.put_back(copies)
        if groups is not None:
            self._state.put_back_groups(groups)
        self._leave()

    def _leave(self) -> None:
        self._in_step = self._stepped = False
        self._core.leave()
        self._left = True

    def _enter(self) -> None:
        self._given = []
        next_to_do = self._core.enter()
        if next_to_do == "left":
            raise SystemExit(self._core.stopped_exit)
        if next_to_do:  # a replay of a run in which this process was lost
            sys.stdout.flush()
            sys.stderr.flush()
            environment = {**os.environ, _core.replay_after: next_to_do}
            os.execve(sys.executable, sys.orig_argv, environment)
        self._left = self._broken = False
        self._in_step = self._stepped = self._armed = self._step_done = self._counted = False
        self._part = 0
        self._loss = None

    def _next_view(self) -> None:
        if not self._left:
            self._leave()
        self._enter()
        self._elsewhere = self._elsewhere or self._core.epoch != self._epoch
        if not self._elsewhere:
            self._given = []

    def _go_on(self) -> None:
        """In the next view, until this rank stands where the loop has something to do."""
        while self._broken_off and not self._elsewhere:
            self._next_view()
            if not self._elsewhere:
                self._core.begin_turn()
                self._reach_end()

    def _go_on_evaluated(self) -> None:
        self._go_on()
        if self._score is not None and self.epoch_is_done:
            self.evaluate(self._score)

    def _reach_end(self) -> None:
        """Where only the end of the epoch is left to do: as after its last step."""
        core = self._core
        if core.batch == 0 or core.batch < core.steps_per_epoch or core.finished:
            return
        try:
            core.go_on_at_end()
            self._stepped = True
            self._agree_at_end()
        except _core.PeerError as error:
            self._note_loss(error)

    def _take_given(self) -> None:
        """What the body of the loop has done since was for the epoch that others had ended."""
        given, self._given = self._given, []
        for load, kept in given:
            load(kept)
