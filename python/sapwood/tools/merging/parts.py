"""Merge in parts: by several processes, or so that an interrupted merge can be resumed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from sapwood.errors import ArgumentError, SapwoodError, StorageError
from sapwood.storage.locate import is_url
from sapwood.tools.merging.inputs import Input
from sapwood.tools.merging.merger import merge_files
from sapwood.tools.merging.report import Merged
from sapwood.tools.merging.settings import Settings

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

_PART = 64
"""Number of inputs per part, if parts are kept for resuming."""


def merge_in_parts(
    target: Path,
    paths: Sequence[str],
    settings: Settings,
    jobs: int,
    resume: bool,
    tell: Callable[[int, int, str], None],
    *,
    overwrite: bool = True,
) -> Merged:
    """Merge groups of files into parts, at the same time if requested, and the parts into the output."""
    if settings.others == "all":
        raise ArgumentError("others='all' needs one process and no resume: parts keep one object per name")
    folder = target.with_name(f"{target.name}.parts")
    size = min(_PART, -(-len(paths) // jobs)) if resume else -(-len(paths) // jobs)
    groups = [list(paths[start : start + size]) for start in range(0, len(paths), size)]
    if folder.exists() and not resume:
        raise ArgumentError(f"{folder} is left from an earlier merge: resume it with --resume, or remove the folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or (os.name != "nt" and about.st_uid != os.getuid()):
        raise StorageError(f"{folder} belongs to another user, or is a link: remove it, or choose another output")
    with _alone(folder, target):
        return _merge_groups(
            target, folder, groups, settings, jobs, size, resume, tell, len(paths), overwrite=overwrite
        )


@contextlib.contextmanager
def _alone(folder: Path, target: Path) -> Generator[None]:
    """Keep other merges of one output away from the folder of its parts.

    Raises
    ------
    StorageError
        Another process uses it.
    """
    if fcntl is None:
        yield
        return
    number = -1
    try:
        number = os.open(folder, os.O_RDONLY)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):  # the other one may just have removed it
        if number >= 0:
            os.close(number)
        raise StorageError(f"another process is merging files into {target}") from None
    except OSError:  # the file system has no locks
        pass
    try:
        yield
    finally:
        if number >= 0:
            os.close(number)


def _merge_groups(
    target: Path, folder: Path, groups: list[list[str]], settings: Settings, jobs: int, size: int, resume: bool,
    tell: Callable[[int, int, str], None], count: int, *, overwrite: bool,
) -> Merged:  # fmt: skip
    import concurrent.futures
    import multiprocessing
    import shutil
    from concurrent.futures.process import BrokenProcessPool

    try:
        parts: list[Merged] = []
        context = multiprocessing.get_context("spawn")
        others = set(multiprocessing.active_children())
        with concurrent.futures.ProcessPoolExecutor(max(1, jobs), context) as pool:
            with _interrupts_blocked():  # in the processes, too: this one ends them
                tasks = [
                    pool.submit(_part, folder / f"{place:05d}.root", group, settings)
                    for place, group in enumerate(groups)
                ]
            try:
                for group, task in zip(groups, tasks, strict=True):
                    parts.append(task.result())
                    tell(len(parts) * size, count, group[-1])
            except BaseException as error:
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    for process in set(multiprocessing.active_children()) - others:
                        process.terminate()
                pool.shutdown(cancel_futures=True)
                raise
        matched = {pattern for part in parts for pattern in part.matched}
        settings.check_matched(matched)
        whole = [part for part in parts if part.inputs]
        final = Settings(others=settings.others, max_memory=settings.max_memory)
        result = merge_files(target, [part.output for part in whole], final, lambda *_: None, overwrite=overwrite)
    except BaseException as error:
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, BrokenProcessPool):
            why = "a process of the merge ended before its part was complete; the system may have stopped it for memory"
            raise StorageError(f"{target}: {why}: use fewer jobs") from error
        raise
    shutil.rmtree(folder)
    result.inputs = [path for part in whole for path in part.inputs]
    result.matched = sorted(matched)
    result.bytes_in = sum(part.bytes_in for part in parts)
    result.added = {path: sum(part.added.get(path, 0) for part in parts) for path in result.added}
    for part in parts:
        result.skipped |= part.skipped
        result.not_added |= part.not_added
        result.left_out |= part.left_out
        result.kept += [path for path in part.kept if path not in result.kept]
        result.indices += [path for path in part.indices if path not in result.indices]
        result.functions += [path for path in part.functions if path not in result.functions]
    return result


@contextlib.contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Delay Ctrl-C until the end of the block. Processes started within it do not get it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _part(target: Path, paths: Sequence[str], settings: Settings) -> Merged:
    """Merge a group of files, unless its part exists already."""
    record = target.with_suffix(".json")
    # A run that was killed can leave a record that ends anywhere.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        known = json.loads(record.read_text("utf-8"))
        if known["part"] == _state(target) and known["stamp"] == _stamp(settings, paths, _seen(paths, settings)):
            return Merged(**known["merged"])
    record.unlink(missing_ok=True)
    before = _seen([path for path in paths if not is_url(path)], settings)
    seen: dict[str, list[object]] = {}
    try:
        result = merge_files(target, paths, settings, lambda *_: None, part=True, stamps=seen)
    except ArgumentError as error:
        if not settings.skip_bad or "none of the" not in str(error):
            raise
        return Merged(str(target), skipped=dict.fromkeys(paths, str(error)))
    with target.open("rb") as part:
        os.fsync(part.fileno())
    stamp = _stamp(settings, paths, seen | before)
    known = {"stamp": stamp, "part": _state(target), "merged": result.described()}
    record.write_text(json.dumps(known), "utf-8")
    return result


def _state(path: str | Path) -> list[object]:
    """Return size, number and times of a file. Programs cannot set the last time."""
    about = Path(path).stat()
    return [about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns]


def _seen(paths: Sequence[str], settings: Settings) -> dict[str, list[object]]:
    """Return what changes if a file is replaced: its state, or for URLs its stamp, which opens them."""
    seen: dict[str, list[object]] = {}
    for path in paths:
        with contextlib.suppress(OSError, SapwoodError):  # merging reports why it cannot be read
            if is_url(path):
                with contextlib.closing(Input(path, settings)) as file:
                    seen[path] = file.stamp()
            else:
                seen[path] = _state(path)
    return seen


def _stamp(settings: Settings, paths: Sequence[str], seen: Mapping[str, list[object]]) -> str:
    """Return a digest of the settings and inputs of a part."""
    return hashlib.sha256(repr((settings, [(path, seen.get(path)) for path in paths])).encode()).hexdigest()
