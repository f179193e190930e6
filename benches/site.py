"""`sapwood lab site` over a local disk, a distant XRootD server and a pool of XRootD servers, in one study.

The servers are started on this machine: one behind a proxy that adds latency, and a redirector with three data
servers. The files are ESD-like; each storage has files of its own. With ``--keep`` the result goes to
``benches/results``, and `benches/report.py` makes its page.

    benches/site.py [--root PYTHON-WITH-ROOT] [--jobs 1,2,4] [--files 8] [--latency 20] [--budget 2m] [--keep]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

from proxy import Proxy  # noqa: E402 - from there
from xrootd_servers import cluster, single  # noqa: E402

FIND = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
SERVERS = 3


def main() -> int:
    """Start the servers, run the study, keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="a Python that has ROOT")
    parser.add_argument("--jobs", default="1,2,4", help="numbers of jobs")
    parser.add_argument("--files", type=int, default=8, help="files of each job")
    parser.add_argument("--latency", type=float, default=20, help="latency of the distant server, in milliseconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", default="2m", help="begin no measurement of a later round after this time")
    parser.add_argument("--keep", action="store_true", help="keep the result in benches/results")
    parser.add_argument("-o", "--output", type=Path, help="folder of the study's result and page")
    given = parser.parse_args()
    if given.root:
        os.environ["ROOTSYS"] = subprocess.check_output([given.root, "-c", FIND], text=True).strip()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="site", dir="/tmp")))
        output = given.output or folder / "out"
        count = given.files * max(map(int, given.jobs.split(",")))
        local = make(folder / "disk", count)
        far = stack.enter_context(single(local))
        proxy = Proxy(far.port, given.latency / 1000)
        stack.callback(proxy.close)
        held = {
            f"srv{place}": dict(list(local.items())[place::SERVERS]) for place in range(SERVERS)
        }  # each file on one of them
        pool = stack.enter_context(cluster(held))
        distant = f"root://localhost:{proxy.port}/"
        pooled = pool.url("").rstrip("/") + "/"
        command = [sys.executable, "-m", "sapwood", "lab", "site", *map(str, local.values())]
        command += [f"{start}/{name}" for start in (distant, pooled) for name in local]
        command += ["--storage-name", f"local disk={folder / 'disk'}"]
        command += ["--storage-name", f"XRootD at {given.latency:g} ms={distant}"]
        command += ["--storage-name", f"pool of {SERVERS} XRootD servers={pooled}"]
        command += ["--jobs", given.jobs, "--engine", "sapwood,root,raw" if given.root else "sapwood,raw", "--quick"]
        command += ["--rounds", str(given.rounds), "--budget", given.budget, "--fresh", "-o", str(output)]
        command += ["--label", f"local disk, XRootD with {given.latency:g} ms of latency, and a pool, on one machine"]
        code = subprocess.run(command, check=False).returncode
        if not code and given.keep:
            keep(output / "site.json")
    return code


def make(folder: Path, count: int) -> dict[str, Path]:
    """Make files; gives them by name."""
    from sapwood.lab.studies import samples

    folder.mkdir()
    paths = {f"esd{place:02d}.root": folder / f"esd{place:02d}.root" for place in range(count)}
    first, *others = paths.values()
    samples.make("esd", first)
    for path in others:
        shutil.copyfile(first, path)
    return paths


def keep(result: Path) -> None:
    """Copy a result to benches/results, under its date and commit."""
    from sapwood.lab.studies.study import read

    content = read(result)
    when = content["started"][:16].replace(":", "")
    out = HERE / "results" / f"site-{when}-{(content['commit'] or '')[:8]}.json"
    shutil.copyfile(result, out)
    print(f"result: {out}; benches/report.py makes the page of it")


if __name__ == "__main__":
    sys.exit(main())
