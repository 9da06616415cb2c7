# SPDX-License-Identifier: Apache-2.0
"""The first process of a node, or of the switch: makes the namespaces into a machine and keeps them.

    first_process.py MARK CLUSTER ROLE HOST HOSTS_FILE

Its end is the end of everything in its PID namespace. It says its number outside, then waits for
the word "stay": should whoever starts the cluster be killed before, the node ends by itself.
"""
import os
import signal
import socket
import subprocess
import sys

SETTINGS = {
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1",
    # A connection's past must not colour the next one's.
    "/proc/sys/net/ipv4/tcp_no_metrics_save": "1",
    # Enough to fill a link of 2.5 Gbit/s and 20 ms.
    "/proc/sys/net/ipv4/tcp_wmem": "4096 65536 16777216",
}


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, timeout=10)


def become_machine(host: str, hosts_file: str) -> None:
    socket.sethostname(host)
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "sysfs", "sysfs", "/sys")  # shows this node's network devices
    mount("-t", "tmpfs", "-o", "size=50%", "tmpfs", "/dev/shm")
    mount("--bind", hosts_file, "/etc/hosts")
    for path, value in SETTINGS.items():
        if os.path.exists(path):  # a kernel without IPv6 has nothing to switch off
            with open(path, "w") as file:
                file.write(value)


def reap_for_ever() -> None:
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass


def main() -> None:
    role, host, hosts_file = sys.argv[3:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    os.chdir("/")
    number_outside = os.readlink("/proc/self")  # as long as /proc is that of outside
    if role == "node":
        become_machine(host, hosts_file)
    print(number_outside, flush=True)
    if sys.stdin.readline() != "stay\n":
        sys.exit("daso-cluster: whoever started this node has gone")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    reap_for_ever()


main()
