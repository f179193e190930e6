"""Runs the guarded reader: kept while it lives, killed when it hangs, started anew when it has died."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

READER = Path(__file__).parent / "reader.py"
_PATIENCE = 5
"""How many times the time for an answer is given again to a process that has not used as much processor time."""


def _processor_time(pid: int) -> float:
    """Return the processor time of a process in seconds; infinite where the system does not say it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Guard:
    """One reader process and the limits it is held to."""

    def __init__(
        self, intact: Path, scratch: Path, memory: int, seconds: float, command: Sequence[str] = (str(READER),)
    ) -> None:
        self.intact = intact
        self.scratch = scratch
        self.memory = memory
        self.seconds = seconds
        self.command = command
        self.base = 0  # peak memory of a process that has read the intact file alone
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, *self.command, str(self.memory), str(self.intact)]
        environment = {**os.environ, "SAPWOOD_NUM_THREADS": "2", "MALLOC_ARENA_MAX": "2"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        answer = self._line(self.process, max(60, 10 * self.seconds))
        if not answer or not json.loads(answer).get("trees"):
            raise RuntimeError(f"the reader cannot read {self.intact}: {answer!r}\n{self.end()}")
        self.base = json.loads(answer)["peak"]
        return self.process

    @staticmethod
    def _line(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        return process.stdout.readline() if ready else None

    def end(self) -> str:
        """Stop the process; give the end of what it wrote on standard error."""
        if self.process is None:
            return ""
        self.process.kill()
        _, errors = self.process.communicate()
        self.process = None
        return errors.decode(errors="replace")[-1500:]

    def read(self, data: bytes) -> dict[str, Any]:
        """Return the reader's answer, or {"escaped": why} when it died or took too long."""
        self.scratch.write_bytes(data)
        process = self.process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{self.scratch}\n".encode())
        process.stdin.flush()
        before = _processor_time(process.pid)
        answer = self._line(process, self.seconds)
        # On a loaded machine a process may wait for a processor: as long as it has used less, it has more time.
        for _ in range(_PATIENCE):
            if answer is not None or _processor_time(process.pid) - before > self.seconds:
                break
            answer = self._line(process, self.seconds)
        if answer is None:
            used = _processor_time(process.pid) - before
            return {"escaped": f"no answer in {self.seconds} s, {used:.1f} s of processor time\n{self.end()}"}
        if not answer:
            code = process.wait()
            return {"escaped": f"the process ended with {code}\n{self.end()}"}
        return json.loads(answer)
