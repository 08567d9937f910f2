#!/usr/bin/env python3
"""The Debian package under a real systemd: what is kept over a restart, a crash, an upgrade and a hang, and who is refused meanwhile.

    bench/systemd.py PACKAGE      e.g. cargo xtask deb && bench/systemd.py target/scrubjay_0.1.0_amd64.deb

Needs root, systemd and unshare on this machine, whose own services it does not touch: systemd is started as the first process of
namespaces of its own, over a copy of the root file system in which only what is changed takes memory, with no network but itself.
Ends with 1 if anything asked for is not so.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ITEMS = 5000
ADDRESS = ("127.0.0.1", 11211)
# Seconds after which what was stored is covered by a checksum, as promised.
SETTLED = 1.5

# What the first process of the namespaces does before it becomes systemd. $1 is an empty folder.
BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
if [ -d /sys/fs/cgroup/systemd ]; then
    mkdir sys/fs/cgroup/unified sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
    umount sys/fs/cgroup
    mount -t cgroup2 cgroup2 sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
cp "$2" run/package.deb
cp "$3" run/systemd.py
# What forbids packages to start services in images.
rm -f usr/sbin/policy-rc.d
printf '[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.service\n' > run/begin.target
mkdir -p run/systemd/system
mv run/begin.target run/systemd/system/
ip link set lo up
mkdir old
pivot_root . old
umount -l old
export container=namespaces
exec /lib/systemd/systemd --system --unit=begin.target --show-status=no --log-target=journal
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


def boot(package):
    """Starts systemd, runs `checks` beside it, and returns the status to end with."""
    folder = tempfile.mkdtemp()
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup"]
    script = ["bash", "-c", BOOT, "boot", folder, os.path.realpath(package), os.path.realpath(__file__)]
    outer = subprocess.Popen(inside + script)
    try:
        first = f"/proc/{outer.pid}/task/{outer.pid}/children"
        while outer.poll() is None:
            children = open(first).read().split()
            if children and open(f"/proc/{children[0]}/comm").read() == "systemd\n":
                break
            time.sleep(0.02)
        else:
            sys.exit(f"systemd did not start: {outer.returncode}")
        enter = ["nsenter", "--target", children[0], "--all", "--root", "--wd"]
        return subprocess.call(enter + [shutil.which("python3", path="/usr/bin:/bin"), "/run/systemd.py", "--inside"])
    finally:
        outer.kill()
        outer.wait()
        os.rmdir(folder)


class Table:
    """What was asked and found; prints a row at once."""

    def __init__(self):
        self.is_good = True
        print("| | asked | found | |\n|---|---|---|---|")

    def row(self, what, asked, found):
        is_so = asked(found) if callable(asked) else asked == found
        self.is_good &= is_so
        print(f"| {what} | {asked.__doc__ if callable(asked) else asked} | {found} | {'' if is_so else '**no**'} |", flush=True)


def under(limit):
    def asked(found):
        return found < limit
    asked.__doc__ = f"< {limit}"
    return asked


def unit(*properties):
    lines = run("systemctl", "show", "scrubjay.service", *(f"--property={name}" for name in properties)).splitlines()
    values = dict(line.split("=", 1) for line in lines)
    return values[properties[0]] if len(properties) == 1 else [values[name] for name in properties]


def connect():
    """A connection that was answered, however long that takes, and the seconds it took."""
    start = time.monotonic()
    while time.monotonic() - start < 30:
        try:
            connection = socket.create_connection(ADDRESS)
            if ask(connection, b"mn\r\n") == b"MN\r\n":
                return connection, time.monotonic() - start
        except OSError:
            time.sleep(0.002)
    sys.exit("nobody answered for 30 seconds:\n" + run("journalctl", "--no-pager", "--unit=scrubjay"))


def ask(connection, request, end=b"\r\n"):
    connection.sendall(request)
    reply = b""
    while not reply.endswith(end):
        part = connection.recv(65536)
        if not part:
            raise ConnectionResetError("closed")
        reply += part
    return reply


def fill():
    connection, _ = connect()
    for number in range(ITEMS):
        value = b"value of %d" % number
        assert ask(connection, b"set key-%d 0 0 %d\r\n%s\r\n" % (number, len(value), value)) == b"STORED\r\n"


def kept():
    """Items that are there as they were stored."""
    connection, _ = connect()
    expected = ((number, b"value of %d" % number) for number in range(ITEMS))
    return sum(ask(connection, b"get key-%d\r\n" % number, b"END\r\n").split(b"\r\n")[1:2] == [value]
               for number, value in expected)


def until_other_than(process):
    """Seconds until another process is the unit's main one."""
    start = time.monotonic()
    while unit("MainPID") in (process, "0") and time.monotonic() - start < 30:
        time.sleep(0.02)
    return time.monotonic() - start


class Connects(threading.Thread):
    """Connects, asks and closes, over and over."""

    def __init__(self):
        super().__init__()
        self.is_over = False
        self.served = self.refused = self.cut = 0
        self.start()

    def run(self):
        while not self.is_over:
            try:
                with socket.create_connection(ADDRESS) as connection:
                    ask(connection, b"get key-1\r\n", b"END\r\n")
                self.served += 1
            except ConnectionRefusedError:
                self.refused += 1
            except OSError:
                self.cut += 1

    def end(self):
        self.is_over = True
        self.join()


def checks():
    table = Table()
    print(run("dpkg", "--install", "/run/package.deb"), file=sys.stderr)
    table.row("installed: state", "active", unit("ActiveState"))
    fill()
    time.sleep(SETTLED)
    run("systemctl", "restart", "scrubjay")
    table.row("`systemctl restart`: items kept", ITEMS, kept())
    time.sleep(SETTLED)
    os.kill(int(unit("MainPID")), 9)
    table.row("kill -9: answered by itself after, s", under(2), round(connect()[1], 2))
    table.row("items kept", ITEMS, kept())

    process, (before, _) = unit("MainPID"), connect()
    print(run("dpkg", "--install", "/run/package.deb"), file=sys.stderr)
    until_other_than(process)
    table.row("package installed again: who serves", "another process", "another process" if unit("MainPID") != process else "the same")
    table.row("items kept", ITEMS, kept())
    table.row("a connection from before answers", b"MN\r\n", ask(before, b"mn\r\n"))
    process = unit("MainPID")
    run("systemctl", "reload", "scrubjay")
    table.row("`systemctl reload`: who serves", process, unit("MainPID"))
    os.kill(int(process), 9)
    until_other_than(process)
    table.row("kill -9 after that: items kept", ITEMS, kept())

    os.makedirs("/run/systemd/system/scrubjay.service.d")
    with open("/run/systemd/system/scrubjay.service.d/watchdog.conf", "w") as file:
        file.write("[Service]\nWatchdogSec=2\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "scrubjay")
    process = unit("MainPID")
    time.sleep(5)
    table.row("watchdog of 2 s: after 5 s of work, who serves", process, unit("MainPID"))
    os.kill(int(process), 19)
    table.row("process halted: another one after, s", under(5), round(until_other_than(process), 1))
    table.row("items kept", ITEMS, kept())
    run("systemctl", "stop", "scrubjay")
    table.row("`systemctl stop`: state and result", ["inactive", "success"], unit("ActiveState", "Result"))

    run("systemctl", "start", "scrubjay.socket")
    table.row("scrubjay.socket started: the service", "inactive", unit("ActiveState"))
    fill()
    table.row("connected to: the service", "active", unit("ActiveState"))
    connects = Connects()
    for _ in range(5):
        # Or systemd takes so many starts for a service that can't start.
        run("systemctl", "reset-failed", "scrubjay.service")
        run("systemctl", "restart", "scrubjay")
    connects.end()
    print(f"{connects.served} connections served during five restarts, {connects.cut} cut off", file=sys.stderr)
    table.row("five restarts with systemd's socket: refused", 0, connects.refused)
    table.row("items kept", ITEMS, kept())
    warnings = run("journalctl", "--no-pager", "--output=json", "--unit=scrubjay", "--priority=warning")
    messages = {json.loads(line)["MESSAGE"] for line in warnings.splitlines() if line.startswith("{")}
    print(*sorted(map(str, messages)), sep="\n", file=sys.stderr)
    return 0 if table.is_good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(checks() if sys.argv[1] == "--inside" else boot(sys.argv[1]))
