# SPDX-License-Identifier: Apache-2.0
"""Where the nodes of a run are: all on this machine under one launcher, or each on a node of a
virtual cluster (docs/testbed.md) with a launcher of its own."""
import contextlib
import pathlib
import sys

from faulting.system import ROOT, Refusal

sys.path.insert(0, str(ROOT / "bench" / "cluster"))
import cluster as clusters  # noqa: E402
import links  # noqa: E402
import system as cluster_system  # noqa: E402

PORT = 4000  # of launchers


class Loopback:
    """One launcher starts all nodes; there is no network to be harmed."""

    several = False

    def __init__(self, nodes: int, ranks: int):
        self.nodes, self.ranks = nodes, ranks

    def enter(self, node: int) -> list[str]:
        return []

    def flags(self, node: int, join: bool, token: pathlib.Path) -> list[str]:
        return []

    def close(self) -> None:
        pass


class Machines:
    """A launcher on each node of a cluster, which is made here and goes with this; and one node more
    if somebody is to stand by."""

    several = True
    WITNESS_PORT = PORT + 1

    def __init__(self, name: str, nodes: int, ranks: int, delay: str = "0", spare: bool = False):
        self.name, self.nodes, self.ranks = name, nodes, ranks
        try:
            cluster_system.check_machine(["ip", "tc", "bridge", "iptables", "nsenter", "unshare"])
            clusters.down(name)  # of a campaign that was killed
            link = links.Link(delay_us=links.parse_delay(delay))
            self.cluster = clusters.up(name, nodes + spare, link, "cubic")
        except cluster_system.Refusal as refusal:
            raise Refusal(str(refusal)) from None

    def enter(self, node: int, *kinds: str) -> list[str]:
        """The words that make a command run on a node, or in some of its namespaces."""
        return cluster_system.enter(self.cluster.nodes[node].pid, *(kinds or clusters.EVERYTHING))

    def address(self, node: int) -> str:
        return self.cluster.nodes[node].address

    def flags(self, node: int, join: bool, token: pathlib.Path) -> list[str]:
        entries = ",".join(f"{one.address}:{PORT}" for one in self.cluster.nodes[:self.nodes])
        return ["--node-index", str(node), "--job-token-file", str(token),
                "--join" if join else "--rendezvous", entries]

    # --- disks ---

    @contextlib.contextmanager
    def disks_of_their_own(self, folder: pathlib.Path):
        """What a node writes there the others do not see, until the block ends."""
        folder.mkdir(parents=True, exist_ok=True)
        for node in range(self.nodes):
            cluster_system.run(self.enter(node) + ["mount", "-t", "tmpfs", "none", str(folder)],
                               "give a node a disk")
        try:
            yield
        finally:
            for node in range(self.nodes):
                cluster_system.run(self.enter(node) + ["umount", "-l", str(folder)],
                                   "take a node's disk")

    def see(self, node: int, path: pathlib.Path) -> pathlib.Path:
        """A node's file, from here."""
        return pathlib.Path(f"/proc/{self.cluster.nodes[node].pid}/root{path}")

    # --- links ---

    def cut(self, node: int) -> None:
        links.cut(self.cluster.switch, clusters.port(node))

    def restore(self, node: int) -> None:
        links.restore(self.cluster.switch, clusters.port(node))

    def lose(self, node: int, percent: float) -> None:
        clusters.change(self.cluster, [node], None, None, percent)

    def filter(self, node: int, *rule: str) -> None:
        """Changes the node's packet filter, for what arrives there."""
        cluster_system.run(self.enter(node, "net") + ["iptables", "-w", "10", *rule],
                           "filter packets")

    def close(self) -> None:
        clusters.down(self.name)
