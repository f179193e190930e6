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


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash (apt-get install bash)")
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


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh (apt-get install zsh)")
def test_zsh_completes_commands_options_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "events.root").touch()
    (tmp_path / "_sapwood").write_text(printed(capsys, "completion", "zsh"))
    lines = {
        "me": "sapwood merge ", "merge --rec": "sapwood merge --recluster ", "merge ev": "sapwood merge events.root ",
        "lab ev": "sapwood lab event ",
    }  # fmt: skip
    # A shell in a terminal of its own. What follows Tab clears the line, prints it, and waits for the next.
    keys = "".join(f"type '{words}'\n" for words in lines)
    program = f"""zmodload zsh/zpty
zpty shell zsh -f -i
until [[ "$seen" == *ready* ]]; do
    zpty -w shell 'PROMPT= RPS1= PS2=; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D'
    zpty -w shell 'bindkey ^X^P show'
    zpty -w shell 'show() {{ print -r -- "<$BUFFER>"; BUFFER= }}; zle -N show; print rea""dy'
    zpty -r shell seen '*ready*'
done
type() {{
    zpty -w -n shell "sapwood $1"$'\t\x18\x10'
    zpty -r shell seen '*<*>*'
    print -r -- "${{seen##*<}}"
}}
{keys}"""
    done = subprocess.run(
        ["zsh", "-f", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert [line.partition(">")[0] for line in done.stdout.splitlines() if ">" in line] == list(lines.values())


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish (apt-get install fish)")
def test_fish_completes_commands_options_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "events.root").touch()
    (tmp_path / "sapwood.fish").write_text(printed(capsys, "completion", "fish"))
    wanted = {
        "me": {"merge"}, "merge --rec": {"--recluster"}, "merge ev": {"events.root"}, "lab ev": {"event"},
        "lab event --qui": {"--quick", "--quiet"}, "lab event ev": {"events.root"},
    }  # fmt: skip
    lines = [f"complete -C 'sapwood {words}' | string replace -r '\\t.*' ''; echo ." for words in wanted]
    program = "source sapwood.fish\n" + "\n".join(lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    offered = [set(part.split()) for part in done.stdout.split(".\n")]
    # fish offers what contains the letters, too.
    begin = [words.rpartition(" ")[2] for words in wanted]
    found = [{word for word in own if word.startswith(text)} for own, text in zip(offered, begin, strict=False)]
    assert found == list(wanted.values())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_have_all_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", shell)
    for name, own in commands(parser()):
        assert name.split()[-1] in script
        for action in options(own):
            assert all(flag.lstrip("-") in script for flag in action.option_strings)


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
