# SPDX-License-Identifier: Apache-2.0
"""Round trip time and rate of TCP between two nodes, as one JSON object.

    daso-cluster exec 0 -- python3 link_probe.py serve
    daso-cluster exec 1 -- python3 link_probe.py measure daso-n0 [MEGABYTES]

The round trip is the median of 200 of one byte; the rate is that of MEGABYTES (10) until the other
side has said that it has them all.
"""
import json
import socket
import statistics
import sys
import time

PORT = 7700
LIMIT = 60  # seconds
ROUNDS = 200
CHUNK = bytes(1 << 16)


def serve() -> None:
    """Answers one client, then ends."""
    with socket.create_server(("", PORT)) as listening:
        listening.settimeout(LIMIT)
        print("ready", flush=True)
        peer, _ = listening.accept()
    with peer:
        peer.settimeout(LIMIT)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUNDS):
            peer.sendall(peer.recv(1))
        buffer = bytearray(len(CHUNK))
        left = int.from_bytes(peer.recv(8, socket.MSG_WAITALL), "big")
        while left > 0:
            count = peer.recv_into(buffer)
            if count == 0:
                sys.exit("the client has left")
            left -= count
        peer.sendall(b"!")


def measure(host: str, megabytes: float) -> dict:
    with socket.create_connection((host, PORT), timeout=LIMIT) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            peer.sendall(b"?")
            peer.recv(1)
            trips.append(time.perf_counter() - begun)
        chunks = max(1, int(megabytes * 1e6 / len(CHUNK)))
        peer.sendall((chunks * len(CHUNK)).to_bytes(8, "big"))
        begun = time.perf_counter()
        for _ in range(chunks):
            peer.sendall(CHUNK)
        peer.recv(1)
        seconds = time.perf_counter() - begun
    return {"round_trip_us": round(statistics.median(trips) * 1e6, 1),
            "megabits_per_second": round(chunks * len(CHUNK) * 8 / seconds / 1e6, 2)}


if sys.argv[1:2] == ["serve"]:
    serve()
else:
    print(json.dumps(measure(sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 10)))
