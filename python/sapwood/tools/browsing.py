"""A file in the terminal: the keys on the left, the content of the chosen key on the right.

Names and texts of a file are shown as plain text, never as markup or control sequences.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood.errors import ArgumentError, MissingPackageError, SapwoodError
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TABLES
from sapwood.pages.listing import list_inside, split
from sapwood.show.safe import safe_line, safe_text
from sapwood.show.units import bytes_text, count_text
from sapwood.tools.drawing import fill_from, object_text, text_of
from sapwood.tools.scanning import rows
from sapwood.tools.scanning import text_of as rows_text

try:
    from rich.text import Text
    from textual import work
    from textual.app import App, ComposeResult
    from textual.containers import Horizontal, Vertical, VerticalScroll
    from textual.widgets import DataTable, Footer, Header, Input, Static, Tree
    from textual.worker import get_current_worker
except ImportError as error:
    raise MissingPackageError(f"browsing needs Textual (pip install 'sapwood[browse]'): {error}") from None

if TYPE_CHECKING:
    from textual.widgets.tree import TreeNode


PART = 2000
"""Maximum number of keys listed of a directory, or of fields listed of a table."""
ENTRIES = 1_000_000
"""Number of entries that a histogram reads."""
_SHOWN = 20
"""Number of first entries shown."""
_BINS = 30


@dataclass(frozen=True)
class Line:
    """A line of the tree: a key (with its cycle) and its class, or a field of the table at that key."""

    key: str
    classname: str
    field: str = ""

    @property
    def opens(self) -> bool:
        """Whether the line can be expanded."""
        return not self.field and self.classname in DIRECTORIES | TABLES


@dataclass
class View:
    """The view of a line: a title, a table with column headings, and a text."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    text: str = ""


def browse(where: str, options: Mapping[str, Any] | None = None) -> None:
    """Show a file, or a directory or table in it, until the user quits.

    Raises
    ------
    SapwoodError
        The file cannot be read, or the input is not a terminal, so that nothing would end the program.
    """
    Browser(where, options).run()


class Browser(App[None]):
    """The application."""

    CSS = """
    #keys { width: 36; border-right: solid $primary; }
    #table { height: auto; max-height: 60%; }
    #form { height: 3; }
    #form Input { width: 1fr; }
    """
    BINDINGS = [("e", "expression", "Expression"), ("c", "cut", "Cut"), ("q", "quit", "Quit")]  # noqa: RUF012

    def __init__(self, where: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._path, self._inside = split(where)
        self._options = dict(options or {})
        # Errors of the file itself end the command before the screen changes.
        self._top = list_inside(self._path, self._inside, part=(0, PART), options=self._options)
        self._table: str | None = None
        self.title = safe_line(Path(self._path).name)

    def run(self, *arguments: Any, **options: Any) -> None:
        """Run until the user quits; refuse an input that is not a terminal, in which nobody could."""
        if sys.stdin is None or not sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
            raise SapwoodError("browse needs a terminal as its input, in which you can quit it")
        super().run(*arguments, **options)

    def compose(self) -> ComposeResult:
        """Build the screen."""
        yield Header()
        with Horizontal():
            yield Tree[Line](Text(self.title or ""), id="keys")
            with Vertical():
                with VerticalScroll():
                    yield Static(id="about", markup=False)
                    yield DataTable[Text](id="table", cursor_type="row", zebra_stripes=True)
                    yield Static(id="text", markup=False)
                with Horizontal(id="form"):
                    yield Input(placeholder="expression, such as sqrt(x)", id="expression")
                    yield Input(placeholder="cut, such as n >= 2", id="cut")
        yield Footer()

    def on_mount(self) -> None:
        """Show the top of the file."""
        tree = self.query_one("#keys", Tree)
        self._fill(tree.root, self._top)
        tree.root.expand()
        self._show(self._keys_view(self._top))
        tree.focus()

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Line]) -> None:
        """Look into a directory or table when it is opened for the first time."""
        if event.node.data is not None and not event.node.children:
            self._expand(event.node.data, event.node)

    def on_tree_node_selected(self, event: Tree.NodeSelected[Line]) -> None:
        """Show the content of the chosen line."""
        if event.node.data is None:
            self._show(self._keys_view(self._top))
        else:
            self._open(event.node.data)

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Plot an expression over the table that is shown."""
        expression, cut = (self.query_one(f"#{name}", Input).value.strip() for name in ("expression", "cut"))
        if self._table is None:
            self._show(View("Choose a table first. Expressions are computed over its entries.", [], []))
        elif expression:
            self._plot(self._table, expression, cut or None)

    def action_expression(self) -> None:
        """Go to the expression."""
        self.query_one("#expression", Input).focus()

    def action_cut(self) -> None:
        """Go to the cut."""
        self.query_one("#cut", Input).focus()

    @work(thread=True)
    def _expand(self, line: Line, node: TreeNode[Line]) -> None:
        """Read the children of a node."""
        try:
            listing = list_inside(
                self._path, line.key, branches=line.classname in TABLES, part=(0, PART), options=self._options
            )
        except (SapwoodError, OSError, ValueError) as error:
            self.call_from_thread(self._show, View(str(error), [], []))
            return
        self.call_from_thread(self._fill, node, listing)

    @work(thread=True, exclusive=True, group="view")
    def _open(self, line: Line) -> None:
        """Read the content of a line."""
        worker = get_current_worker()
        try:
            view = self._view(line)
        except (SapwoodError, OSError, ValueError) as error:
            view = View(str(error), [], [])
        if not worker.is_cancelled:
            self.call_from_thread(self._show, view)

    @work(thread=True, exclusive=True, group="view")
    def _plot(self, key: str, expression: str, cut: str | None) -> None:
        worker = get_current_worker()
        try:
            view = View(expression, [], [], self._histogram(key, expression, cut))
        except (SapwoodError, OSError, ValueError) as error:
            view = View(str(error), [], [])
        if not worker.is_cancelled:
            self.call_from_thread(self._show, view)

    def _fill(self, node: TreeNode[Line], listing: Mapping[str, Any]) -> None:
        """Add the lines below a node: the keys of a directory, or the fields of a table."""
        keys = listing["keys"]
        if node.data is not None and node.data.classname in TABLES:
            fields = keys[0].get("branches", ())
            lines = [
                (field["name"], Line(node.data.key, node.data.classname, path))
                for field, path in _paths(keys[0]["class"], fields[:PART])
                if field["readable"] and field["baskets"]
            ]
            total = len(fields) if len(fields) > PART else len(lines)
        else:
            lines = [
                (
                    f"{key['name'].rpartition('/')[2]};{key['cycle']}",
                    Line(f"{key['name']};{key['cycle']}", key["class"]),
                )
                for key in keys
            ]
            total = listing["number_of_keys"]
        for label, line in lines:
            shown = Text(safe_line(label))
            if line.opens:
                node.add(shown, line)
            else:
                node.add_leaf(shown, line)
        if total > len(lines):
            node.add_leaf(Text(f"and {count_text(total - len(lines))} more, not listed"))

    def _show(self, view: View) -> None:
        """Put a view on the screen."""
        self.query_one("#about", Static).update(safe_text(view.title))
        table = self.query_one("#table", DataTable)
        table.clear(columns=True)
        table.display = bool(view.rows)
        if view.rows:
            table.add_columns(*view.heads)
            table.add_rows([Text(safe_line(cell)) for cell in row] for row in view.rows)
        self.query_one("#text", Static).update(safe_text(view.text))

    def _view(self, line: Line) -> View:
        if line.field:
            self._table = line.key
            return View(f"{line.key}: {line.field}", [], [], self._histogram(line.key, line.field, None))
        if line.classname in TABLES:
            self._table = line.key
            return self._table_view(line)
        if line.classname in DIRECTORIES:
            return self._keys_view(list_inside(self._path, line.key, part=(0, PART), options=self._options))
        with sapwood.open({self._path: None}, **self._options) as file:
            return View(f"{line.key}: {line.classname}", [], [], object_text(file[line.key]))

    def _keys_view(self, listing: Mapping[str, Any]) -> View:
        lines = [
            [
                f"{key['name']};{key['cycle']}",
                key["class"],
                count_text(key["entries"]) if "entries" in key else "",
                bytes_text(key.get("tree_bytes", key["bytes"])),
                f"cannot be read: {key['error']}" if "error" in key else key["title"],
            ]
            for key in listing["keys"]
        ]
        about = f"{count_text(listing['number_of_keys'])} keys, {bytes_text(listing['size'])}"
        if listing["recovered"]:
            about += "\nThe list of keys was lost. These keys were found by scanning the file."
        return View(about, ["Key", "Class", "Entries", "Bytes", "Title"], lines)

    def _table_view(self, line: Line) -> View:
        listing = list_inside(self._path, line.key, branches=True, options=self._options)
        described = listing["keys"][0]
        if "error" in described:
            return View(f"{line.key} cannot be read: {described['error']}", [], [])
        fields = described["branches"]
        lines = [
            [
                "  " * min(field["depth"], 8) + field["name"],
                field["type"],
                count_text(field["baskets"]),
                bytes_text(field["bytes"]),
                f"{field['uncompressed_bytes'] / field['bytes']:.2f}" if field["bytes"] else "–",
                "" if field["readable"] else f"cannot be read: {field['reason']}",
            ]
            for field in fields[:PART]
        ]
        about = f"{line.key}: {described['class']}, {count_text(described['entries'])} entries, {len(fields)} fields"
        if len(fields) > PART:
            about += f", of which {PART} are listed"
        names = [path for field, path in _paths(described["class"], fields) if field["readable"] and field["baskets"]]
        first = rows(f"{self._path}:{line.key}", names[:12], limit=_SHOWN, options=self._options) if names else ()
        shown = "".join(rows_text(first))
        heads = ["Field", "Type", "Pages", "Bytes", "Factor", ""]
        return View(about, heads, lines, f"First entries of {min(len(names), 12)} fields\n{shown}" if shown else "")

    def _histogram(self, key: str, expression: str, cut: str | None) -> str:
        """Return a histogram of an expression as text, and the first entries."""
        with sapwood.open({self._path: key}, **self._options) as table:
            total = table.table.num_entries
            stop = min(ENTRIES, total)
            try:
                plot = text_of(fill_from(table.table, expression, cut, bins=_BINS, entry_stop=stop), 40)
            except ArgumentError as error:
                plot = f"{error}\n"
        first = rows(f"{self._path}:{key}", [expression], cut, limit=_SHOWN, options=self._options)
        read = (
            f"first {count_text(stop)} of {count_text(total)} entries"
            if stop < total
            else f"all {count_text(total)} entries"
        )
        return f"{read}\n{plot}\nFirst entries\n{''.join(rows_text(first))}"


def _paths(classname: str, fields: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return each field with its expression. Names of fields in RNTuples include the fields above them."""
    found: list[tuple[dict[str, Any], str]] = []
    parents: list[str] = []
    for field in fields:
        parents[field["depth"] :] = [field["name"]]
        found.append((field, ".".join(parents) if classname in RNTUPLES else field["name"]))
    return found
