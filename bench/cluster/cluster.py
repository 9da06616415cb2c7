# SPDX-License-Identifier: Apache-2.0
"""A cluster: what it is made of, how it comes into being, and how it goes.

Everything lives in PID namespaces, one a node and one for the switch, and ends with the first
process there. Network devices exist only in namespaces that these processes hold open. So to take a
cluster down is to kill those first processes, which are known by their arguments: also those of a
cluster that was never finished.

Its state lies in /run/daso-cluster/NAME: cluster.json, which daso's launcher reads, appears last.
"""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import links
from links import Link
from system import Refusal, enter, kill_all, locked, namespace_of, processes, read_line, run

STATE = pathlib.Path("/run/daso-cluster")
MARK = "daso-cluster-node"
MOST_NODES = 200
FIRST_PROCESS = pathlib.Path(__file__).resolve().parent / "first_process.py"
EVERYTHING = ("net", "uts", "ipc", "pid", "mount")


@dataclasses.dataclass
class Node:
    host: str
    address: str
    pid: int      # of its first process
    network: int  # the number of its network namespace, by which the process is known for sure
    link: Link

    def runs(self) -> bool:
        return namespace_of(self.pid, "net") == self.network


@dataclasses.dataclass
class Cluster:
    name: str
    switch: int  # number of its first process
    nodes: list[Node]

    @property
    def folder(self) -> pathlib.Path:
        return STATE / self.name

    def node(self, index: int) -> Node:
        if index >= len(self.nodes):
            raise Refusal(f"cluster {self.name} has no node {index}: it has {len(self.nodes)}, "
                          "counted from 0")
        if not self.nodes[index].runs():
            raise Refusal(f"node {index} of cluster {self.name} is stopped; "
                          "take the cluster down and up again")
        return self.nodes[index]

    def save(self) -> None:
        draft = self.folder / "draft.json"
        draft.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        draft.rename(self.folder / "cluster.json")


def port(index: int) -> str:
    return f"p{index}"


def check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise Refusal(f"'{name}' cannot be a cluster's name: it becomes part of host names; use up "
                      "to 32 small letters, digits and hyphens")


def names() -> list[str]:
    return sorted(path.name for path in STATE.iterdir() if path.is_dir()) if STATE.exists() else []


def load(name: str) -> Cluster:
    check_name(name)
    try:
        stored = json.loads((STATE / name / "cluster.json").read_text())
    except FileNotFoundError:
        if name in names():
            raise Refusal(f"cluster {name} is half made; take it down: "
                          f"daso-cluster down --name {name}") from None
        raise Refusal(f"there is no cluster {name}; up: {', '.join(names()) or 'none'}") from None
    nodes = [Node(**{**node, "link": Link(**node["link"])}) for node in stored["nodes"]]
    return Cluster(stored["name"], stored["switch"], nodes)


# --- up ---

def up(name: str, count: int, link: Link, congestion: str) -> Cluster:
    check_name(name)
    if not 1 <= count <= MOST_NODES:
        raise Refusal(f"a cluster has 1 ... {MOST_NODES} nodes, not {count}")
    if link.delay_us:
        links.delay_program()  # what takes long, or fails, comes before everything else
    subnet = claim(name)
    with locked(STATE / name):
        try:
            return build(name, subnet, [link] * count, congestion)
        except BaseException:
            remove(name)
            raise


def claim(name: str) -> str:
    """Makes the state folder; gives the first three numbers of the cluster's addresses."""
    STATE.mkdir(exist_ok=True)
    with locked(STATE):
        if name in names():
            half = "" if (STATE / name / "cluster.json").exists() else " (half made)"
            raise Refusal(f"cluster {name} exists already{half}; take it down first: "
                          f"daso-cluster down --name {name}")
        taken = {file.read_text() for file in STATE.glob("*/subnet")}
        free = [f"10.77.{i}" for i in range(256) if f"10.77.{i}" not in taken]
        if not free:
            raise Refusal("256 clusters are up; take one down first")
        (STATE / name).mkdir()
        (STATE / name / "subnet").write_text(free[0])
        return free[0]


def build(name: str, subnet: str, wanted: list[Link], congestion: str) -> Cluster:
    folder = STATE / name
    hosts = [f"{name}-n{i}" for i in range(len(wanted))]
    addresses = [f"{subnet}.{i + 1}" for i in range(len(wanted))]
    lines = [f"{address} {host}\n" for address, host in zip(addresses, hosts)]
    (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))

    switch = start(name, "switch", ["net", "pid"], f"{name}-switch")
    nodes = [start(name, "node", list(EVERYTHING), host) for host in hosts]
    firsts = [switch, *nodes]
    logs = [folder / f"{host}.log" for host in (f"{name}-switch", *hosts)]
    pids = [int(read_line(process, "start a node", log)) for process, log in zip(firsts, logs)]
    cluster = Cluster(name, pids[0], [])
    for host, address, pid, link in zip(hosts, addresses, pids[1:], wanted):
        cluster.nodes.append(Node(host, address, pid, namespace_of(pid, "net"), link))
    connect(cluster, subnet, congestion)
    apply(cluster, range(len(wanted)), Link())
    cluster.save()
    for process in firsts:  # from here on it outlives us
        process.stdin.write("stay\n")
        process.stdin.flush()
    return cluster


def start(name: str, role: str, kinds: list[str], host: str) -> subprocess.Popen:
    words = ["unshare", *(f"--{kind}" for kind in kinds), "--fork", "--kill-child=KILL",
             sys.executable, "-I", "-S", "-B", str(FIRST_PROCESS), MARK, name, role, host,
             str(STATE / name / "hosts")]
    # Not our standard error: a reader of it waits for the end of all who hold it.
    with open(STATE / name / f"{host}.log", "w") as log:
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                text=True, start_new_session=True)


def connect(cluster: Cluster, subnet: str, congestion: str) -> None:
    """A bridge in the switch, and a cable from it to each node."""
    lines = ["link add name br0 type bridge", "link set br0 up"]
    for i, node in enumerate(cluster.nodes):
        lines += [f"link add name eth0 netns {node.pid} type veth peer name {port(i)}",
                  f"link set {port(i)} master br0 up"]
    batch(cluster.switch, lines, "CONFIG_BRIDGE or CONFIG_VETH")
    for node in cluster.nodes:
        batch(node.pid, ["link set lo up", f"address add {node.address}/24 dev eth0",
                         "link set eth0 up"])
        # By the route, because the setting of a namespace may be refused.
        batch(node.pid, [f"route replace {subnet}.0/24 dev eth0 proto kernel scope link "
                         f"src {node.address} congctl {congestion}"],
              f"the congestion control {congestion}: see --congestion")


def batch(pid: int, lines: list[str], needs: str = "") -> None:
    run(enter(pid, "net") + ["ip", "-batch", "-"], "make the network", needs,
        text="\n".join(lines) + "\n")


# --- links ---

def change(cluster: Cluster, indices, rate, delay_us, loss) -> None:
    """Gives links what is not None."""
    wanted = {"rate": rate, "delay_us": delay_us, "loss": loss}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    for i in indices:
        node = cluster.node(i)
        before, node.link = node.link, dataclasses.replace(node.link, **wanted)
        apply(cluster, [i], before)
    cluster.save()


def apply(cluster: Cluster, indices, before: Link) -> None:
    """Makes links what their nodes say, where that differs from before."""
    for i in indices:
        node = cluster.nodes[i]
        if node.link.rate != before.rate:
            links.set_rate(node.pid, cluster.switch, port(i), node.link)
        if node.link.loss != before.loss:
            links.set_loss(node.pid, node.link)
        if node.link.delay_us != before.delay_us:
            need_delay_program(cluster)
            links.set_delay(node.pid, i, cluster.folder / "control", node.link)


def need_delay_program(cluster: Cluster) -> None:
    control = cluster.folder / "control"
    if control.exists():
        return
    program = links.delay_program()
    os.mkfifo(control)
    # In the switch's PID namespace it ends with the cluster.
    networks = [f"/proc/{node.pid}/ns/net" for node in cluster.nodes]
    words = enter(cluster.switch, "pid") + [str(program), str(control), *networks]
    with open(cluster.folder / "delay.log", "w") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=log, text=True, start_new_session=True)
    try:
        read_line(process, "start the delay program", cluster.folder / "delay.log")
    except Refusal:
        control.unlink()
        raise


def port_states(cluster: Cluster) -> dict[str, str]:
    shown = run(enter(cluster.switch, "net") + ["bridge", "-j", "link", "show"], "ask the switch")
    return {entry["ifname"]: entry.get("state", "") for entry in json.loads(shown)}


# --- down ---

def stop_node(cluster: Cluster, index: int) -> None:
    """Like a lost power supply: the others hear nothing."""
    host = cluster.node(index).host
    links.cut(cluster.switch, port(index))
    kill_all(lambda arguments: is_first_process(arguments, cluster.name)
             and host in arguments)
    # Whoever still holds the network namespace keeps the cable.
    if port(index) in port_states(cluster):
        run(enter(cluster.switch, "net") + ["ip", "link", "delete", port(index)], "pull the cable")


def down(name: str) -> bool:
    """Takes down also what was never finished; False: there was nothing."""
    check_name(name)
    exists = (STATE / name).exists()
    if not exists and not processes(lambda arguments: is_of(arguments, name)):
        return False
    with locked(STATE / name) if exists else contextlib.nullcontext():
        remove(name)
    return True


def remove(name: str) -> None:
    kill_all(lambda arguments: is_of(arguments, name))
    shutil.rmtree(STATE / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        STATE.rmdir()  # the last one


def is_first_process(arguments: list[str], name: str) -> bool:
    """Of the processes of a node and of unshare, which has started it."""
    return (MARK, name) in zip(arguments, arguments[1:])


def is_of(arguments: list[str], name: str) -> bool:
    return is_first_process(arguments, name) or str(STATE / name / "control") in arguments
