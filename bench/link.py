#!/usr/bin/env python3
"""Runs a command at one end of a link between two network namespaces that takes as long, and carries as much, as it is told:
`sudo bench/link.py --delay-ms 0.5 --mbit 1000 -- COMMAND`. The command finds the other end's namespace in LINK_NETNS, to
start servers in (`ip netns exec $LINK_NETNS ...`), and its address in LINK_ADDRESS.

Packets are taken from one TUN device, kept and given to the other, so that both ends' TCP sees a network, with its windows
and its delays. Nothing is lost. One process does it, which manages some 10,000 packets a second; they may be as large as TSO
makes them.
"""

import argparse
import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

NEAR, FAR = "10.201.0.1", "10.201.0.2"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x1, 0x1000, 0x4000
CHECKSUMS_AND_TSO4 = 0x1 | 0x2
PR_SET_TIMERSLACK = 29
# Ethernet's share of a packet, for what a link carries.
FRAME = 38


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def tun_in(namespace, address):
    """A TUN device of this name and address in a namespace, by which this process reads and writes."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{namespace}") as other:
        if libc.setns(other.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"link", flags))
        fcntl.ioctl(device, TUNSETOFFLOAD, CHECKSUMS_AND_TSO4)
        libc.setns(own.fileno(), 0)
    ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "link")
    ip("-n", namespace, "link", "set", "dev", "link", "up", "txqueuelen", "10000")
    ip("-n", namespace, "link", "set", "dev", "lo", "up")
    # After a rest it begins anew as cubic does, Linux' default, and may be chosen in a namespace wherever that may not.
    ip("netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno")
    return device


class Way:
    """One direction: what was read from one device waits until the other may have it."""

    def __init__(self, source, target, delay, bits_per_second):
        self.source, self.target = source, target
        self.delay, self.bits_per_second = delay, bits_per_second
        self.waiting = collections.deque()
        self.free_at = 0.0

    def take(self):
        while True:
            try:
                packet = os.read(self.source, 1 << 17)
            except BlockingIOError:
                return
            now = time.monotonic()
            takes = (len(packet) + FRAME) * 8 / self.bits_per_second
            self.free_at = max(self.free_at, now) + takes
            self.waiting.append((self.free_at + self.delay, packet))

    def give(self):
        """Gives what is due; when the next is."""
        while self.waiting:
            due, packet = self.waiting[0]
            if due > time.monotonic():
                return due
            self.waiting.popleft()
            os.write(self.target, packet)
        return None


def carry(ways, command):
    """Until the command has ended; its exit status."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    by_source = {way.source: way for way in ways}
    ended = os.pidfd_open(command.pid)
    while True:
        nexts = [due for way in ways if (due := way.give()) is not None]
        patience = max(0.0, min(nexts) - time.monotonic()) if nexts else None
        readable, _, _ = select.select([*by_source, ended], [], [], patience)
        for source in readable:
            if source == ended:
                return command.wait()
            by_source[source].take()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=0.5, help="how long a packet takes, each way (default: 0.5)")
    parser.add_argument("--mbit", type=float, default=1000, help="millions of bits a second, each way (default: 1000)")
    parser.add_argument("command", nargs="+", help="what runs at the near end")
    options = parser.parse_args()
    near, far = (f"link-{os.getpid()}-{end}" for end in ("near", "far"))
    made = []
    try:
        for namespace in (near, far):
            ip("netns", "add", namespace)
            made.append(namespace)
        one, other = tun_in(near, NEAR), tun_in(far, FAR)
        told = {**os.environ, "LINK_NETNS": far, "LINK_ADDRESS": FAR}
        command = subprocess.Popen(["ip", "netns", "exec", near, *options.command], env=told)
        limits = (options.delay_ms / 1e3, options.mbit * 1e6)
        return carry([Way(one, other, *limits), Way(other, one, *limits)], command)
    finally:
        for namespace in made:
            ip("netns", "del", namespace)


if __name__ == "__main__":
    sys.exit(main())
