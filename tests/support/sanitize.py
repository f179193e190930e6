"""Run the tests under Miri, AddressSanitizer, ThreadSanitizer and Valgrind: ``make sanitize``.

    sanitize.py [miri|address|thread|python|replay|start]...    all of them by default

`miri`, `address` and `thread` run the Rust tests, `python` the tests of columns with an extension module compiled for
AddressSanitizer, `replay` the fuzz targets without libFuzzer, and `start` the program that starts processes, with
Valgrind.

It needs a nightly toolchain with Miri and the sources of the standard library, GCC with AddressSanitizer, and Valgrind:

    rustup toolchain install nightly --profile minimal --component miri --component rust-src

Without the toolchain it prints what is missing and fails. Each run prints one line with its counts. A table in
`docs/correctness.md` names the tool for each file that contains unsafe code; `unlisted` returns those without one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MIRI = {
    "sapwood-io": ["process::", "reserve::"],
    "sapwood-root": [
        "wire::swap", "wire::short", "array::wide", "array::mix", "array::pool", "array::pages", "array::mapped",
    ],
}  # fmt: skip
"""Modules with unsafe code that Miri interprets, by crate. Miri does not run C code, nor most calls of the system."""

CRATES = ["sapwood-io", "sapwood-root", "sapwood-lab"]

PYTHON_TESTS = [
    "test_reading_columns", "test_reading_arrays", "test_reading_containers", "test_reading_texts", "test_writing",
    "test_writing_arguments", "test_ntuple_writing", "test_table_engine",
]  # fmt: skip
"""Python tests that pass columns between Rust and NumPy in both directions."""

MUTATIONS = 2000
"""Mutations of the fuzz targets' seeds."""

LINUX = "x86_64-unknown-linux-gnu"

TIMED = "classes_of_many_members_or_versions_are_refused_before_they_are_compiled"

UNSAFE = re.compile(r"allow\(\s*unsafe_code|\bunsafe (?:\{|impl|fn|extern)")

TABLE = "## Unsafe code"
"""The heading of the table in `docs/correctness.md`."""


def with_unsafe() -> list[str]:
    """Return the source files that contain unsafe code."""
    files = [path for folder in ("crates", "fuzz/src", "fuzz/fuzz_targets") for path in (ROOT / folder).rglob("*.rs")]
    return sorted(
        path.relative_to(ROOT).as_posix() for path in files if UNSAFE.search(path.read_text(encoding="utf-8"))
    )


def unlisted() -> list[str]:
    """List files with unsafe code that have no row in the table, and rows of files without unsafe code."""
    text = (ROOT / "docs" / "correctness.md").read_text(encoding="utf-8")
    table = text.partition(f"\n{TABLE}\n")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)}
    there = set(with_unsafe())
    return [f"{path}: unsafe code without a row in docs/correctness.md" for path in sorted(there - listed)] + [
        f"{path}: a row in docs/correctness.md, but no unsafe code" for path in sorted(listed - there)
    ]


def missing() -> list[str]:
    """Return the parts of the nightly toolchain that are not installed."""
    try:
        found = subprocess.run(["rustc", "+nightly", "--print", "sysroot"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ["rustup"]
    if found.returncode:
        return ["a nightly toolchain"]
    sysroot = Path(found.stdout.strip())
    parts = {"miri": sysroot / "bin" / "miri", "rust-src": sysroot / "lib" / "rustlib" / "src" / "rust" / "library"}
    programs = [name for name in ("gcc", "valgrind") if shutil.which(name) is None]
    return [name for name, path in parts.items() if not path.exists()] + programs


def run(name: str, command: list[str], variables: dict[str, str]) -> bool:
    """Run cargo and print the counts of its tests; if it fails, print its output too. Return whether it passed."""
    folder = os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "build" / "sanitize" / name.partition(" ")[0])
    environment = {**os.environ, "CARGO_TARGET_DIR": folder, **variables}
    begin = time.monotonic()
    done = subprocess.run(
        ["cargo", "+nightly", *command],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    result = r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored"
    counts = [[int(word) for word in line] for line in re.findall(result, done.stdout, re.MULTILINE)]
    passed, failed, ignored = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    good = done.returncode == 0 and passed > 0
    if not good:
        print(done.stdout[-20_000:])
    print(
        f"{name}: {'ok' if good else 'FAILED'}: {passed} tests passed, {failed} failed, {ignored} ignored,"
        f" {time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return good


def miri() -> bool:
    """Interpret the modules with unsafe code, for a processor with AVX2; short data take the other branches."""
    variables = {"MIRIFLAGS": "-Zmiri-disable-isolation", "RUSTFLAGS": "-Ctarget-feature=+avx2,+fma"}
    good = True
    for crate, modules in MIRI.items():
        command = ["miri", "test", "-p", crate, "--lib", "--", *modules, "--test-threads=1"]
        good &= run(f"miri {crate}", command, variables)
    return good


def address() -> bool:
    """Run the tests with AddressSanitizer, also in the C libraries that are compiled with them.

    GCC 12 reports constant tables in a function of zstd as used after their scope, although they are static.
    """
    good = True
    for crate in CRATES:
        command = ["test", "--target", LINUX, "-p", crate, "--lib", "--tests"]
        good &= run(f"address {crate}", command, with_address())
    return good


def with_address() -> dict[str, str]:
    """Return the variables for compiling and running with AddressSanitizer."""
    return {
        "RUSTFLAGS": "-Zsanitizer=address",
        f"CFLAGS_{LINUX.replace('-', '_')}": "-fsanitize=address -fno-sanitize-address-use-after-scope",
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "allocator_may_return_null=1"),
    }


def step(name: str, command: list[str], variables: dict[str, str], summary: str) -> bool:
    """Run a command; print its last line that matches `summary`, or all of its output if it fails or has none."""
    begin = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, check=False, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    found = re.findall(summary, done.stdout, re.MULTILINE)
    good = done.returncode == 0 and bool(found)
    if not good:
        print(done.stdout[-20_000:])
    result = f"ok: {found[-1]}" if good else "FAILED"
    print(f"{name}: {result}, {time.monotonic() - begin:.0f} s", flush=True)
    return good


def built(folder: str, arguments: list[str], variables: dict[str, str]) -> Path | None:
    """Build with a nightly toolchain; return the folder of the results, or nothing if that fails."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "build" / "sanitize" / folder)
    command = ["cargo", "+nightly", "build", "--quiet", "--target", LINUX, *arguments]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), **variables}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        print(f"{folder}: FAILED to build", flush=True)
        return None
    return target / LINUX


def python() -> bool:
    """Run the Python tests of columns with an extension module that is compiled for AddressSanitizer.

    The interpreter is not, so that the runtime of GCC is loaded before it. Python allocates each object by itself then,
    so that errors in its objects are found, too.
    """
    # The interpreter and the runtime are not linked into the module.
    variables = {**with_address(), "PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_PYTHON": sys.executable}
    release = built("python", ["--release", "-p", "sapwood-python"], variables)
    if release is None:
        return False
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "sapwood"
        shutil.copytree(ROOT / "python" / "sapwood", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        shutil.copy(release / "release" / "lib_native.so", package / "_native.abi3.so")
        ran = {
            "LD_PRELOAD": runtime.stdout.strip(),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": folder,
        }
        where = subprocess.run(
            [sys.executable, "-c", "import sapwood; print(sapwood.__file__)"],
            env={**os.environ, **ran}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not where.stdout.startswith(folder):
            print(f"python: FAILED: another package was imported: {where.stdout}{where.stderr}")
            return False
        files = [f"tests/python/{name}.py" for name in PYTHON_TESTS]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "1800", *files]
        return step("python", command, ran, r"^(?:=+ )?(\d+ passed.*?)(?: in .*)?$")


def replay() -> bool:
    """Replay the fuzz targets with AddressSanitizer, and with the allocator that counts."""
    variables = with_address()
    arguments = ["--release", "--manifest-path", "fuzz/Cargo.toml", "--no-default-features", "--bin", "replay"]
    release = built("replay", arguments, variables)
    if release is None or subprocess.run([sys.executable, "fuzz/seeds.py"], cwd=ROOT, check=False).returncode:
        return False
    ran = {"ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0"}
    program = str(release / "release" / "replay")
    return step("replay", [program, "--mutations", str(MUTATIONS), "fuzz/seeds"], ran, r"^fuzz replay passed: (.*)$")


def start() -> bool:
    """Run the program that starts processes under Valgrind, which follows forks but not what they become."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "starter"
        options = ["--edition=2024", "-Copt-level=1", "-Cdebuginfo=1", "-Cpanic=abort", "-o", str(program)]
        if subprocess.run(["rustc", *options, "crates/lab/src/start.rs"], cwd=ROOT, check=False).returncode:
            return False
        good = True
        for how in ("fork", "exec", "shell"):
            command = ["valgrind", "--error-exitcode=9", "--leak-check=full", str(program), how, "3"]
            good &= step(f"start {how}", command, {}, r"ERROR SUMMARY: (0 errors) from")
        return good


def thread() -> bool:
    """Run the tests with ThreadSanitizer, also in the standard library; one test limits a time that it exceeds so."""
    variables = {"RUSTFLAGS": "-Zsanitizer=thread", "TSAN_OPTIONS": "allocator_may_return_null=1"}
    good = True
    for crate in CRATES:
        command = ["test", "-Zbuild-std", "--target", LINUX, "-p", crate, "--lib", "--", "--skip", TIMED]
        good &= run(f"thread {crate}", command, variables)
    return good


TOOLS = {
    "miri": miri, "address": address, "thread": thread, "python": python, "replay": replay, "start": start,
}  # fmt: skip


def main() -> int:
    """Run the tools that were named, or all."""
    chosen = sys.argv[1:] or list(TOOLS)
    if unknown := set(chosen) - set(TOOLS):
        print(f"unknown tool {min(unknown)!r}; choose from {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    if parts := missing():
        print(f"sanitize: NOT RUN: {', '.join(parts)} not installed; see tests/support/sanitize.py", file=sys.stderr)
        return 1
    results = [TOOLS[name]() for name in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
