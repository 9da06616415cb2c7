# SPDX-License-Identifier: Apache-2.0
"""Faults of the network between nodes, and strangers in it."""
import pathlib
import signal
import subprocess
import sys

from faulting.kinds import Fault, Here, between, kind
from faulting.process_faults import ALL, briefly, long
from faulting.strangers import listening_ports
from faulting.system import send

HERE = pathlib.Path(__file__).resolve().parent
FOR_GIVING_UP = 60  # seconds until a launcher that is cut off ends
QUEUE = 7           # of the kernel, for packets that are damaged
SHARE_DAMAGED = 0.02


def cut_for(here: Here, fault: Fault, seconds: float) -> None:
    try:
        here.place.cut(fault.node)
        here.wait(seconds)
    finally:
        here.place.restore(fault.node)


@kind("cut", "nothing", needs="network")
def cut(here: Here, fault: Fault) -> None:
    fault.strikes()
    cut_for(here, fault, briefly(here, fault))


@kind("cut-long", "silence", needs="network")
def cut_long(here: Here, fault: Fault) -> None:
    fault.strikes(fault.node)
    cut_for(here, fault, long(here, fault))


@kind("cut-off", "silence", needs="network")
def cut_off(here: Here, fault: Fault) -> None:
    """For as long as it takes the node to give up; then somebody mends the cable."""
    fault.strikes(fault.node)
    launcher = here.job.current()[fault.node].process
    here.job.held.add(fault.node)
    try:
        here.place.cut(fault.node)
        here.await_that(lambda: launcher.poll() is not None, FOR_GIVING_UP)
    finally:
        here.place.restore(fault.node)
        here.job.held.discard(fault.node)


@kind("power", "silence", needs="network")
def power(here: Here, fault: Fault) -> None:
    """The node is gone at once, and nobody hears its connections end."""
    fault.strikes(fault.node)
    here.job.held.add(fault.node)
    try:
        here.place.cut(fault.node)
        for process in here.job.of_node(fault.node, *ALL):
            send(process.pid, signal.SIGKILL)
        here.wait(here.silence + between(fault.draws[0], 0.5, 1.5))
    finally:
        here.place.restore(fault.node)
        here.job.held.discard(fault.node)


def drop_for(here: Here, drops: list[tuple[int, int]], seconds: float) -> None:
    """Drops what arrives at the first from the second of each pair."""
    rules = [(to, ("INPUT", "-s", here.place.address(sender), "-j", "DROP"))
             for to, sender in drops]
    done = []
    try:
        for to, rule in rules:
            here.place.filter(to, "-A", *rule)
            done.append((to, rule))
        here.wait(seconds)
    finally:
        for to, rule in done:
            here.place.filter(to, "-D", *rule)


@kind("one-way", "silence", needs="network")
def one_way(here: Here, fault: Fault) -> None:
    """A node hears the others, who do not hear it, or the other way round."""
    others = [node for node in range(here.place.nodes) if node != fault.node]
    drops = [(node, fault.node) for node in others]
    fault.note = "the others do not hear it"
    if fault.draws[1] < 0.5:
        drops = [(fault.node, node) for node in others]
        fault.note = "it does not hear the others"
    fault.strikes(fault.node)
    drop_for(here, drops, long(here, fault))


@kind("pair", "silence", needs="network")
def pair(here: Here, fault: Fault) -> None:
    """Two nodes do not hear each other; the others hear both."""
    other = here.other_node(fault, fault.draws[1])
    fault.strikes(fault.node, other)
    drop_for(here, [(fault.node, other), (other, fault.node)], long(here, fault))


@kind("loss", "nothing", needs="network")
def loss(here: Here, fault: Fault) -> None:
    fault.strikes()
    try:
        here.place.lose(fault.node, 1)
        here.wait(between(fault.draws[0], 1.5, 3))
    finally:
        here.place.lose(fault.node, 0)


@kind("flip", "nothing", needs="network")
def flip(here: Here, fault: Fault) -> None:
    """Some packets of what arrives at a node have a byte changed, and checksums that fit."""
    rule = ("INPUT", "-p", "tcp", "-i", "eth0", "-m", "statistic", "--mode", "random",
            "--probability", str(SHARE_DAMAGED), "-j", "NFQUEUE", "--queue-num", str(QUEUE),
            "--queue-bypass")
    words = here.place.enter(fault.node, "net")
    program = subprocess.Popen(words + [sys.executable, str(HERE / "damage.py"), str(QUEUE)],
                               stdout=subprocess.PIPE, text=True)
    filtering = False
    try:
        program.stdout.readline()  # it is ready
        fault.strikes()
        here.place.filter(fault.node, "-A", *rule)
        filtering = True
        here.wait(between(fault.draws[0], 1, 3))
    finally:
        if filtering:
            here.place.filter(fault.node, "-D", *rule)
        program.terminate()
        fault.note = f"{program.stdout.read().strip() or 0} bytes"
        program.wait(10)


def strangers(here: Here, fault: Fault, what: str, seconds: float) -> None:
    """They come from another node, or from this machine where all nodes are here."""
    processes = here.job.of_node(fault.node, "launcher", "rank")
    if not here.place.several:
        processes = here.job.processes()
    ports = sorted({port for process in processes for port in listening_ports(process.pid)})
    address = here.place.address(fault.node) if here.place.several else "127.0.0.1"
    fault.note = f"{len(ports)} ports"
    words = here.place.enter(here.other_node(fault, fault.draws[1]))
    program = subprocess.Popen(words + [sys.executable, str(HERE / "strangers.py"), what, address,
                                        str(seconds), *map(str, ports)],
                               stdout=subprocess.DEVNULL)
    fault.strikes()
    try:
        here.await_that(lambda: program.poll() is not None, seconds + 30)
    finally:
        program.kill()
        program.wait(10)


@kind("scan", "nothing")
def scan(here: Here, fault: Fault) -> None:
    strangers(here, fault, "scan", 1)


@kind("flood", "nothing")
def flood(here: Here, fault: Fault) -> None:
    strangers(here, fault, "flood", between(fault.draws[0], 1, 2))
