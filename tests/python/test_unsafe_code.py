"""Each file with unsafe code has a row in `docs/correctness.md`, and `make sanitize` says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sanitize


def test_each_file_with_unsafe_code_is_in_the_table_of_tools() -> None:
    assert sanitize.unlisted() == []


def test_files_without_a_row_and_rows_without_a_file_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (
        ("crates/a.rs", "#![allow(\n    unsafe_code,\n)]"),
        ("crates/b.rs", "fn f() { unsafe { g() } }"),
        ("crates/c.rs", "// not unsafe at all"),
        ("fuzz/src/d.rs", "unsafe impl Send for T {}"),
        ("docs/correctness.md", f"\n{sanitize.TABLE}\n\n| `crates/b.rs`, `crates/e.rs` | `miri` | |\n\n## After\n"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sanitize, "ROOT", tmp_path)
    assert sanitize.unlisted() == [
        "crates/a.rs: unsafe code without a row in docs/correctness.md",
        "fuzz/src/d.rs: unsafe code without a row in docs/correctness.md",
        "crates/e.rs: a row in docs/correctness.md, but no unsafe code",
    ]


def test_missing_parts_of_the_toolchain_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(code: int) -> None:
        done = subprocess.CompletedProcess([], code, stdout=f"{tmp_path}\n", stderr="")
        monkeypatch.setattr(sanitize.subprocess, "run", lambda *_, **__: done)

    monkeypatch.setattr(sanitize.sys, "argv", ["sanitize.py"])
    answer(1)
    assert sanitize.main() == 1
    assert "NOT RUN: a nightly toolchain not installed" in capsys.readouterr().err
    answer(0)
    monkeypatch.setattr(sanitize.shutil, "which", lambda name: None if name == "valgrind" else name)
    assert sanitize.missing() == ["miri", "rust-src", "valgrind"]


@pytest.mark.parametrize(
    ("output", "code", "good"),
    [
        ("test result: ok. 2 passed; 0 failed; 1 ignored;\ntest result: ok. 3 passed; 0 failed; 0 ignored;", 0, True),
        ("test result: FAILED. 4 passed; 1 failed; 1 ignored;", 101, False),
        ("test result: ok. 0 passed; 0 failed; 0 ignored;", 0, False),
        ("error: could not compile", 101, False),
    ],
)
def test_a_run_without_passed_tests_is_a_failure(
    output: str, code: int, good: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.CompletedProcess([], code, stdout=output)
    monkeypatch.setattr(sanitize.subprocess, "run", lambda *_, **__: done)
    assert sanitize.run("miri sapwood-io", [], {}) is good
    last = capsys.readouterr().out.splitlines()[-1]
    assert ("5 tests passed, 0 failed, 1 ignored" in last) is good, last
    assert ("FAILED" in last) is not good


def test_a_step_without_its_summary_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    for text, code, good in (("3 passed", 0, True), ("3 passed", 1, False), ("none", 0, False)):
        program = f"import sys; print({text!r}); sys.exit({code})"
        assert sanitize.step("name", [sys.executable, "-c", program], {}, r"^(\d+ passed)$") is good
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("name: ok: 3 passed" if good else "name: FAILED"), last
