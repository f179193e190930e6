"""Completion scripts and the manual page come from the parsers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sapwood.cli import main, parser
from sapwood.cli.completion import commands, options


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def completed(script: str, *words: str) -> set[str]:
    """Return what bash offers behind some words, the last of which is not complete."""
    program = f"""{script}
COMP_WORDS=(sapwood {" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words)}
_sapwood
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.root").touch()
    script = printed(capsys, "completion", "bash")
    assert completed(script, "me") == {"merge"}
    assert completed(script, "merge", "--rec") == {"--recluster"}
    assert completed(script, "merge", "ev") == {"events.root"}
    assert completed(script, "lab", "ev") == {"event"}
    assert completed(script, "lab", "event", "--qui") == {"--quick", "--quiet"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", shell)
    for name, own in commands(parser()):
        assert name.split()[-1] in script
        for action in options(own):
            assert all(flag.lstrip("-") in script for flag in action.option_strings)
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=script, text=True, check=True)


def test_the_manual_page_has_all_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    page = printed(capsys, "man")
    plain = page.replace("\\-", "-")
    for name, own in commands(parser()):
        part = re.search(rf"^\.SS {name}\n(.*?)(?=^\.S[SH] )", plain, re.MULTILINE | re.DOTALL)
        assert part is not None, name
        assert all(flag in part[1] for action in options(own) for flag in action.option_strings)
    assert not re.search(r"^[.'](?!TH |SH |SS |PP|TP|B )", page, re.MULTILINE)
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", "-"], input=page, capture_output=True, text=True)
        assert done.stderr == ""
