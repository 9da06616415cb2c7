# SPDX-License-Identifier: Apache-2.0
"""Somebody who has no business with a run and calls its ports nevertheless.

Run as: strangers.py scan|flood ADDRESS SECONDS PORT...
"""
import os
import pathlib
import random
import re
import resource
import socket
import sys
import time

LISTENING = "0A"
NEIGHBOURS = 20   # ports on each side of one that is known
AT_A_TIME = 150   # connections to each port in a flood
SAID = (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 64,
        b"\xff" * 4096, b"SSH-2.0-OpenSSH_9.2\r\n")


def listening_ports(pid: int) -> list[int]:
    """Of a process, in its own network."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    ports = []
    for table in ("tcp", "tcp6"):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTENING and words[9] in inodes:
                ports.append(int(words[1].rpartition(":")[2], 16))
    return ports


def call(address: str, port: int, limit: float) -> socket.socket | None:
    try:
        return socket.create_connection((address, port), timeout=limit)
    except OSError:
        return None


def scan(address: str, ports: list[int], deadline: float) -> None:
    around = {port + step for port in ports for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}
    while time.monotonic() < deadline:
        for port in sorted(around):
            for said in SAID if port in ports else SAID[:1]:
                connection = call(address, port, 0.3)
                if not connection:
                    break
                with connection:
                    try:
                        connection.sendall(said)
                    except OSError:
                        pass


def flood(address: str, ports: list[int], deadline: float) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    draw = random.Random(1)
    while time.monotonic() < deadline:
        held = []
        for port in ports:
            for _ in range(AT_A_TIME):
                connection = call(address, port, 0.3)
                if connection is None or time.monotonic() > deadline:
                    break
                connection.setblocking(False)
                try:
                    connection.send(draw.choice(SAID))
                except OSError:
                    pass
                held.append(connection)
        time.sleep(0.3)
        for connection in held:
            connection.close()


if __name__ == "__main__":
    what, address, seconds, *ports = sys.argv[1:]
    {"scan": scan, "flood": flood}[what](address, [int(port) for port in ports],
                                         time.monotonic() + float(seconds))
