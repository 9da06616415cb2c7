# SPDX-License-Identifier: Apache-2.0
"""Faults of processes: they die, or stand still."""
import signal

from faulting.kinds import Fault, Here, Missed, between, kind
from faulting.system import send

ALL = ("guardian", "launcher", "rank")  # of a node; the guardian first, so that it saves nobody
FOR_CHANGE = 5     # seconds until a loss is noticed, at most
FOR_RETURN = 60    # until a node is back
MOST_LATER = 0.03  # from a moment to the fault that is aimed at it


def kill_rank(here: Here, fault: Fault, node: int, what=signal.SIGKILL) -> None:
    process = here.rank_of(fault, node)
    if not process:
        raise Missed(f"rank {fault.local_rank} of node {node}")
    fault.strikes(node)
    send(process.pid, what)


@kind("kill", "death")
def kill(here: Here, fault: Fault) -> None:
    kill_rank(here, fault, fault.node)


@kind("segfault", "death")
def segfault(here: Here, fault: Fault) -> None:
    kill_rank(here, fault, fault.node, signal.SIGSEGV)


@kind("whole-node", "death")
def whole_node(here: Here, fault: Fault) -> None:
    """Launcher and ranks at once; under one launcher all ranks of a node."""
    processes = sorted(here.job.of_node(fault.node, *ALL), key=lambda one: ALL.index(one.role))
    fault.strikes(fault.node)
    for process in processes:
        send(process.pid, signal.SIGKILL)


@kind("launcher", "death", needs="network")
def launcher(here: Here, fault: Fault) -> None:
    """Its ranks are killed by its guardian."""
    for process in here.job.of_node(fault.node, "launcher"):
        fault.strikes(fault.node)
        send(process.pid, signal.SIGKILL)


@kind("coordinator", "death", needs="network")
def coordinator(here: Here, fault: Fault) -> None:
    """The lowest member, which proposes first, and whose launcher has the store of the view."""
    fault.node = 0
    whole_node(here, fault)


@kind("second", "death")
def second(here: Here, fault: Fault) -> None:
    """Another node goes while the view changes for the first."""
    other = here.other_node(fault, fault.draws[0])
    kill_rank(here, fault, fault.node)
    here.probes.await_event("change", fault.at, FOR_CHANGE)
    here.wait(fault.draws[1] * MOST_LATER)
    if here.place.several and fault.draws[2] < 0.5:
        fault.strikes(other)
        for process in here.job.of_node(other, *ALL):
            send(process.pid, signal.SIGKILL)
    else:
        kill_rank(here, fault, other)


def await_transfer(here: Here, fault: Fault):
    """Kills a rank, and waits until its node is given the run's state."""
    kill_rank(here, fault, fault.node)
    found = None

    def begun() -> bool:
        nonlocal found
        found = here.probes.await_event("transfer", fault.at, 0.2)
        return found is not None

    if not here.await_that(begun, FOR_RETURN):
        raise Missed("nobody was given anything")
    return found


@kind("donor", "death", needs="transfer")
def donor(here: Here, fault: Fault) -> None:
    """Who gives a joiner its state is lost in the middle of it."""
    gives = await_transfer(here, fault).value // here.place.ranks
    here.wait(fault.draws[0] * MOST_LATER)
    kill_rank(here, fault, gives)


@kind("joiner", "death", needs="transfer")
def joiner(here: Here, fault: Fault) -> None:
    """Who is given its state is lost in the middle of it."""
    await_transfer(here, fault)
    here.wait(fault.draws[0] * MOST_LATER)
    kill_rank(here, fault, fault.node)


# --- standing still ---

def stand_still(here: Here, fault: Fault, processes: list, seconds: float) -> None:
    try:
        for process in processes:
            send(process.pid, signal.SIGSTOP)
        here.wait(seconds)
    finally:
        for process in processes:
            send(process.pid, signal.SIGCONT)
        here.job.wake_wrappers()


def all_of(here: Here, fault: Fault) -> list:
    return here.job.of_node(fault.node, "launcher", "rank")


def one_of(here: Here, fault: Fault) -> list:
    process = here.rank_of(fault)
    return [process] if process else []


def briefly(here: Here, fault: Fault) -> float:
    """Shorter than a node may be silent, by enough for a busy machine."""
    return between(fault.draws[0], 0.2, 0.5 * here.silence)


def long(here: Here, fault: Fault) -> float:
    return here.silence + between(fault.draws[0], 0.3, 1.5)


@kind("pause", "nothing")
def pause(here: Here, fault: Fault) -> None:
    fault.strikes()
    stand_still(here, fault, one_of(here, fault), briefly(here, fault))


@kind("pause-node", "nothing")
def pause_node(here: Here, fault: Fault) -> None:
    fault.strikes()
    stand_still(here, fault, all_of(here, fault), briefly(here, fault))


@kind("stop", "silence")
def stop(here: Here, fault: Fault) -> None:
    fault.strikes(fault.node)
    stand_still(here, fault, one_of(here, fault), long(here, fault))


@kind("stop-node", "silence")
def stop_node(here: Here, fault: Fault) -> None:
    fault.strikes(fault.node)
    stand_still(here, fault, all_of(here, fault), long(here, fault))
