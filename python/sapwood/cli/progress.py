"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapwood.train import Progress


@contextmanager
def progress_bar(*, shown: bool) -> Generator[Callable[[Progress], None] | None]:
    """Return a progress callback, or None if no bar is wanted, standard error is no terminal, or rich is missing."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield None
        return
    columns = (
        BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]} entries/s"),
        TextColumn("{task.fields[files]} files"), TextColumn("{task.fields[where]}", markup=False),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
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
    if not shown or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield None
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[where]}", markup=False),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=None, where="")
        yield lambda done, total, where: bar.update(line, total=max(total, 1), completed=done, where=where)


@contextmanager
def bytes_read(*, shown: bool) -> Generator[None]:
    """Show how many bytes the process has read, and how fast, until the end of a block; only on a terminal.

    The total is not known: cuts and indexes skip bytes, and a comparison ends at the first difference.
    """
    if not shown or not sys.stderr.isatty():
        yield
        return
    try:
        from rich.console import Console
        from rich.progress import FileSizeColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield
        return
    from sapwood import _native

    columns = SpinnerColumn(), FileSizeColumn(), TextColumn("read,"), TransferSpeedColumn(), TimeElapsedColumn()
    # On a terminal, output printed meanwhile appears above the bar; redirected output is not affected.
    bar = Bar(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
    ended = threading.Event()

    def follow() -> None:
        before = _native.counters()["bytes_read"]
        line = bar.add_task("", total=None)
        while not ended.wait(0.2):
            bar.update(line, completed=_native.counters()["bytes_read"] - before)

    follower = threading.Thread(target=follow, name="sapwood-progress", daemon=True)
    with bar:
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
