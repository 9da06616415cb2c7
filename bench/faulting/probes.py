# SPDX-License-Identifier: Apache-2.0
"""When the program does what, seen from outside: the kernel notes the time whenever a function
begins (uprobes). That costs a run about a microsecond a step, and needs nothing of the program but
the names of its functions, so what is measured is what people run.
"""
import collections
import dataclasses
import os
import pathlib
import re
import select
import threading

from faulting.system import Refusal, now, run

TRACING = pathlib.Path("/sys/kernel/tracing")
# By event: the beginning of a function's name, and what is noted: an argument, or a part of it.
# Takeover::donor, four bytes into the third argument that give() gets by reference: the second
# is its world, and the first where its answer goes.
POINTS = {
    "step": ("daso::SessionRecord::begin_step(", "%si:s64"),
    "change": ("daso::membership::Membership::begin_change()", ""),
    "enter": ("daso::membership::Membership::enter(", ""),
    "transfer": ("daso::give(", "+4(%dx):s32"),
}
LINE = re.compile(r"\s*\S.*?-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): (\w+): \([^)]*\)"
                  r"(?: value=(-?\d+))?")


@dataclasses.dataclass(frozen=True)
class Event:
    when: float
    pid: int
    value: int | None = None


def library_of(daso: pathlib.Path) -> pathlib.Path:
    """The file that has the functions: the program itself if it is linked statically."""
    found = re.search(r"libdaso\.so => (\S+)", run(["ldd", daso], "look at the program"))
    return pathlib.Path(os.path.realpath(found[1] if found else daso))


def offsets_in(library: pathlib.Path) -> dict[str, int]:
    """Where in the file the functions of POINTS begin; those that it lacks are left out."""
    segments = [[int(word, 16) for word in line.split()[1:3]]
                for line in run(["readelf", "-lW", library], "read the program").splitlines()
                if line.split()[:1] == ["LOAD"]]  # offset, address
    found = {}
    for line in run(["nm", "-C", "--defined-only", library], "read the program").splitlines():
        address, kind, name = line.split(maxsplit=2)
        for event, (beginning, _) in POINTS.items():
            if kind in "Tt" and name.startswith(beginning) and not name.endswith("]"):
                at = int(address, 16)
                offset, base = max(one for one in segments if one[1] <= at)
                found[event] = at - base + offset
    return found


def define(probe: str) -> None:
    # Not by open(), which seeks.
    file = os.open(TRACING / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{probe}\n".encode())
    finally:
        os.close(file)


class Probes:
    """Notes events from its making to close(). Those of processes that `identify` does not know are
    dropped; the others become `people`."""

    def __init__(self, daso: pathlib.Path, identify):
        self.events: dict[str, list[Event]] = collections.defaultdict(list)
        self.people = {}  # by pid
        self.latest: dict[int, tuple[float, int]] = {}  # by rank: its last step, and its pid
        self.identify = identify
        self.strangers: set[int] = set()
        self.threads: dict[int, int] = {}  # of which process
        self.changed = threading.Condition()
        self.name = f"daso_faults_{os.getpid()}"
        self.instance = TRACING / "instances" / self.name
        self.made: list[str] = []
        self.open(library_of(daso))
        self.bell = os.pipe()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def open(self, library: pathlib.Path) -> None:
        try:
            if not (TRACING / "uprobe_events").exists():
                run(["mount", "-t", "tracefs", "tracefs", TRACING], "see what the kernel traces")
            offsets = offsets_in(library)
            if "step" not in offsets:
                raise Refusal(f"{library} has no function {POINTS['step'][0]}...): build it by "
                              "./daso build")
            self.instance.mkdir()
            self.write("trace_clock", "mono")
            for event, offset in offsets.items():
                value = POINTS[event][1]
                define(f"p:{self.name}/{event} {library}:{offset:#x}"
                       f"{' value=' + value if value else ''}")
                self.made.append(event)
                self.write(f"events/{self.name}/{event}/enable", "1")
        except OSError as error:
            self.remove()
            raise Refusal(f"steps are timed by the kernel's probes, which takes root and "
                          f"CONFIG_UPROBE_EVENTS: {error}") from None
        except Refusal:
            self.remove()
            raise

    def write(self, file: str, text: str) -> None:
        (self.instance / file).write_text(text)

    def has(self, event: str) -> bool:
        return event in self.made

    def read(self) -> None:
        rest = b""
        with open(self.instance / "trace_pipe", "rb", buffering=0) as pipe:
            os.set_blocking(pipe.fileno(), False)
            while True:
                ready, _, _ = select.select([pipe, self.bell[0]], [], [])
                if self.bell[0] in ready:
                    return
                try:
                    rest += pipe.read(1 << 16) or b""
                except OSError:
                    continue  # nothing after all
                *lines, rest = rest.split(b"\n")
                self.take(lines)

    def take(self, lines: list[bytes]) -> None:
        with self.changed:
            for line in lines:
                found = LINE.match(line.decode(errors="replace"))
                if not found:
                    continue
                thread, when, event, value = found.groups()
                pid = self.process_of(int(thread))
                if self.knows(pid):
                    self.events[event].append(Event(float(when), pid, value and int(value)))
                    if event == "step":
                        self.latest[self.people[pid].rank] = (float(when), pid)
            self.changed.notify_all()

    def process_of(self, thread: int) -> int:
        """Known from the thread's first event on: it may have ended by the next."""
        if thread not in self.threads:
            try:
                status = pathlib.Path(f"/proc/{thread}/status").read_text()
                self.threads[thread] = int(re.search(r"Tgid:\s+(\d+)", status)[1])
            except OSError:
                return thread
        return self.threads[thread]

    def knows(self, pid: int) -> bool:
        if pid in self.people or pid in self.strangers:
            return pid in self.people
        person = self.identify(pid)
        if person:
            self.people[pid] = person
        elif pathlib.Path(f"/proc/{pid}").exists():
            self.strangers.add(pid)
        return person is not None

    def await_event(self, event: str, after: float, limit: float, fits=lambda one: True):
        """The first that happened after that time; none: it did not within so many seconds."""
        deadline = now() + limit

        def find():
            return next((one for one in self.events[event] if one.when > after and fits(one)), None)

        with self.changed:
            while (found := find()) is None and now() < deadline:
                self.changed.wait(deadline - now())
            return found

    def copy(self) -> dict[str, list[Event]]:
        with self.changed:
            return {event: list(events) for event, events in self.events.items()}

    def last_steps(self) -> dict[int, tuple[float, int]]:
        """When each rank began its last step, and its process, by rank."""
        with self.changed:
            return dict(self.latest)

    def last_entered(self) -> dict[int | None, float]:
        """When the launcher of each node last entered a view."""
        with self.changed:
            return {self.people[one.pid].node: one.when for one in self.events["enter"]}

    def close(self) -> None:
        os.write(self.bell[1], b".")
        self.reader.join(10)
        for end in self.bell:
            os.close(end)
        self.remove()

    def remove(self) -> None:
        for event in self.made:
            self.write(f"events/{self.name}/{event}/enable", "0")
        for event in self.made:
            define(f"-:{self.name}/{event}")
        self.made = []
        if self.instance.exists():
            self.instance.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()
