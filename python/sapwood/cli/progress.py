"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn

    from sapwood.train import Progress


def _can_show() -> bool:
    """Return whether standard error is a terminal and rich is installed."""
    terminal = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]
    return terminal and importlib.util.find_spec("rich") is not None


def _bar(*columns: ProgressColumn, redirect_stdout: bool = True) -> Bar:
    from rich.console import Console
    from rich.progress import Progress as Bar

    return Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=redirect_stdout)


@contextmanager
def progress_bar(*, shown: bool) -> Generator[Callable[[Progress], None] | None]:
    """Return a progress callback, or None if no bar is wanted, standard error is not a terminal, or rich is missing."""
    if not shown or not _can_show():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]} entries/s"),
        TextColumn("{task.fields[files]} files"), TextColumn("{task.fields[where]}", markup=False),
        TimeRemainingColumn(),
    )  # fmt: skip
    with _bar(*columns) as bar:
        line = bar.add_task("", total=None, rate="?", files="?", where="")

        def tell(progress: Progress) -> None:
            seconds = bar.tasks[0].elapsed or 0.0
            bar.update(
                line,
                total=max(progress.bytes, 1),
                completed=progress.bytes_done,
                rate=f"{(progress.entries - progress.resumed) / seconds:,.0f}" if seconds else "?",
                files=f"{progress.files_done}/{progress.files}",
                where=f"{progress.slots} on {progress.executor}",
            )

        yield tell


@contextmanager
def counter(*, shown: bool) -> Generator[Callable[[int, int, str], None] | None]:
    """Return a callback that shows how many items are done; None without a terminal."""
    if not shown or not _can_show():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    where = TextColumn("{task.fields[where]}", markup=False)
    columns = BarColumn(), MofNCompleteColumn(), where, TimeRemainingColumn()
    with _bar(*columns) as bar:
        line = bar.add_task("", total=None, where="")
        yield lambda done, total, where: bar.update(line, total=max(total, 1), completed=done, where=where)


@contextmanager
def bytes_read(*, shown: bool) -> Generator[None]:
    """Show how many bytes the process has read, and how fast, until the end of a block; only on a terminal.

    The total is not known: cuts and indexes skip bytes, and a comparison ends at the first difference.
    """
    if not shown or not _can_show():
        yield
        return
    from rich.progress import FileSizeColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    from sapwood import _native

    columns = SpinnerColumn(), FileSizeColumn(), TextColumn("read,"), TransferSpeedColumn(), TimeElapsedColumn()
    # On a terminal, output printed meanwhile appears above the bar; redirected output is not affected.
    bar = _bar(*columns, redirect_stdout=sys.stdout is not None and sys.stdout.isatty())  # pyright: ignore[reportUnnecessaryComparison]
    ended = threading.Event()

    def follow() -> None:
        before = _native.counters()["bytes_read"]
        line = bar.add_task("", total=None)
        while not ended.wait(0.2):
            bar.update(line, completed=_native.counters()["bytes_read"] - before)

    follower = threading.Thread(target=follow, name="sapwood-progress", daemon=True)
    with bar:
        with suppress(RuntimeError):  # without another thread, the line does not move
            follower.start()
        try:
            yield
        finally:
            ended.set()
            if follower.ident is not None:
                follower.join()
