"""NanoEvents of coffea, read by sapwood: for coffea's processors as tasks, and for coffea's own `Runner`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partialmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any

import awkward as ak

import sapwood
from sapwood.columns import is_settled
from sapwood.errors import MissingPackageError, UnsupportedError
from sapwood.files.patching import Patch, is_patched, register
from sapwood.table.steps import entry_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from sapwood.columns import Foreign


def nano_events(events: ak.Array, schema: Foreign = None) -> Foreign:
    """Create NanoEvents from the events of a step.

    Parameters
    ----------
    events
        An array of records. Virtual columns are read on access. If its attributes have the tree (``@tree``), columns
        get their full paths, titles and types from the tree.
    schema
        A schema class of coffea. Default: `NanoAODSchema` if the column names fit it, else `BaseSchema`.
    """
    attrs = events.attrs
    metadata = {**attrs.get("metadata", {}), "dataset": attrs.get("dataset", "")}
    for name, ours in (("filename", "file"), ("treename", "tree"), ("fileuuid", "uuid")):
        metadata[name] = attrs.get(ours, "")
    for name in ("entrystart", "entrystop"):
        metadata[name] = attrs.get(f"{name[:5]}_{name[5:]}")
    columns = _columns_of(events, attrs.get("@tree"))
    return _factory(_Step(columns, len(events)), schema, metadata, treepath=_Step.object_path).events()


def nano_factory(
    tree: Foreign,
    *,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    schemaclass: Foreign = None,
    metadata: dict[str, Any] | None = None,
    access_log: list[Any] | None = None,
    iteritems_options: Mapping[str, Any] | None = None,
    preload: Foreign = None,
    buffer_cache: Foreign = None,
) -> Foreign:
    """Create a `NanoEventsFactory` that reads an open tree with sapwood, instead of ``NanoEventsFactory.from_root``.

    Parameters
    ----------
    tree
        A tree of a file opened with `sapwood.open`.
    entry_start, entry_stop
        The range of entries.
    schemaclass
        The schema, as in `nano_events`.
    metadata
        The value of ``events.metadata``.
    access_log
        A list to which every branch is added when it is read.
    iteritems_options
        Filters of the tree's `iteritems`, which select the branches.
    preload
        Names of branches to read together at once; or a filter of branches.
    buffer_cache
        A mutable mapping that keeps the buffers of columns for the next factory of the file.
    """
    start, stop = entry_range(tree.num_entries, entry_start, entry_stop)
    options: dict[str, Any] = {"entry_start": start, "entry_stop": stop, "access_log": access_log, "preload": preload}
    options |= {"iteritems_options": iteritems_options or {}, "treepath": tree.object_path}
    options |= {} if buffer_cache is None else {"buffer_cache": buffer_cache}
    return _factory(tree.file.root_directory, schemaclass, metadata or {}, **options)


@contextmanager
def reading_by_sapwood() -> Generator[None]:
    """Let coffea's own `Runner` read with sapwood inside a ``with`` block.

    This applies to all of coffea's executors, also on other machines that have sapwood installed. They open files with
    `uproot.open`, which is replaced by sapwood's while they work (`sapwood.patch_uproot`).
    """
    processor = _coffea("processor")
    executors = [cls for name in _EXECUTORS if (cls := getattr(processor, name, None)) is not None]
    before = {cls: vars(cls)["__call__"] for cls in executors}
    for cls, run in before.items():
        cls.__call__ = partialmethod(_execute, run)
    try:
        yield
    finally:
        for cls, run in before.items():
            cls.__call__ = run


_EXECUTORS = ("IterativeExecutor", "FuturesExecutor", "DaskExecutor", "ParslExecutor", "TaskVineExecutor")


def _execute(executor: Foreign, run: Foreign, items: Foreign, function: Foreign, accumulator: Foreign) -> Foreign:
    """Call an executor of coffea with a function that reads with sapwood."""
    return run(executor, items, _Reading(function), accumulator)


class _Reading:
    """A function that replaces `uproot.open` by sapwood's while it runs, in any process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "work")

    def __call__(self, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Call the function."""
        with _LOCK:
            if not _working and not is_patched():
                _patches.append(sapwood.patch_uproot())
            _working.append(self)
        try:
            return self.function(*arguments, **options)
        finally:
            # Other threads may still run their functions.
            with _LOCK:
                _working.remove(self)
                while _patches and not _working:
                    _patches.pop().undo()


_LOCK = threading.Lock()
_working: list[_Reading] = []
"""The functions that are running in this process."""
_patches: list[Patch] = []
"""The patches that the first of them applied."""


def _coffea(module: str) -> Any:
    try:
        return import_module(f"coffea.{module}")
    except ImportError as error:
        raise MissingPackageError("processors of coffea need the package coffea: pip install coffea") from error


class _Column:
    """A column of a step, with the members of uproot's branches that coffea uses."""

    def __init__(self, name: str, content: Foreign, title: str = "", typename: str = "") -> None:
        self.name = name
        self.title = title
        self.typename = typename
        self.interpretation = self
        self._content = content

    def awkward_form(self, *_: object) -> Foreign:
        """Return the form of its arrays."""
        return self._content.form

    def array(self, _: object, entry_start: int, entry_stop: int, **__: object) -> Foreign:
        """Return a range of its entries."""
        # Packed: coffea separates offsets and contents, and both must begin at 0.
        return ak.to_packed(ak.materialize(ak.Array(self._content[entry_start:entry_stop])))


class _Step(dict[str, Any]):
    """The columns of a step, with the members of uproot's files and trees that coffea uses."""

    object_path = "@step"
    title = "Events"
    file_path = ""

    def __init__(self, columns: dict[str, _Column], length: int) -> None:
        super().__init__(columns)
        self.num_entries = length
        self.uuid = uuid.uuid4()

    @property
    def file(self) -> _Step:
        """The file."""
        return self

    def __getitem__(self, name: str) -> Foreign:
        """Return a column, or this object for the path of its tree."""
        return self if name == self.object_path else super().__getitem__(name)

    def iteritems(self) -> Iterator[tuple[str, _Column]]:
        """Iterate over names and columns."""
        return iter(self.items())

    def typenames(self) -> dict[str, str]:
        """Return the C++ types of the columns."""
        return {name: column.typename for name, column in self.items()}


def _columns_of(events: ak.Array, tree: Foreign) -> dict[str, _Column]:
    """Return the columns of an array of records by their paths in a tree (without a tree, by their names)."""
    layout: Any = events.layout
    layout = layout.project() if layout.is_indexed else layout
    contents = dict(zip(layout.fields, layout.contents, strict=True))

    if tree is None:
        return {name: _Column(name, content) for name, content in contents.items()}
    names: dict[Any, str] = {}
    taken: set[str] = set()
    for path, branch in tree.iteritems():  # as `arrays` names them
        if not branch.is_group and branch.reason is None:
            name = branch.name if branch.name not in taken else path
            taken.add(name)
            if name in contents:
                names[branch] = name

    def content_of(branch: Foreign) -> Foreign:
        if not branch.is_group:
            return contents.get(names.get(branch, ""))
        inner = {child.name: content_of(child) for child in branch.fields}
        inner = {name: content for name, content in inner.items() if content is not None}
        return ak.contents.RecordArray(list(inner.values()), list(inner), length=layout.length)

    columns: dict[str, _Column] = {}
    for path, branch in tree.iteritems():
        content = content_of(branch)
        if content is not None and path not in columns and _has_form(branch):
            columns[path] = _Column(path, content, branch.title, branch.typename)
    # Columns that the tree does not have: those of friends, or with another type than in the first file.
    for name in [name for name in contents if name not in taken]:
        columns[name] = _Column(name, contents[name])
    return columns


def _has_form(branch: Foreign) -> bool:
    """Return whether coffea would read a branch from its file, too."""
    try:
        branch.interpretation.awkward_form(None)
    except UnsupportedError:
        return bool(branch.type is not None and not is_settled(branch.type))
    return True


def _factory(source: Foreign, schema: Foreign, metadata: dict[str, Any], treepath: str, **options: Any) -> Foreign:
    """Create coffea's NanoEvents factory from a directory of sapwood, or from an object with its members."""
    nano = _coffea("nanoevents")
    register(type(source))
    if schema is None:
        fits = {"run", "luminosityBlock", "event"} <= set(source[treepath].typenames())
        schema = nano.NanoAODSchema if fits else nano.BaseSchema
    return nano.NanoEventsFactory.from_root(
        source, treepath=treepath, schemaclass=schema, metadata=metadata, mode="virtual", **options
    )
