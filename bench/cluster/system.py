# SPDX-License-Identifier: Apache-2.0
"""The few ways in which we speak to the system: commands, namespaces, processes."""
import contextlib
import fcntl
import os
import pathlib
import select
import shlex
import shutil
import signal
import subprocess
import time

LIMIT = 20  # seconds, of every command and every wait but compiling
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "bridge": "iproute2", "iptables": "iptables",
            "nsenter": "util-linux", "unshare": "util-linux", "setpriv": "util-linux"}


class Refusal(Exception):
    """Something for the user to mend."""


def check_machine(programs: list[str]) -> None:
    if os.geteuid() != 0:
        raise Refusal("a cluster is made of the kernel's namespaces, which takes root; "
                      "become root, or use sudo")
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # not in every user's path
    missing = sorted({PACKAGES.get(name, name) for name in programs if not shutil.which(name)})
    if missing:
        raise Refusal(f"programs are missing; to install them: apt-get install {' '.join(missing)}")


def enter(pid: int, *kinds: str) -> list[str]:
    """The words that make a command run in a process's namespaces."""
    return ["nsenter", "-t", str(pid), *(f"--{kind}" for kind in kinds), "--"]


def run(words: list[str], what: str, needs: str = "", text: str = "", limit: int = LIMIT) -> str:
    try:
        done = subprocess.run(words, input=text, text=True, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Refusal(f"cannot {what}: no end within {limit} s of: {shlex.join(words)}") from None
    if done.returncode != 0:
        hint = f"; this kernel may lack {needs}" if needs else ""
        raise Refusal(f"cannot {what}: {done.stderr.strip() or done.stdout.strip()}{hint}")
    return done.stdout


def read_line(process: subprocess.Popen, what: str, log: pathlib.Path) -> str:
    """The first line of a process that we have just started; its complaints are in the log."""
    ready, _, _ = select.select([process.stdout], [], [], LIMIT)
    line = process.stdout.readline() if ready else ""
    if not line.endswith("\n"):
        why = log.read_text().strip() or f"no word within {LIMIT} s"
        raise Refusal(f"cannot {what}: {why}; this kernel may lack CONFIG_NAMESPACES or "
                      "CONFIG_NETFILTER_NETLINK_QUEUE")
    return line.strip()


def arguments_of(pid: int) -> list[str]:
    """Of a running process; nothing where it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.split("\0")


def processes(matches) -> list[int]:
    """The numbers of the processes whose arguments match."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if matches(arguments_of(pid))]


def kill_all(matches) -> None:
    """Kills the processes whose arguments match, and waits until none is left."""
    deadline = time.monotonic() + LIMIT
    while pids := processes(matches):
        for pid in pids:
            kill_one(pid, matches)
        if time.monotonic() > deadline:
            raise Refusal(f"processes {pids} do not end although they were killed")


def kill_one(pid: int, matches) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Through the handle the number cannot have come to mean another process.
        if matches(arguments_of(pid)):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], LIMIT)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def namespace_of(pid: int, kind: str) -> int | None:
    """The number of a process's namespace; None where the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return None


@contextlib.contextmanager
def locked(path: pathlib.Path, limit: int = LIMIT):
    """One command at a time; a command that is killed leaves no lock behind."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + limit
    try:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refusal(f"another daso-cluster has been at work on {path} for {limit} s; "
                                  "end it first") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(folder)
