"""The working configurations of `sites/`: all can be read, and those of one machine and of Slurm run a train."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError

SITES = Path(__file__).resolve().parent.parent.parent / "sites"
FILES, ENTRIES = 6, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites")
    for number in range(FILES):
        with sapwood.recreate(folder / f"f{number}.root") as file:
            tree = file.mktree("t", {"event": "int64", "w": "float64"}, auto_flush=10)
            tree.extend({"event": np.arange(ENTRIES) + number * ENTRIES, "w": np.arange(ENTRIES) / 7.0 + number})
    return folder


class Sums(train.Task):
    """Adds up."""

    branches = ["event", "w"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "event": int(np.sum(events.event)), "w": float(np.sum(np.asarray(events.w)))}


def go(folder: Path, site: dict[str, Any]) -> train.Run:
    settings = {name: value for name, value in site.items() if name != "jobs"}
    return train.run(Sums(), folder, step_size=10, threads=site.get("jobs"), **settings)


def test_settings_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="YAML needs PyYAML")
    found = {path.stem: train.load_site(path) for path in SITES.glob("*/*.yaml")}
    assert {name: site["executor"] for name, site in found.items()} == {
        "threads": "threads", "processes": "processes", "slurm": "slurm", "htcondor": "htcondor",
    }  # fmt: skip
    (tmp_path / "wrong.json").write_text('{"executors": "threads"}')
    with pytest.raises(ArgumentError, match="settings are catalogue, executor"):
        train.load_site(tmp_path / "wrong.json")
    with pytest.raises(ArgumentError, match="cannot be read"):
        train.load_site(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["laptop/threads", "laptop/processes"])
def test_one_machine(folder: Path, name: str) -> None:
    pytest.importorskip("yaml", reason="YAML needs PyYAML")
    outcome = go(folder, train.load_site(SITES / f"{name}.yaml"))
    assert outcome["sums"] == train.run(Sums(), folder, step_size=10, threads=1)["sums"]


SLURM = """
ClusterName=mini
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/run/munge.socket
CryptoType=crypto/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/run/slurmctld.pid
SlurmdPidFile={place}/run/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=n1 Default=YES MaxTime=60 State=UP
"""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Start a Slurm cluster of one node on this machine; gives its folder."""
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install sapwood[dask])")
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name) is None]
    if missing or os.getuid() or not Path("/etc/munge/munge.key").exists():
        pytest.skip(f"needs Slurm and munge (without: {', '.join(missing) or 'a key'}), and to be root")
    place = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # sockets have short paths
    place.chmod(0o711)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name in ("run", "munge", "state", "spool"):
            (place / name).mkdir()
        shutil.chown(place / "run", "munge", "munge")
        shutil.chown(place / "munge", "munge", "munge")
        ports = []
        for _ in range(2):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                ports.append(free.getsockname()[1])
        text = SLURM.format(place=place, ports=ports, host=socket.gethostname(), cpus=os.cpu_count())
        (place / "slurm.conf").write_text(text)
        monkeypatch.setenv("SLURM_CONF", str(place / "slurm.conf"))

        def start(*words: str) -> None:
            with (place / "out").open("ab") as out:
                running.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

        start("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged", "--foreground",
              f"--socket={place}/run/munge.socket", f"--pid-file={place}/munge/pid",
              f"--log-file={place}/munge/log", f"--seed-file={place}/munge/seed")  # fmt: skip
        wait((place / "run" / "munge.socket").exists)
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", "n1")
        wait(lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True).stdout)
        yield place
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(place, ignore_errors=True)


def wait(ready: Any) -> None:
    limit = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < limit, "Slurm does not start"
        time.sleep(0.1)


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_slurm(folder: Path, slurm: Path) -> None:
    site = train.load_site(SITES / "slurm" / "slurm.yaml")
    site["options"] |= {"interface": "lo", "log_directory": str(slurm), "local_directory": str(slurm),
                        "scheduler_options": {"dashboard_address": None}}  # fmt: skip
    site["jobs"] = min(2, os.cpu_count() or 1)
    outcome = go(folder, site)
    assert outcome.executor == "slurm" and outcome.complete
    assert outcome["sums"] == train.run(Sums(), folder, step_size=10, threads=1)["sums"]
