# SPDX-License-Identifier: Apache-2.0
"""What a node's link does to packets: rate, delay, loss, and silence when it is cut.

A link is a pair of devices: eth0 in the node, pI in the switch. Its rate holds in both directions,
by a token bucket at each end. Delay and loss act on what arrives at the node.
"""
import dataclasses
import hashlib
import os
import pathlib
import re

from system import Refusal, enter, locked, run

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = HERE.parent.parent / "build" / "testbed"
LONGEST_DELAY_US = 1_000_000
COMPILE_LIMIT = 180  # seconds, of a machine that has much else to do


@dataclasses.dataclass(frozen=True)
class Link:
    rate: int = 0      # bits per second each way; 0: as fast as the machine can
    delay_us: int = 0  # from node to node, one way
    loss: float = 0.0  # percent of the packets that arrive at the node


def parse_rate(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", text.lower())
    if not found and text != "0":
        raise Refusal(f"rate '{text}' is none; write 100mbit, 2.5gbit, or 0 for no limit")
    rate = int(float(found[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[found[2][0]]) if found else 0
    if rate != 0 and not 64_000 <= rate <= 100_000_000_000:
        raise Refusal(f"rate {text} lies outside 64kbit ... 100gbit")
    return rate


def parse_delay(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms)", text.lower())
    if not found and text != "0":
        raise Refusal(f"delay '{text}' is none; write 200us, 1.5ms, or 0")
    delay = round(float(found[1]) * {"us": 1, "ms": 1000}[found[2]]) if found else 0
    if delay > LONGEST_DELAY_US:
        raise Refusal(f"delay {text} is too long; the most is {LONGEST_DELAY_US // 1000} ms")
    return delay


def parse_loss(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%?", text)
    if not found or float(found[1]) > 100:
        raise Refusal(f"loss '{text}' is none; write a percentage like 1% or 0")
    return float(found[1])


def rate_text(rate: int) -> str:
    if rate == 0:
        return "no limit"
    for size, unit in ((1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit")):
        if rate >= size:
            return f"{rate / size:g}{unit}"
    return f"{rate}bit"


def set_rate(node_pid: int, switch_pid: int, port: str, link: Link) -> None:
    bytes_per_second = link.rate / 8
    # What the kernel sends in one piece may take a quarter of a millisecond of the link; on slow
    # links still 8 KB, since each piece costs processor time.
    piece = min(65536, max(8192, int(bytes_per_second * 250e-6))) if link.rate else 65536
    bucket = max(piece + 2048, int(bytes_per_second * 500e-6))
    queue = max(512 * 1024, int(bytes_per_second * (10e-3 + 2e-6 * link.delay_us)))
    run(enter(node_pid, "net") + ["ip", "link", "set", "eth0", "gso_max_size", str(piece)],
        "set the size of segments")
    for pid, device in ((node_pid, "eth0"), (switch_pid, port)):
        root = ["tc", "qdisc", "replace", "dev", device, "root"]
        if link.rate:
            run(enter(pid, "net") + root + ["tbf", "rate", f"{link.rate}bit", "burst", str(bucket),
                                            "limit", str(queue)],
                "limit the rate", needs="CONFIG_NET_SCH_TBF")
        else:
            run(enter(pid, "net") + root + ["noqueue"], "lift the limit of the rate")


def set_loss(node_pid: int, link: Link) -> None:
    table = enter(node_pid, "net") + ["iptables", "-w", "10", "-t", "raw"]
    run(table + ["-F", "PREROUTING"], "clear the loss", needs="CONFIG_IP_NF_RAW or nf_tables")
    if link.loss:
        run(table + ["-A", "PREROUTING", "-i", "eth0", "-m", "statistic", "--mode", "random",
                     "--probability", f"{link.loss / 100:.8f}", "-j", "DROP"],
            "set the loss", needs="CONFIG_NETFILTER_XT_MATCH_STATISTIC")


def set_delay(node_pid: int, index: int, control: pathlib.Path, link: Link) -> None:
    """Needs the delay program, running."""
    table = enter(node_pid, "net") + ["iptables", "-w", "10", "-t", "mangle"]
    run(table + ["-F", "PREROUTING"], "clear the delay", needs="CONFIG_IP_NF_MANGLE or nf_tables")
    if link.delay_us == 0:
        return
    try:
        pipe = os.open(control, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Refusal(f"the delay program of this cluster has ended ({error.strerror}); "
                      "take the cluster down and up again") from None
    with open(pipe, "w") as file:
        file.write(f"{index} {link.delay_us}\n")
    # Bypass: without the program packets pass at once instead of never.
    run(table + ["-A", "PREROUTING", "-i", "eth0", "-j", "NFQUEUE", "--queue-num", "0",
                 "--queue-bypass"],
        "queue packets for the delay", needs="CONFIG_NETFILTER_NETLINK_QUEUE")


def cut(switch_pid: int, port: str) -> None:
    """Silence: both ends still see a carrier, and nothing passes."""
    run(enter(switch_pid, "net") + ["bridge", "link", "set", "dev", port, "state", "0"], "cut")


def restore(switch_pid: int, port: str) -> None:
    run(enter(switch_pid, "net") + ["bridge", "link", "set", "dev", port, "state", "3"], "restore")


def delay_program() -> pathlib.Path:
    """Builds it where this version of it has not been built yet."""
    source = HERE / "delay.cpp"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = BUILDS / f"delay-{digest}"
    BUILDS.mkdir(parents=True, exist_ok=True)
    with locked(BUILDS, COMPILE_LIMIT):
        if not program.exists():
            compile_program(source, BUILDS / "draft")
            (BUILDS / "draft").rename(program)
    return program


def compile_program(source: pathlib.Path, program: pathlib.Path) -> None:
    try:
        run(["g++", "-std=c++20", "-O2", "-o", str(program), str(source)],
            "build the delay program (Debian: g++ linux-libc-dev)", limit=COMPILE_LIMIT)
    except FileNotFoundError:
        raise Refusal("a delay needs a small program to be built, and there is no g++; "
                      "to install it: apt-get install g++") from None
