"""Write docs/reference from the code: Python API, modules, tools, errors, counters. `--check` only compares."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import sapwood
import sapwood.tools
from sapwood import errors

HERE = Path(__file__).resolve().parent
NOTE = "<!-- Made by `make docs`; changes belong in the code. -->\n"


def stub(name: str) -> tuple[str, str]:
    """Return arguments and docstring of a function of the native module, which its stub describes."""
    tree = ast.parse((HERE.parent / "python" / "sapwood" / "_native.pyi").read_text())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    arguments = ", ".join(argument.arg for argument in function.args.args)
    return f"({arguments})", ast.get_docstring(function) or ""


def signature(value: Any) -> str:
    """Return names and defaults of a call; empty for what cannot be called."""
    if inspect.isbuiltin(value):
        return stub(value.__name__)[0]
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)


def indented(value: Any) -> str:
    """Return a docstring as a block that Markdown leaves alone where it has sections."""
    text = stub(value.__name__)[1] if inspect.isbuiltin(value) else inspect.getdoc(value) or ""
    summary, _, rest = text.partition("\n\n")
    return f"{' '.join(summary.split())}\n\n" + (f"```text\n{rest.rstrip()}\n```\n\n" if rest else "")


def described(name: str, value: Any, level: str = "##") -> str:
    """Describe a function, or a class with its public members."""
    out = f"{level} {name}\n\n"
    if inspect.isclass(value):
        out += indented(value)
        for member, attribute in sorted(vars_of(value).items()):
            function = attribute.fget if isinstance(attribute, property) else attribute
            shown = f"{name}.{member}" + ("" if isinstance(attribute, property) else signature(function))
            out += f"- `{shown}`\n  {summary(function)}\n"
        return out + "\n"
    return out + f"```python\n{name}{signature(value)}\n```\n\n" + indented(value)


def vars_of(cls: type) -> dict[str, Any]:
    """Return the public methods and properties that sapwood's classes give a class."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sapwood"):
            found |= {n: v for n, v in vars(base).items() if not n.startswith("_")}
    kept = {}
    for name, value in found.items():
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(plain, property) or inspect.isfunction(plain):
            kept[name] = plain
    return kept


def summary(value: Any) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def api() -> str:
    """Describe the public names of the package."""
    out = f"{NOTE}\n# Python\n\n{inspect.getdoc(sapwood)}\n\n"
    for name in sorted(sapwood.__all__, key=str.lower):
        value = getattr(sapwood, name)
        if name != "__version__" and not (inspect.isclass(value) and issubclass(value, (Exception, Warning))):
            out += described(name, value)
    return out


def modules() -> str:
    """Describe the public names of modules that the package itself does not have."""
    out = f"{NOTE}\n# Modules\n\nPublic names of modules, except those that are also in [the package](python.md).\n\n"
    for name in ("train", "pages", "lab", "writing", "interpretation", "containers", "model", "cache"):
        module = importlib.import_module(f"sapwood.{name}")
        out += f"## sapwood.{name}\n\n{indented(module)}"
        for one in sorted(module.__all__, key=str.lower):
            value = getattr(module, one)
            if getattr(sapwood, one, None) is not value and (inspect.isclass(value) or inspect.isfunction(value)):
                out += described(one, value, "###")
    return out


def tools() -> str:
    """Describe the functions behind the commands; `browse` and `serve` need packages that may not be there."""
    out = f"{NOTE}\n# Tools in Python\n\n{inspect.getdoc(sapwood.tools)}\n\n"
    for name in sorted(set(sapwood.tools.__all__) - {"browse", "serve"}, key=str.lower):
        out += described(name, getattr(sapwood.tools, name))
    return out


def error_table() -> str:
    """Return every exception, its bases and its meaning."""
    out = f"{NOTE}\n# Errors\n\n{inspect.getdoc(errors)}\n\n| Exception | is also a | meaning |\n| --- | --- | --- |\n"
    for name, cls in sorted(vars(errors).items()):
        if inspect.isclass(cls) and issubclass(cls, (Exception, Warning)) and cls.__name__ == name:
            bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            out += f"| `{name}` | {bases} | {summary(cls)} |\n"
    return out


def counter_table() -> str:
    """Return every counter with the comment that defines it."""
    source = (HERE.parent / "crates" / "io" / "src" / "counters.rs").read_text()
    meanings = dict(re.findall(r"    ((?:/// .*\n    )+)(\w+),", source.partition("counters! {")[2]))
    meanings = {name: " ".join(text.replace("///", "").split()) for text, name in meanings.items()}
    out = f"{NOTE}\n# Counters\n\n`sapwood.counters()` gives these sums since the process began.\n\n"
    out += "| Counter | meaning |\n| --- | --- |\n"
    for name in sapwood.counters():
        out += f"| `{name}` | {meanings[name]} |\n"
    return out


def main() -> int:
    """Write the pages, or with --check say which are old."""
    pages = {
        "python": api(),
        "modules": modules(),
        "tools": tools(),
        "errors": error_table(),
        "counters": counter_table(),
    }
    old = []
    for name, page in pages.items():
        path = HERE / "reference" / f"{name}.md"
        text = "\n".join(line.rstrip() for line in page.rstrip().splitlines()) + "\n"
        if not path.exists() or path.read_text() != text:
            old.append(name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    if "--check" in sys.argv and old:
        print(f"docs/reference is old ({', '.join(old)}): run make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
