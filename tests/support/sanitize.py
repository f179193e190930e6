"""Run the Rust tests under Miri, AddressSanitizer and ThreadSanitizer: ``make sanitize``.

    sanitize.py [miri|address|thread]...    all three by default

It needs a nightly toolchain with Miri and the sources of the standard library, and a C compiler with AddressSanitizer:

    rustup toolchain install nightly --profile minimal --component miri --component rust-src

Without the toolchain it prints what is missing and fails. Each run prints one line with its counts. A table in
`docs/correctness.md` names the tool for each file that contains unsafe code; `unlisted` returns those without one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MIRI = {
    "sapwood-io": ["process::"],
    "sapwood-root": [
        "wire::swap", "wire::short", "array::wide", "array::mix", "array::pool", "array::pages", "array::mapped",
    ],
}  # fmt: skip
"""Modules with unsafe code that Miri interprets, by crate. Miri does not run C code, nor most calls of the system."""

CRATES = ["sapwood-io", "sapwood-root", "sapwood-lab"]

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
    return [name for name, path in parts.items() if not path.exists()]


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
    target = "x86_64-unknown-linux-gnu"
    variables = {
        "RUSTFLAGS": "-Zsanitizer=address",
        f"CFLAGS_{target.replace('-', '_')}": "-fsanitize=address -fno-sanitize-address-use-after-scope",
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "allocator_may_return_null=1"),
    }
    good = True
    for crate in CRATES:
        good &= run(f"address {crate}", ["test", "--target", target, "-p", crate, "--lib", "--tests"], variables)
    return good


def thread() -> bool:
    """Run the tests with ThreadSanitizer, also in the standard library; one test limits a time that it exceeds so."""
    target = "x86_64-unknown-linux-gnu"
    variables = {"RUSTFLAGS": "-Zsanitizer=thread", "TSAN_OPTIONS": "allocator_may_return_null=1"}
    good = True
    for crate in CRATES:
        command = ["test", "-Zbuild-std", "--target", target, "-p", crate, "--lib", "--", "--skip", TIMED]
        good &= run(f"thread {crate}", command, variables)
    return good


TOOLS = {"miri": miri, "address": address, "thread": thread}


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
