"""The working configurations of `sites/`: all can be read, and run the same train to the same results.

HTCondor is not installed on test machines: its commands are played by scripts, which run the jobs that are submitted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slurm_cluster import NODE, slurm_cluster, wait

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.train.execution import clusters

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
    """Return the file of the tasks of the train that all sites run."""
    path = tmp_path_factory.mktemp("tasks") / "tasks.py"
    path.write_text(TASKS)
    return path


def results(outcome: train.Run) -> dict[str, dict[str, Any]]:
    assert outcome.complete
    return {task.name: task.results for task in outcome.tasks}


@pytest.fixture(scope="module")
def expected(tasks: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the train finds on one thread of this process."""
    found = results(train.run(train.load_tasks(tasks), folder, step_size=10, threads=1, read_ahead=0))
    assert found["sums"]["n"] == FILES * ENTRIES and found["even"]["n"] == FILES * ENTRIES // 2
    return found


def go(tasks: Path, folder: Path, site: dict[str, Any]) -> train.Run:
    settings = {name: value for name, value in site.items() if name != "jobs"}
    return train.run(train.load_tasks(tasks), folder, step_size=10, threads=site.get("jobs"), **settings)


def test_settings_can_be_read(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
    found = {path.stem: train.load_site(path) for path in SITES.glob("*/*.yaml")}
    assert {name: site["executor"] for name, site in found.items()} == {
        "threads": "threads", "processes": "processes", "slurm": "slurm", "htcondor": "htcondor",
    }  # fmt: skip
    (tmp_path / "wrong.json").write_text('{"executors": "threads"}')
    with pytest.raises(ArgumentError, match="has the unknown key 'executors'; choose from catalogue, executor"):
        train.load_site(tmp_path / "wrong.json")
    with pytest.raises(ArgumentError, match="cannot be read"):
        train.load_site(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["laptop/threads", "laptop/processes"])
def test_one_machine(tasks: Path, folder: Path, expected: dict[str, Any], name: str) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
    assert results(go(tasks, folder, train.load_site(SITES / f"{name}.yaml"))) == expected


@pytest.fixture
def slurm() -> Iterator[Path]:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install sapwood[dask])")
    with slurm_cluster() as place:
        yield place


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_slurm(tasks: Path, folder: Path, expected: dict[str, Any], slurm: Path) -> None:
    site = train.load_site(SITES / "slurm" / "slurm.yaml")
    site["options"] |= {"interface": "lo", "log_directory": str(slurm), "local_directory": str(slurm),
                        "scheduler_options": {"dashboard_address": None}}  # fmt: skip
    site["jobs"] = min(2, os.cpu_count() or 1)
    outcome = go(tasks, folder, site)
    assert outcome.executor == "slurm"
    assert results(outcome) == expected


SLOW = """
import time
from pathlib import Path
from sapwood import train


class Slow(train.Task):
    branches = ["w"]

    def process(self, events):
        Path({began!r}).touch()
        time.sleep(600)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(240)
def test_a_node_of_slurm_that_goes_down_ends_the_run(
    tmp_path: Path, folder: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run gets no other worker: its only node is down, and the job waits."""
    text = SLOW.format(began=str(tmp_path / "began"))
    (tmp_path / "slow.py").write_text(text)
    monkeypatch.setattr(clusters, "_PATIENCE", 5.0)
    monkeypatch.setattr(clusters, "_ASKED_AGAIN", 2.0)
    site = train.load_site(SITES / "slurm" / "slurm.yaml") | {"jobs": 1}
    site["options"] |= {"interface": "lo", "log_directory": str(slurm), "local_directory": str(slurm),
                        "scheduler_options": {"dashboard_address": None}}  # fmt: skip

    ended = threading.Event()

    def keep_down() -> None:
        wait((tmp_path / "began").exists)
        while not ended.wait(1):  # this cluster returns nodes to service
            subprocess.run(["scontrol", "update", f"nodename={NODE}", "state=down", "reason=test"], check=False)

    down = threading.Thread(target=keep_down)
    down.start()
    try:
        with pytest.raises(SapwoodError, match=rf"all workers of slurm are gone.*job \d+ is .*node {NODE} is down"):
            go(tmp_path / "slow.py", folder, site)
    finally:
        ended.set()
        down.join()
        subprocess.run(["scontrol", "update", f"nodename={NODE}", "state=resume"], check=False)
        subprocess.run(["scancel", f"--user={os.getuid()}"], check=False)


SUBMIT = """#!{python}
import re, sys
from pathlib import Path

place = Path(__file__).parent
if (place / "refuses").exists():
    sys.exit("ERROR: Failed to connect to local queue manager")
number = 1 + max((int(job.stem) for job in place.glob("*.ad")), default=0)
text = Path(sys.argv[-1]).read_text()
assert text.splitlines()[-1] == "Queue"
(place / f"{{number}}.ad").write_text(text)
(place / f"{{number}}.idle").touch()
print(f"Submitting job(s).\\n1 job(s) submitted to cluster {{number}}.")
"""
REMOVE = """#!{python}
import sys
from pathlib import Path

for job in sys.argv[1:]:
    cluster, process = map(int, job.split("."))
    assert process == 0 and (Path(__file__).parent / f"{{cluster}}.ad").exists()
    (Path(__file__).parent / f"{{cluster}}.removed").touch()
"""


class Pool:
    """Plays an HTCondor pool: a queue, and two slots that run its jobs in folders and environments of their own.

    As in HTCondor, jobs wait in the queue until a slot is free, and a job that is killed where it ran goes back there.
    """

    slots = 2

    def __init__(self, place: Path) -> None:
        self.place = place
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.starts: list[int] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._negotiate)
        for name, text in (("condor_submit", SUBMIT), ("condor_rm", REMOVE)):
            (place / name).write_text(text.format(python=sys.executable))
            (place / name).chmod(0o755)
        self._thread.start()

    def ad(self, job: int) -> dict[str, str]:
        """Return what was submitted, with its macros filled in."""
        given = dict(re.findall(r"(?m)^([\w.]+) = (.*)$", (self.place / f"{job}.ad").read_text()))
        known = {"$(ClusterId)": str(job), "$(ProcId)": "0", "$F(MY.JobId)": f"{job}.0"}
        return {name: functools.reduce(lambda t, m: t.replace(*m), known.items(), text) for name, text in given.items()}

    def evict(self, job: int) -> None:
        """Kill a job where it runs."""
        os.killpg(self.running[job].pid, signal.SIGKILL)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        for job in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def _negotiate(self) -> None:
        while not self._ends.wait(0.05):
            for job, process in list(self.running.items()):
                if (self.place / f"{job}.removed").exists() and process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                if process.poll() is not None:
                    del self.running[job]
                    if process.returncode < 0 and not (self.place / f"{job}.removed").exists():
                        (self.place / f"{job}.idle").touch()
            for path in sorted(self.place.glob("*.idle"), key=lambda path: int(path.stem)):
                if (self.place / f"{path.stem}.removed").exists():
                    path.unlink()
                elif len(self.running) < self.slots:
                    path.unlink()
                    self._start(int(path.stem))

    def _start(self, job: int) -> None:
        self.starts.append(job)
        given = self.ad(job)
        # Arguments are parted by spaces, single quotes hold one together, doubled quotes stand for one.
        quoted = given["Arguments"][1:-1].replace('""', '"')
        words = [one[1:-1].replace("''", "'") if one[0] == "'" else one
                 for one in re.findall(r"'(?:[^']|'')*'|[^ ]+", quoted)]  # fmt: skip
        scratch = self.place / f"dir_{len(self.starts)}"
        scratch.mkdir()
        environment = {"PATH": "/usr/bin:/bin", "_CONDOR_SCRATCH_DIR": str(scratch), "TMPDIR": str(scratch)}
        with (self.place / "log").open("ab") as log:
            quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.running[job] = subprocess.Popen(
                ["condor_exec.exe", *words], executable=given["Executable"], cwd=scratch, env=environment,
                start_new_session=True, **quiet,
            )  # fmt: skip


@pytest.fixture
def condor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Play a pool with the commands `condor_submit` and `condor_rm`."""
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install sapwood[dask])")
    pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")
    place = tmp_path / "pool"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    pool = Pool(place)
    yield pool
    pool.close()


def condor_site() -> dict[str, Any]:
    site = train.load_site(SITES / "htcondor" / "htcondor.yaml")
    path = os.pathsep.join(filter(None, sys.path))
    site["options"] |= {"interface": "lo", "scheduler_options": {"dashboard_address": None},
                        "job_script_prologue": [f"export PYTHONPATH={path}"]}  # fmt: skip
    return site


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_a_played_htcondor_pool(tasks: Path, folder: Path, expected: dict[str, Any], condor: Pool) -> None:
    outcome = go(tasks, folder, condor_site() | {"jobs": 3})
    assert outcome.executor == "htcondor"
    assert results(outcome) == expected
    given = condor.ad(1)
    assert given | {"MY.DaskWorkerCores": "1", "MY.DaskWorkerMemory": "2000000000", "MY.DaskWorkerDisk": "1000000000",
                    "RequestCpus": "MY.DaskWorkerCores", "Executable": "/bin/sh"} == given  # fmt: skip
    assert "--nthreads 1 " in given["Arguments"]
    wait(lambda: not condor.running)
    assert {job.stem for job in condor.place.glob("*.ad")} == {job.stem for job in condor.place.glob("*.removed")}
    assert len(outcome.workers) <= 2  # the third has waited in the queue, and nobody for it


class Evicted(train.Task):
    """Has a job of the pool evicted, and goes on when it runs again."""

    branches = ["event"]
    place = ""

    def process(self, events: Any) -> dict[str, Any]:
        place, limit = Path(self.place), time.monotonic() + 60
        (place / "at_work").touch()
        while not (place / "runs_again").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        return {"n": len(events), "sum": int(np.sum(events.event))}


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
def test_a_job_of_a_played_pool_that_is_evicted(folder: Path, condor: Pool) -> None:
    """HTCondor runs it again, and its worker comes back under the same name."""
    condor.slots = 1
    task = Evicted()
    task.place = str(condor.place)

    def evict() -> None:
        wait((condor.place / "at_work").exists)
        time.sleep(2)  # it is looked for workers once a second
        condor.evict(1)
        wait(lambda: condor.starts == [1, 1])
        (condor.place / "runs_again").touch()

    beside = threading.Thread(target=evict)
    beside.start()
    site = condor_site()
    outcome = train.run(task, folder, step_size=10, executor="htcondor", threads=1, options=site["options"])
    beside.join()
    assert outcome["evicted"] == {"n": FILES * ENTRIES, "sum": sum(range(FILES * ENTRIES))}
    assert outcome.complete and any("is gone" in lost for lost in outcome.trace["lost"])


@pytest.mark.filterwarnings("ignore")  # of the packages of Dask
@pytest.mark.timeout(60)
def test_a_batch_system_that_takes_no_jobs(
    tasks: Path, folder: Path, condor: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (condor.place / "refuses").touch()
    with pytest.raises(SapwoodError, match="htcondor does not take jobs of workers: ERROR: Failed to connect"):
        go(tasks, folder, condor_site())
    with pytest.raises(ArgumentError, match=r"HTCondorCluster: .*cores"):
        train.executor_of("htcondor", 1)
    monkeypatch.setenv("PATH", "/nowhere")
    for name, word in (("htcondor", "condor_submit"), ("slurm", "sbatch")):
        with pytest.raises(ArgumentError, match=f"{name} needs the command {word}, which is not installed"):
            train.executor_of(name, 1, options={"cores": 1, "memory": "1GB"})


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


MEETS = """
import os, socket, time
from pathlib import Path
from sapwood.train import Task

class Meets(Task):
    "Waits for tasks on two other hosts, and names them all by what they are for the kernel."

    branches = ["event"]

    def process(self, events):
        place, limit = Path({place!r}), time.monotonic() + 60
        (place / socket.gethostname()).touch()
        while len(list(place.iterdir())) < 3 and time.monotonic() < limit:
            time.sleep(0.02)
        return {{"hosts": {{socket.gethostname()}}, "networks": {{os.readlink("/proc/self/ns/net")}}}}
"""


def test_three_hosts(tasks: Path, folder: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """A Dask worker and an XRootD server on each of three hosts with a network of their own; all of them work."""
    pytest.importorskip("distributed", reason="needs dask.distributed (pip install sapwood[dask])")
    if why := why_no_hosts():
        pytest.skip(f"three hosts need network namespaces and XRootD: {why}")
    files = sorted(folder.glob("*.root"))
    (tmp_path / "met").mkdir()
    (tmp_path / "meets.py").write_text(MEETS.format(place=str(tmp_path / "met")))
    done = subprocess.run(
        [SITES / "three-hosts" / "hosts.sh", tasks, *files, "-o", tmp_path / "out", "--step-size", "10", "--json",
         tmp_path / "meets.py"],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    assert account["complete"] and account["executor"] == "dask" and account["slots"] == 3
    workers = {worker["name"].partition(":")[0]: worker for worker in account["workers"]}
    assert workers.keys() == {"h1", "h2", "h3"} and all(worker["entries"] for worker in workers.values())
    assert [file["path"] for file in account["files"]] == [f"root://10.77.0.254//store/{file.name}" for file in files]
    found = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    met = found.pop("meets")
    assert met["hosts"] == ["h1", "h2", "h3"]
    assert len(met["networks"]) == 3 and str(Path("/proc/self/ns/net").readlink()) not in met["networks"]
    assert found == {**expected, "even": {**expected["even"], "events": sorted(expected["even"]["events"])}}


def test_ctrl_c_has_its_handler_after_a_batch_system_was_named() -> None:
    """The import of dask-jobqueue sets another one, which would end a train without its results so far."""
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue (pip install sapwood[dask])")
    program = """
import signal, sys, threading
from sapwood import train
from sapwood.errors import ArgumentError
def name():
    try:
        train.executor_of("htcondor", 1)
    except ArgumentError as error:
        print(error)
if sys.argv[1] == "thread":
    thread = threading.Thread(target=name)
    thread.start()
    thread.join()
else:
    name()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    for where in ("main", "thread"):
        environment = os.environ | {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", program, where], capture_output=True, text=True, env=environment)
        assert done.stdout.splitlines()[-1:] == ["True"] and "condor_submit" in done.stdout, done.stderr
