"""XRootD servers that tests start: a single one, a redirector with data servers; each in a short folder of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import free_port

COMMON = """
oss.localroot {data}
all.export / r/o
all.adminpath {home}/admin
all.pidpath {home}/run
xrd.network nodnr norpipa
"""
# The times within which a cluster notices what has changed, as short as they can be.
CLUSTER = """
all.manager localhost:{manager}
cms.delay startup 1 lookup 1 qdl 2 suspend 1 service 1 full 2 drop 2
cms.conwait 1
cms.space linger 0 recalc 15 min 1% 1g 2% 2g
"""
WAIT = 60.0
SILENT = 15.0
"""Seconds without a line after which a daemon is started again. Rarely, one hangs before its first line."""


def program(name: str) -> str:
    """Find a program of XRootD; the test is skipped if it is not there."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin:/usr/local/bin")
    if found is None:
        pytest.skip("XRootD is not installed (apt-get install xrootd-server xrootd-server-plugins)")
    return found


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Return a folder with a short name: sockets lie in it, whose names must not be long."""
    with tempfile.TemporaryDirectory(prefix="xrd", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def hand_over(path: Path) -> None:
    """Return everything below to the user that servers run as; root may not run them."""
    if os.geteuid() == 0:
        for one in [path, *path.rglob("*")]:
            shutil.chown(one, "xrootd", "xrootd")


class Process:
    """A daemon; its log is read to know how far it is."""

    def __init__(self, daemon: str, name: str, home: Path, config: Path) -> None:
        self.log = home / "log" / name / f"{daemon}.log"
        command = [program(daemon), "-n", name, "-c", str(config), "-l", str(home / "log" / f"{daemon}.log")]
        if os.geteuid() == 0:
            command[1:1] = ["-R", "xrootd"]
        self._command, self._home = command, home
        self._start()

    def _start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self._command, cwd=self._home, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the log says something; the daemon is ended if it does not."""
        end = time.monotonic() + WAIT
        silent = time.monotonic() + SILENT
        while time.monotonic() < end:
            text = self.log.read_text(errors="replace") if self.log.exists() else ""
            if not text and time.monotonic() > silent:
                self.kill()
                self._start()
                silent = end
            found = re.search(pattern, text)
            if found is not None:
                return found
            time.sleep(0.02)
        self.kill()
        pytest.fail(f"no {pattern!r} in {self.log}:\n{text[-2000:]}")

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)


def prepare(home: Path, data: Path) -> None:
    for part in ("admin", "run", "log"):
        (home / part).mkdir(exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)


class Single:
    """One server; `files` are put into its folder."""

    def __init__(self, home: Path, files: dict[str, Path], extra: str = "") -> None:
        self.home, self.data = home, home / "data"
        for part in ("admin", "run", "log"):
            shutil.rmtree(home / part, ignore_errors=True)
        prepare(home, self.data)
        for name, path in files.items():
            (self.data / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, self.data / name)
        config = home / "server.cfg"
        config.write_text(COMMON.format(home=home, data=self.data) + "xrd.port any\n" + extra)
        hand_over(home)
        self.process = Process("xrootd", "one", home, config)
        self.port = int(self.process.wait_for(r"xrootd \S+@\S+:(\d+) initialization completed")[1])

    def checksums(self, name: str) -> str:
        """Say what the server has kept of checksums that it was asked for."""
        path = self.data / name
        kept = [os.getxattr(path, one) for one in os.listxattr(path) if "XrdCks" in one]
        return " ".join(one.hex() for one in kept)

    def url(self, name: str, scheme: str = "root", user: str = "") -> str:
        return f"{scheme}://{user}localhost:{self.port}//{name}"


@contextlib.contextmanager
def single(files: dict[str, Path], extra: str = "", home: Path | None = None) -> Iterator[Single]:
    """Start a server; `extra` is added to its configuration."""
    program("xrootd")
    with contextlib.nullcontext(home) if home is not None else folder() as place:
        server = Single(place, files, extra)
        try:
            yield server
        finally:
            server.process.send(signal.SIGCONT)
            server.process.kill()


class Cluster:
    """A redirector and data servers; which has which files."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.daemons: dict[str, dict[str, Process]] = {}
        self.ports: dict[str, int] = {}

    def start(self, holdings: dict[str, dict[str, Path]]) -> None:
        home = self.home
        self.ports = {name: free_port() for name in ("man", *holdings)}
        manager = free_port()
        configs: dict[str, Path] = {}
        self.daemons.update({name: {} for name in self.ports})
        for name, port in self.ports.items():
            data = home / "data" / name
            prepare(home, data)
            for file, path in holdings.get(name, {}).items():
                (data / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, data / file)
            role = "server" if name in holdings else "manager"
            ports = f"xrd.port {port} if exec xrootd\n"
            ports += f"xrd.port {manager} if exec cmsd\n" if name == "man" else ""
            configs[name] = home / f"{name}.cfg"
            text = f"all.sitename {name}\nall.role {role}\n" + COMMON + ports + CLUSTER
            configs[name].write_text(text.format(home=home, data=data, manager=manager))
        hand_over(home)
        for name in self.ports:
            self.daemons[name]["cmsd"] = Process("cmsd", name, home, configs[name])
        end = time.monotonic() + WAIT
        while time.monotonic() < end and any(
            not (home / "admin" / name / ".olb" / "olbd.admin").exists() for name in holdings
        ):
            time.sleep(0.02)
        for name in self.ports:
            self.daemons[name]["xrootd"] = Process("xrootd", name, home, configs[name])
        for name in holdings:
            self.daemons["man"]["cmsd"].wait_for(rf"Primary {name} .*logged in")
        self.daemons["man"]["cmsd"].wait_for("manager service enabled")

    def url(self, name: str) -> str:
        return f"root://localhost:{self.ports['man']}//{name}"

    def serving(self, *names: str) -> str:
        """Say which of the data servers has the newest login of a client."""
        logs = {name: self.daemons[name]["xrootd"].log for name in names}
        return max(logs, key=lambda name: len(re.findall(" login", logs[name].read_text(errors="replace"))))

    def stop(self) -> None:
        for daemons in self.daemons.values():
            for daemon in daemons.values():
                daemon.send(signal.SIGCONT)
                daemon.kill()


@contextlib.contextmanager
def cluster(holdings: dict[str, dict[str, Path]]) -> Iterator[Cluster]:
    """Start a redirector and data servers that have files; again, if one does not start: its free port may be taken."""
    program("cmsd")
    for last in (False, False, True):
        with folder() as home:
            started = Cluster(home)
            try:
                try:
                    started.start(holdings)
                except pytest.fail.Exception:
                    if last:
                        raise
                    continue
                yield started
                return
            finally:
                started.stop()
