"""Damaged files give an error of sapwood's or a result: never a panic, a hang, a crash, or memory without bound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mutate
import numpy as np
import pytest
import uproot
from guard import Guard

SEED = 20260101
# How many random mutations: `make damage` and CI ask for 5,000; with fewer, fewer bytes and lengths are tried too.
MUTATIONS = int(os.environ.get("SAPWOOD_MUTATIONS", "400"))
STRIDE = max(1, 5000 // MUTATIONS)
# What a file of under a megabyte may take beyond what the process had before (docs/guide/damaged-files.md).
MEMORY = 512 << 20
SECONDS = 5.0
CODECS = ("plain", "zlib", "lz4", "zstd", "lzma")
# Where the file of a failure is kept, with the steps that are needed for it alone.
KEPT = Path("build/damage")
WORKERS = 2
GOLDEN = Path(__file__).parent.parent / "golden" / "objects"

pytestmark = pytest.mark.timeout(900)


def write(path: Path, compression: Any) -> None:
    """Write a small file with every shape that uproot writes."""
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, 60)
    jagged = np.split(rng.normal(size=counts.sum()).astype(np.float32), np.cumsum(counts)[:-1])
    with uproot.recreate(path, compression=compression) as file:
        columns = {"i": np.arange(60), "x": rng.normal(size=(60, 2)), "b": np.arange(60) % 3 == 0}
        file.mktree("t", {name: (values.dtype, values.shape[1:]) for name, values in columns.items()})
        file["t"].extend(columns)
        file.mktree("dir/u", {"v": "var * float32", "k": "int16"})
        for begin in (0, 30):
            part = slice(begin, begin + 30)
            file["dir/u"].extend({"v": jagged[part], "k": np.arange(60, dtype=np.int16)[part]})


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory, corpus_if_present: Path | None) -> dict[str, Path]:
    """Return the files to damage: some are written here, and small ones of the corpus when it is there."""
    folder = tmp_path_factory.mktemp("samples")
    found = {}
    codecs = {
        "plain": None,
        "zlib": uproot.ZLIB(1),
        "lz4": uproot.LZ4(1),
        "zstd": uproot.ZSTD(1),
        "lzma": uproot.LZMA(1),
    }
    for name, compression in codecs.items():
        found[name] = folder / f"{name}.root"
        write(found[name], compression)
    found["objects"] = GOLDEN / "plain.root"
    for path in sorted((corpus_if_present / "files").glob("*.root")) if corpus_if_present else []:
        if path.stat().st_size < 30_000:
            found[path.stem] = path
    return found


@pytest.fixture(scope="session")
def guards(samples: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Guard]]:
    """Return the guarded processes."""
    folder = tmp_path_factory.mktemp("scratch")
    found = [Guard(samples["plain"], folder / f"{n}.root", MEMORY, SECONDS) for n in range(WORKERS)]
    yield found
    for guard in found:
        guard.end()


Case = tuple[str, bytes, list[mutate.Step]]
Check = Callable[[dict[str, Any]], str | None]


def escaped(answer: dict[str, Any]) -> str | None:
    """Return what went wrong, or None."""
    return answer.get("escaped")


def reduce(guard: Guard, data: bytes, steps: list[mutate.Step], check: Check) -> list[mutate.Step]:
    """Leave out every step that the failure does not need."""
    for step in list(steps):
        fewer = [s for s in steps if s is not step]
        if check(guard.read(mutate.apply(data, fewer))):
            steps = fewer
    return steps


def run(guards: list[Guard], cases: list[Case], check: Check = escaped) -> None:
    """Read every case; keep the damaged file of each failure under build/damage."""

    def work(number: int) -> tuple[list[str], int, int]:
        guard, failures, peak, readable = guards[number], [], 0, 0
        for name, data, steps in cases[number :: len(guards)]:
            answer = guard.read(mutate.apply(data, steps))
            peak = max(peak, answer.get("peak", 0) - guard.base)
            readable += bool(answer.get("trees") or answer.get("objects"))
            if why := check(answer):
                needed = reduce(guard, data, steps, check)
                KEPT.mkdir(parents=True, exist_ok=True)
                path = KEPT / f"{name.replace(' ', '-')}.root"
                path.write_bytes(mutate.apply(data, needed))
                failures.append(f"{name}: {needed}\n  kept as {path}\n  {why}")
                if len(failures) == 10:
                    break
        return failures, peak, readable

    with ThreadPoolExecutor(len(guards)) as pool:
        results = list(pool.map(work, range(len(guards))))
    failures = [failure for found, _, _ in results for failure in found]
    readable = sum(count for _, _, count in results)
    peak = max(peak for _, peak, _ in results) / 1e6
    print(f"{len(cases)} damaged files, {readable} of them with something left; {peak:.0f} MB of memory at most")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures)


# Of which samples every byte is changed, and every length tried, or every so many. The compressed file differs from the
# plain one only in the bytes of its baskets.
FLIPPED = {"plain": 1, "zstd": 4, "objects": 16}
CUT = {"plain": 1, "zstd": 4, "objects": 16}


def test_intact_files_are_read(guards: list[Guard], samples: dict[str, Path]) -> None:
    """Without this, refusing everything would pass."""
    for name in CODECS:
        trees = guards[0].read(samples[name].read_bytes())["trees"]
        assert {key: tree["entries"] for key, tree in trees.items()} == {"t;1": 60, "dir/u;1": 60}
        assert all(value for tree in trees.values() for value in tree["branches"].values()), trees
    objects = guards[0].read(samples["objects"].read_bytes())["objects"]
    assert len(objects) == 23 and all(objects.values()), objects


def test_every_byte_flipped(guards: list[Guard], samples: dict[str, Path]) -> None:
    cases: list[Case] = []
    for name, stride in FLIPPED.items():
        data = samples[name].read_bytes()
        places = range(0, len(data), stride * STRIDE)
        cases += [(f"flip {name} {at}", data, mutate.flip(data, at)) for at in places]
    run(guards, cases)


def test_every_length_cut_off(guards: list[Guard], samples: dict[str, Path]) -> None:
    """What can still be read of a file that was cut off has the values of the whole file."""
    for name, stride in CUT.items():
        data = samples[name].read_bytes()
        whole = guards[0].read(data)["trees"]

        def check(answer: dict[str, Any], whole: dict[str, Any] = whole) -> str | None:
            if "escaped" in answer:
                return answer["escaped"]
            for key, tree in (answer["trees"] or {}).items():
                if tree and tree["entries"] == whole[key]["entries"]:
                    for branch, value in tree["branches"].items():
                        if value not in (None, whole[key]["branches"][branch]):
                            return f"{key} {branch} has other values"
            return None

        lengths = range(0, len(data), stride * STRIDE)
        run(guards, [(f"cut {name} {length}", data, mutate.cut(data, length)) for length in lengths], check)


def test_random_mutations(guards: list[Guard], samples: dict[str, Path]) -> None:
    names = list(samples)
    contents = {name: path.read_bytes() for name, path in samples.items()}
    cases: list[Case] = []
    for number in range(MUTATIONS):
        name, other = names[number % len(names)], names[(number * 7 + 1) % len(names)]
        steps = mutate.steps(contents[name], contents[other], SEED + number)
        cases.append((f"mutation {number} {name}", contents[name], steps))
    run(guards, cases)


def test_a_directory_inside_itself(guards: list[Guard], tmp_path: Path) -> None:
    """A key may point back to a directory around it: listing must end."""
    path = tmp_path / "loop.root"
    with uproot.recreate(path, compression=None) as file:
        file.mkdir("outer/inner")
        file.mktree("outer/inner/t", {"i": "int32"})
    data = path.read_bytes()
    with uproot.open(path) as file:
        inner = file["outer"].key("inner").fSeekKey.to_bytes(4, "big")
        outer = file.key("outer").fSeekKey.to_bytes(4, "big")
    steps = [mutate.Step(at, 4, outer) for at in range(len(data) - 4) if data[at : at + 4] == inner]
    assert steps
    run(guards, [("loop", data, steps)])
