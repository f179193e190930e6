"""A Slurm cluster of one node on this machine, for tests that submit jobs or start job steps."""

from __future__ import annotations

import contextlib
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

import pytest

NODE = "n1"
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
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=60 State=UP
"""


@contextlib.contextmanager
def slurm_cluster() -> Iterator[Path]:
    """Start the cluster; gives its folder. The commands of Slurm find it by `SLURM_CONF`.

    The test is skipped where Slurm is not installed or cannot be started.
    """
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name) is None]
    if missing or os.getuid() or not Path("/etc/munge/munge.key").exists():
        lacking = ", ".join(missing) or "a key"
        pytest.skip(f"needs Slurm and munge (apt-get install slurm-wlm munge; without: {lacking}), and to be root")
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
        text = SLURM.format(place=place, node=NODE, ports=ports, host=socket.gethostname(), cpus=os.cpu_count())
        (place / "slurm.conf").write_text(text)
        os.environ["SLURM_CONF"] = str(place / "slurm.conf")

        def start(*words: str) -> None:
            with (place / "out").open("ab") as out:
                running.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

        start("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged", "--foreground",
              f"--socket={place}/run/munge.socket", f"--pid-file={place}/munge/pid",
              f"--log-file={place}/munge/log", f"--seed-file={place}/munge/seed")  # fmt: skip
        wait((place / "run" / "munge.socket").exists)
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", NODE)
        wait(lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True).stdout)
        yield place
        wait(lambda: not subprocess.run(["squeue", "-h"], capture_output=True).stdout)  # else what ran them stays
    finally:
        os.environ.pop("SLURM_CONF", None)
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(place, ignore_errors=True)


def wait(ready: Any) -> None:
    """Wait until a function returns something true; a minute at most."""
    limit = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < limit, "it does not get ready"
        time.sleep(0.1)
