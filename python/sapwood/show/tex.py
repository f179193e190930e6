r"""Mathematics in texts: in TeX as matplotlib has it (``p$_T$``), and as ROOT has it (``p_{T}``, ``#mu``)."""

from __future__ import annotations

import re

_IN_ROOT = {
    "to": "#rightarrow", "cdot": "#upoint", "le": "#leq", "ge": "#geq", "ne": "#neq", "ell": "l", "langle": "#LT",
    "rangle": "#GT", "ldots": "#3dots", "dots": "#3dots", "cdots": "#3dots", "%": "%", "#": "#", "_": "_", "&": "&",
    ",": " ", ";": " ", ":": " ", " ": " ", "!": "", "{": "{", "}": "}",
}  # fmt: skip
"""Commands of TeX that ROOT does not know by the same name."""
_IN_TEX = {"#LT": r"\langle", "#GT": r"\rangle", "#upoint": r"\cdot", "#3dots": r"\ldots"}
_NAMES = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|"
    "phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega|varepsilon|vartheta|"
    "varphi|leq|geq|neq|equiv|propto|pm|times|infty|partial|nabla|sum|int|rightarrow|leftarrow|"
    "leftrightarrow|Rightarrow|perp|parallel|circ"
)
"""Symbols that are ROOT's with ``#``, and TeX's with a backslash."""
_SYMBOL = re.compile(rf"#(?:{_NAMES})(?![A-Za-z])|{'|'.join(_IN_TEX)}")
_RAISED = re.compile(r"[_^]\{(?:[^{}]|\{[^{}]*\})*\}")
_OVER = re.compile(r"#(?:sqrt|bar|hat|vec|tilde|dot)\{(?:[^{}]|\{[^{}]*\})*\}")


def to_root(text: str) -> str:
    r"""Return a text with its TeX (``$\mu$``, ``p$_T$``) as ROOT's `TLatex` writes it (``#mu``, ``p_{T}``)."""
    pieces = text.split("$")
    if len(pieces) % 2 == 0:  # a dollar that begins nothing
        return text
    return "".join(_root_of(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def _root_of(tex: str) -> str:
    tex = re.sub(r"\\(?:mathrm|mathit|mathbf|text|operatorname)\s*\{([^{}]*)\}", r"\1", tex)
    tex = re.sub(r"\\(?:rm|left|right)\b\s*", "", tex)

    def command(match: re.Match[str]) -> str:
        name, space = match[1] or match[3], match[2] or ""
        return _IN_ROOT.get(name, f"#{name}") + space * bool(space and match.string[match.end() :][:1].isalnum())

    tex = re.sub(r"\\(?:([A-Za-z]+)(\s*)|(.))", command, tex)
    return re.sub(r"([_^])(#[A-Za-z]+|[^\s{])", r"\1{\2}", tex)


def from_root(text: str) -> str:
    r"""Return a text with ROOT's symbols and raised or lowered parts as TeX; text between dollars stays."""
    pieces = text.split("$")
    if len(pieces) % 2 == 0:
        return text
    return "$".join(piece if place % 2 else _tex_of(piece) for place, piece in enumerate(pieces))


def _tex_of(root: str) -> str:
    found = re.compile("|".join(one.pattern for one in (_OVER, _RAISED, _SYMBOL)))
    return found.sub(lambda match: f"${_symbols(match[0])}$", root).replace("$$", "")


def _symbols(root: str) -> str:
    root = re.sub("|".join(_IN_TEX), lambda match: _IN_TEX[match[0]], root)
    return re.sub(r"#([A-Za-z]+)", r"\\\1", root).rstrip()
