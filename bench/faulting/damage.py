# SPDX-License-Identifier: Apache-2.0
"""Changes a byte of each TCP packet that the kernel puts into a queue, and lets it go on with
checksums that fit: damage that only the receiving program can find. Packets without data pass as
they are. Prints "ready", and at SIGTERM how many bytes were changed.

Run as: damage.py QUEUE
"""
import random
import signal
import socket
import struct
import sys

NETLINK_NETFILTER = 12
QUEUE_SUBSYSTEM = 3
PACKET, VERDICT, CONFIG = 0, 1, 2
REQUEST = 1
BIND, COPY_PACKETS = 1, 2
ACCEPT = 1
# Attributes of a packet, of a verdict, of a configuration.
HEADER, VERDICT_HEADER, PAYLOAD = 1, 2, 10
COMMAND, PARAMETERS = 1, 2


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def message(kind: int, queue: int, *attributes: bytes) -> bytes:
    body = struct.pack("=BB", 0, 0) + struct.pack(">H", queue) + b"".join(attributes)
    return struct.pack("=IHHII", len(body) + 16, QUEUE_SUBSYSTEM << 8 | kind, REQUEST, 0, 0) + body


def attributes_of(body: bytes) -> dict[int, bytes]:
    found = {}
    while len(body) >= 4:
        length, kind = struct.unpack_from("=HH", body)
        if length < 4:
            break
        found[kind & 0x7FFF] = body[4:length]
        body = body[(length + 3) & ~3:]
    return found


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def damaged(packet: bytes, draw: random.Random) -> bytes | None:
    """None: there is no data in it."""
    header = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP or len(packet) < header + 20:
        return None
    data = header + (packet[header + 12] >> 4) * 4
    end = struct.unpack_from(">H", packet, 2)[0]
    if data >= min(end, len(packet)):
        return None
    changed = bytearray(packet)
    changed[draw.randrange(data, min(end, len(packet)))] ^= 1 << draw.randrange(8)
    changed[header + 16:header + 18] = b"\0\0"
    segment = bytes(changed[header:])
    pseudo = packet[12:20] + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(segment))
    struct.pack_into(">H", changed, header + 16, checksum(pseudo + segment))
    return bytes(changed)


def main() -> None:
    queue = int(sys.argv[1])
    count = 0

    def end(*_) -> None:
        print(count, flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    draw = random.Random(queue)
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    link.bind((0, 0))
    bind = struct.pack(">BBH", BIND, 0, socket.AF_INET)
    link.send(message(CONFIG, queue, attribute(COMMAND, bind)))
    link.send(message(CONFIG, queue, attribute(PARAMETERS, struct.pack(">IB", 0xFFFF,
                                                                       COPY_PACKETS))))
    print("ready", flush=True)
    while True:
        received = link.recv(1 << 17)
        while len(received) >= 20:
            length, kind = struct.unpack_from("=IH", received)
            body, received = received[20:length], received[(length + 3) & ~3:]
            if kind != QUEUE_SUBSYSTEM << 8 | PACKET:
                continue
            found = attributes_of(body)
            number = struct.unpack_from(">I", found[HEADER])[0]
            verdict = [attribute(VERDICT_HEADER, struct.pack(">II", ACCEPT, number))]
            changed = damaged(found.get(PAYLOAD, b"\0" * 20), draw)
            if changed is not None:
                verdict.append(attribute(PAYLOAD, changed))
                count += 1
            link.send(message(VERDICT, queue, *verdict))


if __name__ == "__main__":
    main()
