r"""Locations: file names with an object's path after a colon, patterns, lists and dicts of files.

``"dir/file.root:folder/tree"`` names an object in a file. The colon is looked for behind a name that ends in ``.root``
(or ``.root.1``, as ROOT names the parts of a split file), ``.hbook``, ``.hbk``, ``.rz`` or ``.fz``, so that
``C:\file.root`` and ``https://host:80/file.root`` are left whole. A `pathlib.Path` is never taken apart.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.errors import ArgumentError, ArgumentTypeError, MissingFileError, StorageError
from sapwood.storage.sources import matching, plain_path, user_path

_SPLIT = r"(?is)(.+\.(?:root(?:\.[0-9]+)?|hbook|hbk|rz|fz)):(?!//)(.*)"
_SCHEME = r"(?i)([a-z][a-z0-9+.-]*)://"
_BRACES = r"\{([^{}]*,[^{}]*)\}"

Files = Any
"""Anything that names files: see `expand`."""

Steps = Sequence[tuple[int, int]]
"""Ranges of entries."""


class Located(NamedTuple):
    """A file, the path of an object in it, and ranges of its entries."""

    file: Any
    """A path, URL, file-like object or an open tree."""
    inside: str | None = None
    steps: Steps | None = None
    """None for all."""


def split_path(path: str) -> tuple[str, str | None]:
    """Split ``"file.root:object/path"`` into its two parts; the second is None where no object is named.

    In a chain of URLs (``"simplecache::https://..."``) the last part that names an object counts.
    """
    parts = path.strip().split("::")
    for i in range(len(parts) - 1, -1, -1):
        match = re.fullmatch(_SPLIT, parts[i])
        if match is not None:
            parts[i] = match[1]
            return "::".join(parts), re.sub("/+", "/", match[2].strip()).strip("/")
    return path.strip(), None


def local_target(path: str | os.PathLike[str]) -> str:
    """Return the local path of a file to write, which may be given as a URL ``file://``.

    Raises
    ------
    ArgumentError
        The URL has another scheme. Its text would be treated as a path of folders.
    """
    text = os.fspath(path)
    if not is_url(text):
        return text
    if not text.lower().startswith(("file://", "local://")):
        raise ArgumentError(f"cannot write to {text}: this writes local files only. Copy the file there afterwards")
    return re.sub(_SCHEME, "", text)


def is_url(text: str) -> bool:
    """Return whether a text is a URL."""
    return "::" in text or re.match(_SCHEME, text) is not None


Options = Mapping[str, Any]
"""How files are opened: see `sapwood.open`."""


def expand(files: Files, is_tree: Callable[[object], bool], options: Options | None = None) -> list[Located]:
    """List the files that a `files` argument names, in its order, patterns sorted by name.

    Parameters
    ----------
    files
        A path or URL, maybe with an object's path after a colon; a `pathlib.Path`; patterns (``*``, ``?``, ``[...]``,
        ``**``, ``{a,b}``) in either, where a URL is one if it has ``*`` or ``{a,b}``; a dict of path to object's
        path, or to a dict of that (``"object_path"``) and of ranges of entries (``"steps"``), whose ``"num_entries"``
        and ``"uuid"`` have no effect; an open tree; or an
        iterable of these.
    is_tree
        Returns whether an object is an open tree.
    options
        Options for listing the folders in URLs with patterns.

    Raises
    ------
    MissingFileError
        Nothing matches.
    StorageError
        A remote folder cannot be listed.
    ArgumentTypeError
        There is something else among the files.
    """
    found = list(_expand(files, is_tree, options or {}, True))
    if not found:
        raise MissingFileError(
            f"no file matches {files!r}\n"
            'Files are given as a path or URL, "path.root:tree", a pattern (*, ?, [...], {a,b}), '
            "a dict of path: tree, an open tree, or several of these."
        )
    return found


_KNOWN_OF_FILES = frozenset({"object_path", "steps", "num_entries", "uuid"})
"""The keys of what datasets of `coffea` say about a file."""


def _expand(files: Files, is_tree: Callable[[object], bool], options: Options, with_object: bool) -> Iterable[Located]:
    if is_tree(files) or callable(getattr(files, "read", None)) or isinstance(files, (bytes, bytearray, memoryview)):
        yield Located(files)
    elif isinstance(files, str):
        path, inside = split_path(files) if with_object else (files, None)
        for one in matches(path, options):
            yield Located(one, inside)
    elif isinstance(getattr(files, "storage_options", None), Mapping):
        # A path of `universal_pathlib`, which carries the options of its file system.
        yield Located(files)
    elif isinstance(files, os.PathLike):
        for one in matches(plain_path(files), options):
            yield Located(one)
    elif isinstance(files, Mapping):
        if (opened := getattr(files, "file_path", None)) is not None:
            raise ArgumentTypeError(
                f"a tree is expected, not an open file or folder: pass one of its trees\nin file {opened}"
            )
        for path, value in files.items():  # pyright: ignore[reportUnknownVariableType]
            about: Mapping[str, Any] = value if isinstance(value, Mapping) else {"object_path": value}
            inside, steps = about.get("object_path"), about.get("steps")
            if not isinstance(inside, (str, type(None))) or about.keys() - _KNOWN_OF_FILES:
                raise ArgumentTypeError(
                    f"the object's path in {path!r} must be a string, None, or a dict of 'object_path' and 'steps', "
                    f"not {value!r}"
                )
            try:
                ranges = None if steps is None else _ranges(steps)
            except (TypeError, ValueError):
                raise ArgumentTypeError(
                    f"the steps of {path!r} are pairs of entries, or entries in order, not {steps!r}"
                ) from None
            for one in _expand(path, is_tree, options, False):
                yield Located(one.file, inside, ranges)
    elif isinstance(files, Iterable):
        for item in files:  # pyright: ignore[reportUnknownVariableType]
            yield from _expand(item, is_tree, options, with_object)
    else:
        raise ArgumentTypeError(
            "files are a path or URL, a pattern, a dict of path to tree, an open tree, or an iterable of these, "
            f"not {files!r}"
        )


def _ranges(steps: Iterable[Any]) -> Steps:
    """Return ranges of entries, given as such or by the entries at which each begins, with the end."""
    given = list(steps)
    if given and all(hasattr(edge, "__index__") for edge in given):
        return [(index(start), index(stop)) for start, stop in itertools.pairwise(given)]
    return [(index(start), index(stop)) for start, stop in given]


def matches(path: str, options: Options) -> list[str]:
    """List the files that a path or URL means, which may be a pattern."""
    far = is_url(path)
    # The part after a question mark is for the server.
    head = path.partition("?")[0]
    try:
        if not ("*" in head or re.search(_BRACES, head)) if far else Path(path).exists():
            return [path]
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    expanded = path if far else str(user_path(path))
    choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(re.split(_BRACES, expanded))]
    found: dict[str, None] = {}
    for choice in itertools.product(*choices):
        name = "".join(choice)
        if far:
            found.update(dict.fromkeys(matching(name, options) if "*" in head else [name]))
        elif glob.has_magic(name):
            # pathlib's own patterns cannot be absolute.
            found.update(dict.fromkeys(sorted(glob.glob(name, recursive=True))))  # noqa: PTH207
        elif len(choices) == 1 or Path(name).exists():
            # A plain name that is not there fails when it is opened; one of several in braces need not be there.
            found[name] = None
    return list(found)
