"""The file browser of the terminal, driven by Textual's own pilot."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import hist
import numpy as np
import pytest

import sapwood
from sapwood.cli import main

browsing = pytest.importorskip("sapwood.tools.browsing", reason="needs Textual (pip install sapwood[browse])")
NASTY = "[red]x[/red]\x1b[2J"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browse") / "events.root"
    values = np.arange(1000, dtype=np.float32)
    with sapwood.recreate(path) as file:
        file["deep/h"] = hist.Hist.new.Reg(4, 0, 4, name="x").Double().fill([0.5, 0.5, 2.5])
        file["deep/note"] = NASTY
        file.mktree("Events", {"x": "float32", "n": "int32"}).extend({"x": values, "n": np.arange(1000) % 3})
        file.mkrntuple("Tuple", {"x": values})
    return path


class Session:
    """A browser that runs without a terminal."""

    def __init__(self, app: browsing.Browser, pilot: object) -> None:
        self.app, self.pilot = app, pilot

    async def choose(self, *labels: str) -> None:
        """Open the lines down to the last label, and choose it."""
        tree = self.app.query_one("#keys")
        node = tree.root
        for label in labels:
            node.expand()
            await self.settle()
            node = next(child for child in node.children if str(child.label) == label)
        tree.move_cursor(node)
        tree.action_select_cursor()
        await self.settle()

    async def plot(self, expression: str, cut: str = "") -> None:
        """Fill in the form and press Enter."""
        self.app.query_one("#cut").value = cut
        await self.pilot.press("e")
        self.app.query_one("#expression").value = expression
        await self.pilot.press("enter")
        await self.settle()

    async def settle(self) -> None:
        """Wait until the browser has read what it was asked for."""
        await self.pilot.pause()
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    def text(self, name: str) -> str:
        """Return a text of the screen."""
        return str(self.app.query_one(f"#{name}").render())

    def table(self) -> list[list[str]]:
        """Return the cells of the table."""
        table = self.app.query_one("#table")
        return [[str(cell) for cell in table.get_row_at(place)] for place in range(table.row_count)]


def browse(path: str | Path, play: Callable[[Session], Awaitable[None]]) -> None:
    """Run a browser and play with it."""

    async def run() -> None:
        app = browsing.Browser(str(path))
        async with app.run_test(size=(140, 50)) as pilot:
            await play(Session(app, pilot))

    asyncio.run(run())


def test_keys_fields_entries_and_histograms_are_shown(events: Path) -> None:
    async def play(session: Session) -> None:
        assert [row[:3] for row in session.table()] == [
            ["deep;1", "TDirectory", ""],
            ["Events;1", "TTree", "1\u2009000"],
            ["Tuple;1", "ROOT::RNTuple", "1\u2009000"],
        ]
        await session.choose("Events;1")
        assert [row[:2] for row in session.table()] == [["x", "float"], ["n", "int32_t"]]
        assert "Events;1: TTree, 1\u2009000 entries, 2 fields" in session.text("about")
        assert "    3  3   0" in session.text("text")
        await session.choose("Events;1", "n")
        assert "all 1\u2009000 entries" in session.text("text")
        assert "Entries 1\u2009000 " in session.text("text")
        await session.choose("Tuple;1", "x")
        assert "Entries 1\u2009000  Mean 499" in session.text("text")
        await session.choose("deep;1")
        assert [row[:2] for row in session.table()] == [["deep/h;1", "TH1D"], ["deep/note;1", "TObjString"]]
        await session.choose("deep;1", "h;1")
        assert "Entries 3 " in session.text("text")

    browse(events, play)


def test_expressions_and_cuts_are_plotted_and_errors_are_shown(events: Path) -> None:
    async def play(session: Session) -> None:
        await session.plot("2*x")
        assert "Choose a table first" in session.text("about")
        await session.choose("Events;1")
        await session.plot("2*x", "n == 1")
        assert "2*x" in session.text("about")
        assert "Entries 333 " in session.text("text")
        await session.plot("nothing + 1")
        assert "nothing" in session.text("about")
        assert session.text("text") == ""

    browse(events, play)


def test_texts_of_a_file_are_no_markup(events: Path) -> None:
    async def play(session: Session) -> None:
        await session.choose("deep;1", "note;1")
        shown = session.text("text")
        assert "[red]x[/red]" in shown
        assert "\x1b" not in shown

    browse(events, play)


def test_a_file_that_is_missing_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["browse", str(tmp_path / "none.root")]) == 1
    assert "none.root" in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_without_a_terminal_the_command_ends(events: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", "browse", str(events)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "") and "browse needs a terminal" in done.stderr
