"""The pages: listings of folders, files and tables, drawings, errors. All names on them are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sapwood import _native
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TABLES
from sapwood.pages.listing import list_inside
from sapwood.show.html import document, table
from sapwood.show.safe import safe_line, safe_text
from sapwood.show.units import bytes_text, count_text
from sapwood.tools.serving.folder import ROOT_FILES, TABLE_FILES, Folder, url_of

PART = 1000
"""Lines of a listing on one page."""
_DRAWN = re.compile(
    r"TH[123][A-Z]|TProfile(2D|3D)?|TGraph\w*|TEfficiency|TH2Poly|TProfile2Poly|THStack|TMultiGraph|TCanvas|TF[123]|"
    r"TSpline[35]?|TPie|TGeo(Manager|Volume)|TPolyLine\w*|TLatex|TPaveText|TArrow|TEllipse|THn(Sparse)?\w*"
)
"""Classes that jsroot draws. Objects of other classes are shown as their members."""


def text_of(text: object) -> str:
    """Return a text from a file, escaped for HTML."""
    return html.escape(safe_line(str(text)))


def link(url: str, text: str) -> str:
    """Return a link; both arguments are plain text."""
    return f'<a href="{html.escape(url)}">{text_of(text)}</a>'


def page(title: str, name: str, body: Iterable[str], *, head: str = "", at: str = "") -> str:
    """Return a page about a path in the folder: a title, links to the levels above, and a body of HTML.

    `head` follows the title; `at` is a path inside the file.
    """
    top = f"<header><h1>{text_of(title)}</h1>{_way(name, at)}{head}</header>"
    sheet = '<link rel="stylesheet" href="/static/serve.css">'
    return document(safe_line(f"{title} – sapwood"), [sheet, top, *body], f"sapwood {_native.__version__}, read only.")


def error_text(text: str) -> str:
    """Return an error as a paragraph and the lines that mark its place."""
    first, _, rest = safe_text(text).partition("\n")
    return f"<p>{html.escape(first)}</p>" + (f"<pre>{html.escape(rest)}</pre>" if rest else "")


def error_page(status: int, text: str) -> str:
    """Return the page of an error."""
    body = [f"<header><h1>{status}</h1>{error_text(text)}</header>", '<p><a href="/files/">All files</a></p>']
    return document(f"{status} – sapwood", body, f"sapwood {_native.__version__}")


def _way(name: str, at: str) -> str:
    """Return links to the folders, the file and the directories above."""
    parts = name.split("/") if name else []
    links = [link("/files/", "files")]
    for place, part in enumerate(parts):
        path = "/".join(parts[: place + 1])
        is_file = place == len(parts) - 1 and Path(part).suffix.lower() in TABLE_FILES
        links.append(link(url_of("keys", path) if is_file else url_of("files", f"{path}/"), part))
    inside = [part for part in at.split("/") if part]
    links += [link(url_of("keys", name, at="/".join(inside[: n + 1])), part) for n, part in enumerate(inside)]
    return f'<nav class="path">{" / ".join(links)}</nav>'


def _parts(total: int, first: int, url: str) -> str:
    """Return links to the other parts of a long listing; `url` ends before the number of the first line."""
    if total <= PART:
        return ""
    links = [
        f"{count_text(start + 1)}" if start == first else link(f"{url}{start}", count_text(start + 1))
        for start in range(0, total, PART)[:1000]
    ]
    return f"<p>{count_text(total)} lines; from: {' '.join(links)}</p>"


def folder_page(folder: Folder, name: str, path: Path, first: int) -> str:
    """Return the listing of a folder."""
    name = name.strip("/")
    items = folder.items(path)
    rows: list[list[str]] = []
    for item in items[first : first + PART]:
        inside = f"{name}/{item.name}".lstrip("/")
        suffix = Path(item.name).suffix.lower()
        raw = url_of("files", f"{inside}/" if item.is_folder else inside)
        opened = url_of("keys", inside) if suffix in TABLE_FILES and not item.is_folder else raw
        kind = "folder" if item.is_folder else suffix[1:]
        when = datetime.fromtimestamp(item.modified, timezone.utc).strftime("%Y-%m-%d %H:%M")
        size = "" if item.is_folder else bytes_text(item.size)
        rows.append([link(opened, item.name), kind, size, when, "" if opened == raw else link(raw, "download")])
    listed = table(["Name", "Kind", "Size", "Modified (UTC)", ""], rows, numbers=(2,), paths=(0,))
    body = [
        f"<section><p>{count_text(len(items))} files and folders that can be shown</p>{listed}</section>",
        _parts(len(items), first, url_of("files", f"{name}/".lstrip("/")) + "?first="),
    ]
    return page(name.rpartition("/")[2] or folder.path.name or "files", name, body)


def keys_page(path: Path, name: str, at: str, first: int) -> str:
    """Return the listing of a file, or of a directory in it."""
    listing = list_inside(str(path), at, part=(first, first + PART))
    rows: list[list[str]] = []
    for key in listing["keys"]:
        place = f"{key['name']};{key['cycle']}"
        about = f"cannot be read: {key['error']}" if "error" in key else key["title"]
        rows.append(
            [
                _opened(path, name, place, key),
                text_of(key["class"]),
                count_text(key["entries"]) if "entries" in key else "",
                bytes_text(key.get("tree_bytes", key["bytes"])),
                text_of(key["written"]),
                text_of(about),
            ]
        )
    listed = table(["Key", "Class", "Entries", "Bytes", "Written", "Title"], rows, numbers=(2, 3), paths=(0, 5))
    made_by = " ".join(filter(None, (listing["format"], listing["root_version"])))
    head = f"<p>{text_of(made_by)} · {bytes_text(listing['size'])} · compression {text_of(listing['compression'])}</p>"
    lost = "The list of keys was lost. These keys were found by scanning the file."
    body = [
        f'<div class="notice"><p>{lost}</p></div>' if listing["recovered"] else "",
        f"<section>{listed}</section>",
        _parts(
            listing["number_of_keys"], first, url_of("keys", name, at=at, first="") + ("&" if at else "?") + "first="
        ),
    ]
    return page(at.rpartition("/")[2] or name.rpartition("/")[2], name, body, head=head, at=at)


def _opened(path: Path, name: str, place: str, key: Mapping[str, Any]) -> str:
    """Return a link to the page that shows a key."""
    if key["class"] in DIRECTORIES:
        return link(url_of("keys", name, at=key["name"]), f"{key['name']}/")
    if key["class"] in TABLES:
        return text_of(key["name"]) if "error" in key else link(url_of("table", name, key=place), place)
    if path.suffix.lower() in ROOT_FILES or _DRAWN.fullmatch(key["class"]):
        return link(url_of("draw", name, key=place, of=key["class"]), place)
    return text_of(place)


def draw_page(name: str, key: str, kind: str) -> str:
    """Return the page on which jsroot draws an object."""
    option = "" if _DRAWN.fullmatch(kind) else "inspect"
    data = {"file": url_of("files", name), "key": key, "option": option, "state": "waiting"}
    attributes = "".join(f' data-{word}="{html.escape(value)}"' for word, value in data.items())
    body = [
        f'<div id="drawing"{attributes}></div>',
        '<script src="/static/jsroot.min.js"></script><script src="/static/draw.js"></script>',
    ]
    head = f"<p>{text_of(kind)}, drawn by jsroot in the browser</p>" if kind else ""
    return page(key.rpartition("/")[2], name, body, head=head, at=key.rpartition("/")[0])


def figure_page(name: str, key: str, figures: str) -> str:
    """Return the page of figures drawn by sapwood."""
    return page(key.rpartition("/")[2], name, [f'<div class="plots">{figures}</div>'], at=key.rpartition("/")[0])


def table_page(path: Path, name: str, key: str, first: int, figure: str) -> str:
    """Return the fields of a table and the map of its pages."""
    listing = list_inside(str(path), key, branches=True)
    described = listing["keys"][0]
    fields: Sequence[Mapping[str, Any]] = described.get("branches", ())
    rows: list[list[str]] = []
    parents: list[str] = []
    for number, field in enumerate(fields):
        parents[field["depth"] :] = [field["name"]]
        if not first <= number < first + PART:
            continue
        expression = ".".join(parents) if described["class"] in RNTUPLES else field["name"]
        shown = link(url_of("plot", name, key=key, expression=expression), field["name"])
        rows.append(
            [
                "&ensp;" * 2 * min(field["depth"], 8)
                + (shown if field["readable"] and field["baskets"] else text_of(field["name"])),
                text_of(field["type"]),
                count_text(field["baskets"]),
                bytes_text(field["bytes"]),
                f"{field['uncompressed_bytes'] / field['bytes']:.2f}" if field["bytes"] else "–",
                text_of("" if field["readable"] else f"cannot be read: {field['reason']}"),
            ]
        )
    listed = table(["Field", "Type", "Pages", "Bytes", "Factor", ""], rows, numbers=(2, 3, 4), paths=(0, 1))
    about = f"{count_text(described.get('entries', 0))} entries · {count_text(len(fields))} fields"
    body = [
        form_of(name, key, {}),
        f"<section><h2>Fields</h2>{listed}</section>",
        _parts(len(fields), first, url_of("table", name, key=key) + "&first="),
        f'<section class="layout"><h2>Layout</h2>{figure}</section>' if figure else "",
    ]
    head = f"<p>{' · '.join(filter(None, (text_of(described['class']), about, text_of(described['title']))))}</p>"
    return page(key.rpartition("/")[2], name, body, head=head, at=key.rpartition("/")[0])


_INPUTS = (
    ("expression", "Expression", "long"), ("cut", "Cut", "long"), ("bins", "Bins", ""), ("low", "From", ""),
    ("high", "To", ""), ("entries", "First entries", ""),
)  # fmt: skip


def form_of(name: str, key: str, given: Mapping[str, str]) -> str:
    """Return the form that asks for a histogram."""
    inputs = "".join(
        f'<label>{text}<input class="{kind}" name="{word}" value="{text_of(given.get(word, ""))}"></label>'
        for word, text, kind in _INPUTS
    )
    log = (
        '<label>Log<input type="checkbox" name="log" value="1"' + (" checked" if given.get("log") else "") + "></label>"
    )
    hidden = f'<input type="hidden" name="key" value="{text_of(key)}">'
    action = html.escape(url_of("plot", name))
    return f'<form class="plot" method="get" action="{action}">{hidden}{inputs}{log}<button>Plot</button></form>'


def plot_page(name: str, key: str, given: Mapping[str, str], figure: str) -> str:
    """Return a histogram of an expression, with the form that changes it."""
    title = given.get("expression", "").strip() or key
    back = f"<p>{link(url_of('table', name, key=key), f'All fields of {key}')}</p>"
    return page(title, name, [form_of(name, key, given), figure, back], at=key.rpartition("/")[0])
