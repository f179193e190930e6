"""The working configurations of `sites/`: all can be read, and run the same train to the same results.

HTCondor is not installed on test machines: its commands are played by scripts, which run the jobs that are submitted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
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


TASKS = """
import numpy as np
from sapwood import train

class Sums(train.Task):
    branches = ["event", "w"]

    def process(self, events):
        return {"n": len(events), "event": int(np.sum(events.event)), "w": float(np.sum(np.asarray(events.w)))}

class Squares(train.Task):
    branches = {"square": "w * w"}

    def process(self, events):
        return {"w": float(np.sum(np.asarray(events.square)))}

class Even(train.Task):
    branches = ["event"]
    cut = "event % 2 == 0"

    def process(self, events):
        return {"n": len(events), "events": set(np.asarray(events.event).tolist())}
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the file of the tasks of the train that all sites run."""
    path = tmp_path_factory.mktemp("tasks") / "tasks.py"
    path.write_text(TASKS)
    return path


def results(outcome: train.Run) -> dict[str, dict[str, Any]]:
    assert outcome.complete
    return {task.name: task.results for task in outcome.tasks}


@pytest.fixture(scope="module")
def expected(tasks: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Give what the train finds on one thread of this process."""
    found = results(train.run(train.load_tasks(tasks), folder, step_size=10, threads=1, read_ahead=0))
    assert found["sums"]["n"] == FILES * ENTRIES and found["even"]["n"] == FILES * ENTRIES // 2
    return found


def go(tasks: Path, folder: Path, site: dict[str, Any]) -> train.Run:
    settings = {name: value for name, value in site.items() if name != "jobs"}
    return train.run(train.load_tasks(tasks), folder, step_size=10, threads=site.get("jobs"), **settings)


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
def test_one_machine(tasks: Path, folder: Path, expected: dict[str, Any], name: str) -> None:
    pytest.importorskip("yaml", reason="YAML needs PyYAML")
    assert results(go(tasks, folder, train.load_site(SITES / f"{name}.yaml"))) == expected


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
        wait(lambda: not subprocess.run(["squeue", "-h"], capture_output=True).stdout)  # else what ran them stays
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
def test_slurm(tasks: Path, folder: Path, expected: dict[str, Any], slurm: Path) -> None:
    site = train.load_site(SITES / "slurm" / "slurm.yaml")
    site["options"] |= {"interface": "lo", "log_directory": str(slurm), "local_directory": str(slurm),
                        "scheduler_options": {"dashboard_address": None}}  # fmt: skip
    site["jobs"] = min(2, os.cpu_count() or 1)
    outcome = go(tasks, folder, site)
    assert outcome.executor == "slurm"
    assert results(outcome) == expected


SUBMIT = """#!{python}
import re, subprocess, sys
from pathlib import Path

place = Path(__file__).parent
text = Path(sys.argv[-1]).read_text()
(place / "submitted").write_text(text)
given = dict(re.findall(r"(?m)^([\\w.]+) = (.*)$", text))
# HTCondor's quoting: arguments are parted by spaces, single quotes hold one together, doubled quotes stand for one.
quoted = given["Arguments"][1:-1].replace('""', '"')
words = [one[1:-1].replace("''", "'") if one[0] == "'" else one for one in re.findall(r"'(?:[^']|'')*'|[^ ]+", quoted)]
with (place / "log").open("ab") as log:
    quiet = {{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}}
    job = subprocess.Popen([given["Executable"], *words], env={{"PATH": "/usr/bin:/bin"}}, cwd=place, **quiet)
(place / f"{{job.pid}}.job").touch()
print(f"Submitting job(s).\\n1 job(s) submitted to cluster {{job.pid}}.")
"""
REMOVE = """#!{python}
import os, signal, sys
from pathlib import Path

for job in sys.argv[1:]:
    number = int(job.partition(".")[0])
    assert (Path(__file__).parent / f"{{number}}.job").exists()
    os.killpg(number, signal.SIGTERM)
"""


@pytest.fixture
def condor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Play `condor_submit` and `condor_rm`: jobs run here, with an environment of their own; gives the folder."""
    for name, text in (("condor_submit", SUBMIT), ("condor_rm", REMOVE)):
        (tmp_path / name).write_text(text.format(python=sys.executable))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield tmp_path
    for job in tmp_path.glob("*.job"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job.stem), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_htcondor_with_played_commands(tasks: Path, folder: Path, expected: dict[str, Any], condor: Path) -> None:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install sapwood[dask])")
    pytest.importorskip("yaml", reason="YAML needs PyYAML")
    site = train.load_site(SITES / "htcondor" / "htcondor.yaml")
    path = os.pathsep.join(filter(None, sys.path))
    site["options"] |= {"interface": "lo", "scheduler_options": {"dashboard_address": None},
                        "job_script_prologue": [f"export PYTHONPATH={path}"]}  # fmt: skip
    site["jobs"] = 2
    outcome = go(tasks, folder, site)
    assert outcome.executor == "htcondor"
    assert results(outcome) == expected
    submitted = (condor / "submitted").read_text()
    for line in ("MY.DaskWorkerCores = 1", "MY.DaskWorkerMemory = 2000000000", "MY.DaskWorkerDisk = 1000000000",
                 "RequestCpus = MY.DaskWorkerCores", "Executable = /bin/sh", "Queue"):  # fmt: skip
        assert line in submitted.splitlines()
    assert "--nthreads 1 " in submitted
    assert len(list(condor.glob("*.job"))) == 2


def why_no_hosts() -> str:
    """Say what is missing for hosts in namespaces, if anything."""
    missing = [name for name in ("ip", "unshare", "nsenter", "xrootd", "cmsd") if shutil.which(name) is None]
    if missing:
        return f"without {', '.join(missing)} (apt-get install iproute2 util-linux xrootd-server xrootd-server-plugins)"
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    tried = subprocess.run(
        ["unshare", *user, "--net", "--mount", "sh", "-c",
         "ip link add name probe type bridge && unshare --user --map-user=1000 true"],
        capture_output=True, text=True,
    )  # fmt: skip
    return f"namespaces are not allowed: {tried.stderr.strip()}" if tried.returncode else ""


def test_three_hosts(tasks: Path, folder: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """A Dask worker and an XRootD server on each of three hosts with a network of their own."""
    pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    if why := why_no_hosts():
        pytest.skip(f"three hosts need network namespaces and XRootD: {why}")
    files = sorted(folder.glob("*.root"))
    done = subprocess.run(
        [SITES / "three-hosts" / "hosts.sh", tasks, *files, "-o", tmp_path / "out", "--step-size", "10", "--json"],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    assert account["complete"] and account["executor"] == "dask" and account["slots"] == 3
    assert {worker["name"].partition(":")[0] for worker in account["workers"]} <= {"h1", "h2", "h3"}
    assert [file["path"] for file in account["files"]] == [f"root://10.77.0.254//store/{file.name}" for file in files]
    found = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert found == {**expected, "even": {**expected["even"], "events": sorted(expected["even"]["events"])}}
