"""Hosts of a test: network namespaces joined by a bridge, each with an sshd that listens there alone.

    with Cluster(3, Path("build/hosts")) as cluster:
        subprocess.run([*cluster.within(), "tickscope", "run", ...])

`within()` runs a command in a namespace of its own, the hub, which reaches the hosts and nothing else; `ssh -F
DIR/ssh_config host1` connects from there. Keys are made anew; nothing outside DIR and the namespaces is touched. What a
killed test left behind is taken away by the next one: names carry the process id of their maker.

By hand: `cluster.py up N DIR`, `cluster.py down DIR`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PREFIX = "tsh"
NETWORK = "10.232.0"
HUB = 254
SSHD = "/usr/sbin/sshd"


def missing():
    """Why there can be no cluster here; None: there can be one."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", SSHD, "ssh", "ssh-keygen"):
        if not shutil.which(program):
            return f"no {program}: install iproute2, openssh-server and openssh-client"
    return None


def run(*words):
    """Runs a command that has to succeed."""
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Cluster:
    """Hosts 1 to `hosts`, and the hub. `user`: who logs in; another one than root gets a home in the folder."""

    serial = 0

    def __init__(self, hosts, folder, user="root", maker=None):
        self.hosts, self.folder, self.user = hosts, Path(folder).resolve(), user
        Cluster.serial += 1
        self.maker = maker or f"{os.getpid()}x{Cluster.serial}"
        self.servers = {}

    def name(self, host):
        """The namespace of a host; 0: the hub."""
        return f"{PREFIX}{self.maker}-{host}"

    def address(self, host):
        """Its address."""
        return f"{NETWORK}.{host or HUB}"

    def within(self, host=0):
        """Words that run a command in a namespace."""
        return ["ip", "netns", "exec", self.name(host)]

    def __enter__(self):
        sweep()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # another user's home may lie below
        try:
            self.make_network()
            self.make_keys()
            for host in range(1, self.hosts + 1):
                self.start_server(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.kill()
            server.wait()
        take_down(self.maker)

    def make_network(self):
        """A bridge in the hub, and a pair of interfaces to each host."""
        for host in range(self.hosts + 1):
            run("ip", "netns", "add", self.name(host))
            run("ip", "-n", self.name(host), "link", "set", "lo", "up")
        hub = self.name(0)
        run("ip", "-n", hub, "link", "add", "bridge0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        run("ip", "-n", hub, "addr", "add", f"{self.address(0)}/24", "dev", "bridge0")
        run("ip", "-n", hub, "link", "set", "bridge0", "up")
        for host in range(1, self.hosts + 1):
            space, port = self.name(host), f"port{host}"
            run("ip", "link", "add", port, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", hub, "link", "set", port, "master", "bridge0", "up")
            run("ip", "-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")

    def make_keys(self):
        """A key of the user, one of the hosts, and the files by which ssh and sshd find them."""
        for key in ("user", "host"):
            (self.folder / key).unlink(missing_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", self.folder / key)
        account = pwd.getpwnam(self.user)
        keys = self.folder / "authorized_keys"
        shutil.copy(self.folder / "user.pub", keys)
        os.chown(keys, account.pw_uid, account.pw_gid)
        keys.chmod(0o600)
        self.home = self.folder / f"home-{self.user}"
        self.home.mkdir(mode=0o700, exist_ok=True)
        os.chown(self.home, account.pw_uid, account.pw_gid)
        host_key = (self.folder / "host.pub").read_text().split(" ", 2)
        (self.folder / "known_hosts").write_text(f"{NETWORK}.* {' '.join(host_key[:2])}\n")
        hosts = "".join(f"Host host{host}\n  HostName {self.address(host)}\n" for host in range(1, self.hosts + 1))
        (self.folder / "ssh_config").write_text(
            f"{hosts}Host *\n  User {self.user}\n  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n"
        )
        # sshd's child that is not trusted yet lives in an empty folder of root.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def start_server(self, host, more=""):
        """An sshd in the host's namespace. Whoever logs in gets the folder's home, and `more` of the configuration."""
        config = self.folder / f"sshd_config-{host}"
        config.write_text(
            f"ListenAddress {self.address(host)}\nHostKey {self.folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            f"SetEnv HOME={self.home} XDG_STATE_HOME={self.home}/state-{host} XDG_CACHE_HOME={self.home}/cache\n{more}"
        )
        words = [*self.within(host), SSHD, "-D", "-e", "-f", config]
        log = open(self.folder / f"sshd-{host}.log", "w")
        self.servers[host] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 10
        listening = ["ip", "netns", "exec", self.name(host), "cat", "/proc/net/tcp"]
        while ":0016 " not in subprocess.run(listening, capture_output=True, text=True).stdout:
            if self.servers[host].poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.folder / f"sshd-{host}.log").read_text())
            time.sleep(0.02)

    def restart_server(self, host, more=""):
        """Its sshd anew, with `more` of the configuration."""
        server = self.servers.pop(host)
        server.kill()
        server.wait()
        self.start_server(host, more)

    def ssh(self, host):
        """Words of a run file's `connect`."""
        return ["ssh", "-F", str(self.folder / "ssh_config"), f"host{host}"]

    def processes(self, host, *words):
        """Processes of a host whose arguments contain these words in this order."""
        listed = subprocess.run(["ip", "netns", "pids", self.name(host)], capture_output=True, text=True).stdout
        found = []
        for pid in listed.split():
            try:
                said = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it ended meanwhile
            if any(tuple(said[at : at + len(words)]) == words for at in range(len(said))):
                found.append(int(pid))
        return found

    def link(self, host, state):
        """Takes the host's interface `down`, or `up`."""
        run("ip", "-n", self.name(host), "link", "set", "eth0", state)


def take_down(maker):
    """Ends what lives in that maker's namespaces, and removes them."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name = line.split(" ")[0]
        if name.startswith(f"{PREFIX}{maker}-"):
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
            for pid in pids.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def sweep():
    """Takes away what killed tests left."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    names = [line.split(" ")[0] for line in listed.splitlines() if line.startswith(PREFIX)]
    makers = {name[len(PREFIX) :].split("-")[0] for name in names}
    for maker in makers:
        pid = maker.split("x")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            take_down(maker)


def by_hand(words):
    """`up N DIR` leaves a cluster there until `down DIR`."""
    folder = Path(words[-1])
    if words[0] == "down":
        take_down((folder / "maker").read_text())
        return
    why = missing()
    if why:
        sys.exit(f"no cluster: {why}")
    cluster = Cluster(int(words[1]), folder, maker=1)  # which lives as long as the machine
    take_down(1)
    cluster.__enter__()
    (folder / "maker").write_text("1")
    print(" ".join(cluster.within()))


if __name__ == "__main__":
    by_hand(sys.argv[1:])
