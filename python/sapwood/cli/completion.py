"""`sapwood completion` and `sapwood man`: completion scripts and the manual page, made from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


def _below(action: argparse.Action) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands that an action offers."""
    choices: Any = action.choices
    return dict(choices) if isinstance(choices, dict) else {}


def commands(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command and subcommand, such as ``lab event``, with its parser."""
    for action in parser._actions:
        choices = _below(action)
        if choices:
            for name, own in choices.items():
                yield f"{prefix}{name}", own
                yield from commands(own, f"{prefix}{name} ")


def options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options of a command."""
    return [action for action in parser._actions if action.option_strings]


def _words(top: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return the words that can follow each command: subcommands and options. The key "" is the program itself."""
    each = [("", top), *commands(top)]
    names = [name for name, _ in each[1:]]
    found: dict[str, list[str]] = {}
    for name, parser in each:
        prefix = f"{name} " if name else ""
        below = [one.removeprefix(prefix) for one in names if one.startswith(prefix)]
        flags = [flag for action in options(parser) for flag in action.option_strings]
        found[name] = [one for one in below if " " not in one] + flags
    return found


def bash(top: argparse.ArgumentParser) -> str:
    """Return a completion script for bash."""
    words = _words(top)
    deep = sorted({name.partition(" ")[0] for name in words if " " in name})
    cases = "\n".join(f"        {name!r}) words={' '.join(own)!r} ;;" for name, own in words.items())
    return f"""# Completion of sapwood for bash. Put it into ~/.local/share/bash-completion/completions/sapwood
_sapwood() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" command="" words=""
    if [ "$COMP_CWORD" -gt 1 ]; then command="${{COMP_WORDS[1]}}"; fi
    case "$command" in {"|".join(deep)})
        if [ "$COMP_CWORD" -gt 2 ]; then command="$command ${{COMP_WORDS[2]}}"; fi ;;
    esac
    case "$command" in
{cases}
    esac
    COMPREPLY=()
    case "$command:$current" in
        :*|*:-*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
        *) case "$words" in
            [a-z]*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
            *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        esac ;;
    esac
}}
complete -o filenames -F _sapwood sapwood
"""


def zsh(top: argparse.ArgumentParser) -> str:
    """Return a completion script for zsh."""
    words = _words(top)
    deep = sorted({name.partition(" ")[0] for name in words if " " in name})
    offers = {name: " ".join(repr(one) for one in own) for name, own in words.items()}
    cases = "\n".join(f"        {name!r}) offered=({own}) ;;" for name, own in offers.items())
    return f"""#compdef sapwood
# Completion of sapwood for zsh. Put it as _sapwood into a folder of $fpath.
_sapwood() {{
    local command="" current="${{words[CURRENT]}}"
    local -a offered
    if (( CURRENT > 2 )); then command="${{words[2]}}"; fi
    case "$command" in {"|".join(deep)})
        if (( CURRENT > 3 )); then command="$command ${{words[3]}}"; fi ;;
    esac
    case "$command" in
{cases}
    esac
    if [[ -z "$command" || "$current" == -* || "${{offered[1]}}" != -* ]]; then
        compadd -- "${{offered[@]}}"
    else
        _files
    fi
}}
_sapwood "$@"
"""


def fish(top: argparse.ArgumentParser) -> str:
    """Return a completion script for fish."""
    lines = [
        "# Completion of sapwood for fish. Put it into ~/.config/fish/completions/sapwood.fish",
        "function __sapwood_behind -d 'Whether the words before the cursor begin with a command'",
        '    string match -q -- "sapwood $argv *" "$(commandline -opc | string join \' \') "',
        "end",
        "function __sapwood_at -d 'Whether the words before the cursor are a command'",
        "    test \"$(commandline -opc | string join ' ')\" = \"$(string join ' ' sapwood $argv)\"",
        "end",
    ]
    deep = {name.rpartition(" ")[0] for name, _ in commands(top)}
    lines += [f"complete -c sapwood -n '{f'__sapwood_at {one}'.strip()}' -f" for one in sorted(deep)]
    for name, parser in commands(top):
        above, _, last = name.rpartition(" ")
        text = _quoted(parser.description or "")
        lines.append(f"complete -c sapwood -n '{f'__sapwood_at {above}'.strip()}' -f -a {last} -d {text}")
        for action in options(parser):
            flags = " ".join(_fish_flag(flag) for flag in action.option_strings)
            value = "" if action.nargs == 0 else " -r"
            lines.append(f"complete -c sapwood -n '__sapwood_behind {name}' {flags}{value} -d {_quoted(_help(action))}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: str) -> str:
    if flag.startswith("--"):
        return f"-l {flag[2:]}"
    return f"-s {flag[1:]}" if len(flag) == 2 else f"-o {flag[1:]}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default, "prog": "sapwood"}


def manual(top: argparse.ArgumentParser) -> str:
    """Return the manual page in the language of man(7)."""
    from sapwood._native import __version__

    lines = [f'.TH SAPWOOD 1 "" "sapwood {__version__}"', ".SH NAME", "sapwood \\- read, write and measure ROOT files"]
    lines += [".SH SYNOPSIS", ".B sapwood", "COMMAND [OPTIONS]", ".SH DESCRIPTION", _roff(top.description or "")]
    lines.append(".SH COMMANDS")
    for name, parser in commands(top):
        lines += [f".SS {name}", _roff(parser.description or ""), ".PP"]
        for action in parser._actions:
            if _below(action):
                continue
            value = "" if action.nargs == 0 else str(action.metavar or action.dest)
            head = f"{', '.join(action.option_strings)} {value}".strip()
            lines += [".TP", f".B {_roff(head)}", _roff(_help(action))]
        if parser.epilog:
            lines += [".PP", _roff(parser.epilog)]
    lines += [".SH EXIT STATUS", _roff(top.epilog or "")]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


def _completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="bash, zsh or fish")


def _print_completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[arguments.shell](arguments.top), end="")
    return 0


def _manual_arguments(_: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def _print_manual(arguments: argparse.Namespace) -> int:
    """Print the page."""
    print(manual(arguments.top), end="")
    return 0


completion = SimpleNamespace(
    HELP="Print a completion script for a shell.",
    EPILOG="The first lines of the script say where to install it. Example: sapwood completion bash",
    add_arguments=_completion_arguments,
    run=_print_completion,
)
man = SimpleNamespace(
    HELP="Print the manual page.",
    EPILOG="Read it with: sapwood man | man -l -. Example: sapwood man",
    add_arguments=_manual_arguments,
    run=_print_manual,
)
