"""Building blocks of pages: the document, and tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from sapwood.errors import without_secrets
from sapwood.show.safe import safe_line, safe_text
from sapwood.show.units import bytes_text


def escaped(value: object) -> str:
    """Return the HTML that shows the text of a value."""
    return html.escape(safe_text(str(value)))


def document(title: str, body: Iterable[str], footer: str, script: str = "") -> str:
    """Write a page with the style of all pages inside: a title, the parts of the body, and a line at the end, a script.

    Pages are passed on, so secrets in URLs are left out. Lines do not break within a number.
    """
    style = (resources.files("sapwood.show") / "page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(without_secrets(title))}</title><style>\n{style}</style></head>\n<body><main>\n"
        + without_secrets("\n".join(part for part in body if part)).replace("\u2009", "\u202f")
        + f"\n<footer>{footer}</footer>\n</main>{script}</body></html>\n"
    )


def tiles(shown: Iterable[tuple[str, str]]) -> str:
    """Write tiles: a value with its name, both text."""
    cells = (f'<div class="tile"><b>{escaped(value)}</b><span>{escaped(name)}</span></div>' for value, name in shown)
    return f'<div class="tiles">{"".join(cells)}</div>'


def captioned(title: str, drawing: str, caption: str, legend: Sequence[str] = (), *, wide: bool = False) -> str:
    """Write a drawing with text around it: the title and the names of its colours above, the caption below."""
    items = "".join(f'<li><i class="c{place}"></i>{escaped(name)}</li>' for place, name in enumerate(legend))
    listed = f'<ul class="legend">{items}</ul>' if legend else ""
    kind = ' class="wide"' if wide else ""
    return (
        f"<figure{kind}><figcaption><strong>{escaped(title)}</strong>{listed}</figcaption>"
        f'{drawing}<p class="below">{escaped(caption)}</p></figure>'
    )


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    paths: Iterable[int] = (),
    classes: str = "",
) -> str:
    """Write a table of cells that are HTML already; `numbers` are right-aligned, `paths` may break anywhere."""
    kinds = {**dict.fromkeys(numbers, ' class="n"'), **dict.fromkeys(paths, ' class="path"')}
    top = "".join(f"<th{kinds.get(place, '')}>{escaped(name)}</th>" for place, name in enumerate(head))
    lines = "".join(
        "<tr>" + "".join(f"<td{kinds.get(place, '')}>{cell}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    name = f' class="{classes}"' if classes else ""
    return f'<div class="scroll"><table{name}><tr>{top}</tr>{lines}</table></div>'


def path_cell(path: str) -> str:
    """Return a path as a cell of a table: lines do not break within the name of the file."""
    folder, slash, name = without_secrets(path).rpartition("/")
    return f'{escaped(folder + slash)}<span class="name">{escaped(name)}</span>'


def machine_rows(host: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of a table about a machine, as recorded with the results of trains and studies."""
    return [
        ["Machine", escaped(host["name"])],
        ["System", escaped(f"{host['system']} {host['machine']}")],
        ["Processor", escaped(host["processor"])],
        ["Cores", f"{host['cores_usable']} of {host['cores']} usable"],
        ["Memory", bytes_text(host["memory"])],
    ]


def excerpt(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], count: int, most: int = 100) -> str:
    """Write a table of text for a notebook: the first rows, and how many there are; everything is escaped."""
    cells = [[escaped(safe_line(text)) for text in row] for row, _ in zip(rows, range(most), strict=False)]
    more = f"<p>{len(cells)} of {count} are shown</p>" if count > len(cells) else ""
    return without_secrets(f"<p><b>{escaped(safe_line(title))}</b></p>{table(head, cells)}{more}")
