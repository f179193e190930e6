"""NanoEvents of coffea, read by sapwood: for its processors as tasks, and for those who use coffea itself."""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

import awkward as ak

import sapwood
from sapwood.errors import ArgumentError
from sapwood.table.steps import entry_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from sapwood.columns import Foreign

Column = tuple[Any, str, str, "Callable[[int, int], ak.Array]"]
"""A column as a schema knows it: its form, title and C++ type, and what gives its entries."""


def nano_events(events: ak.Array, schema: Foreign = None) -> Foreign:
    """Make NanoEvents of the events of a step.

    Parameters
    ----------
    events
        An array of records; columns that are virtual are read when they are looked at. Where its attributes have the
        tree (``@tree``), columns get their full paths, titles and types from there.
    schema
        A schema class of coffea; by default `NanoAODSchema` where the names of the columns fit it, else `BaseSchema`.
    """
    attrs = events.attrs
    metadata = {**attrs.get("metadata", {}), "dataset": attrs.get("dataset", "")}
    for name, ours in (("filename", "file"), ("treename", "tree"), ("fileuuid", "uuid")):
        metadata[name] = attrs.get(ours, "")
    for name in ("entrystart", "entrystop"):
        metadata[name] = attrs.get(f"{name[:5]}_{name[5:]}")
    return _factory(_columns_of(events, attrs.get("@tree")), len(events), schema, metadata).events()


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
) -> Foreign:
    """Make a `NanoEventsFactory` that reads an open tree with sapwood, in place of ``NanoEventsFactory.from_root``.

    Parameters
    ----------
    tree
        A tree that `sapwood.open` gave.
    entry_start, entry_stop
        The range of entries.
    schemaclass
        As in `nano_events`.
    metadata
        What is to be ``events.metadata``.
    access_log
        A list that gets every branch when it is read.
    iteritems_options
        Filters of the tree's `iteritems`: which branches there are.
    preload
        Names of branches to read at once, together; or a filter of branches.
    """
    bounds = entry_range(tree.num_entries, entry_start, entry_stop)
    events: Any = tree.arrays(entry_start=bounds[0], entry_stop=bounds[1], virtual=True)
    allowed = {path for path, _ in tree.iteritems(**(iteritems_options or {}))}
    columns = {path: column for path, column in _columns_of(events, tree).items() if path in allowed}
    if preload is not None:
        names = preload if callable(preload) else list(preload)
        chosen = {"filter_branch": names} if callable(names) else {"filter_name": names}
        read: Any = tree.arrays(**chosen, entry_start=bounds[0], entry_stop=bounds[1], how=dict)
        for name, array in read.items():
            path = name if name in columns else next((path for path in columns if path.endswith(f"/{name}")), None)
            if path is not None:
                columns[path] = (*columns[path][:3], lambda start, stop, array=array: array[start:stop])
    return _factory(columns, bounds[1] - bounds[0], schemaclass, metadata or {}, access_log)


@contextmanager
def reading_by_sapwood() -> Generator[None]:
    """Let coffea's own `Runner` read with sapwood inside a ``with`` block.

    This holds for all of coffea's executors, on other machines too where sapwood is installed there. Files are opened
    by sapwood once more: coffea still asks uproot for their headers.
    """
    _work_of_coffea()
    runner = _coffea("processor.executor").Runner
    before = vars(runner)["_work_function"]
    runner._work_function = staticmethod(_work)
    try:
        yield
    finally:
        runner._work_function = before


def _work(*arguments: Foreign, **options: Foreign) -> Foreign:
    """Work on a chunk as coffea does; other processes find this by its name."""
    return _work_of_coffea()(*arguments, **options)


@cache
def _work_of_coffea() -> Foreign:
    """Return coffea's own function for a chunk, which finds our factory by the name of coffea's."""
    theirs = _coffea("processor.executor").Runner._work_function

    class Factory(_coffea("nanoevents").NanoEventsFactory):  # pyright: ignore[reportUntypedBaseClass]
        @classmethod
        def from_root(
            cls, file: Foreign, *, treepath: str, mode: str = "virtual", use_ak_forth: bool = True, **options: Foreign
        ) -> Foreign:
            del use_ak_forth  # chooses how uproot decodes
            if mode != "virtual":
                raise ArgumentError(f"sapwood makes NanoEvents in mode 'virtual', not {mode!r}")
            known = inspect.signature(nano_factory).parameters
            unknown = [name for name, value in options.items() if name not in known and value is not None]
            if unknown:
                raise ArgumentError(f"sapwood's NanoEvents have no option {', '.join(map(repr, unknown))}")
            tree = sapwood.open({file.file_path: None})[treepath]
            return nano_factory(tree, **{name: value for name, value in options.items() if name in known})

    ours = FunctionType(
        theirs.__code__, {**theirs.__globals__, "NanoEventsFactory": Factory}, theirs.__name__, theirs.__defaults__
    )
    ours.__kwdefaults__ = theirs.__kwdefaults__
    return ours


def _coffea(module: str) -> Any:
    try:
        return import_module(f"coffea.{module}")
    except ImportError as error:
        raise ArgumentError("processors of coffea need the package coffea: pip install coffea") from error


def _columns_of(events: ak.Array, tree: Foreign) -> dict[str, Column]:
    """Return the columns of an array of records, under the paths that they have in a tree (None: as they are)."""
    layout: Any = events.layout
    layout = layout.project() if layout.is_indexed else layout
    contents = dict(zip(layout.fields, layout.contents, strict=True))

    def column(content: Foreign, title: str = "", typename: str = "") -> Column:
        return content.form, title, typename, lambda start, stop: ak.materialize(ak.Array(content[start:stop]))

    if tree is None:
        return {name: column(content) for name, content in contents.items()}
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
        inner = {child.name: content_of(child) for child in branch.branches}
        inner = {name: content for name, content in inner.items() if content is not None}
        return ak.contents.RecordArray(list(inner.values()), list(inner), length=layout.length)

    columns: dict[str, Column] = {}
    for path, branch in tree.iteritems():
        content = content_of(branch)
        if content is not None and path not in columns:
            columns[path] = column(content, branch.title, branch.typename)
    # What the tree does not have: columns of friends, or of another type than in the first file.
    for name in [name for name in contents if name not in taken]:
        columns[name] = column(contents[name])
    return columns


def _factory(
    columns: dict[str, Column],
    length: int,
    schema: Foreign,
    metadata: dict[str, Any],
    access_log: list[Any] | None = None,
) -> Foreign:
    nano, base, lazy = _coffea("nanoevents"), _coffea("nanoevents.mapping.base"), _coffea("nanoevents.mapping.uproot")
    tuple_to_key = _coffea("nanoevents.util").tuple_to_key

    class Columns(base.BaseSourceMapping):  # pyright: ignore[reportUntypedBaseClass]
        """Columns by name."""

        def key_root(self) -> str:
            return "SapwoodMapping:"

        def preload_column_source(self, uuid: str, path_in_source: str, source: Foreign) -> None:
            self._cache[self.key_root() + tuple_to_key((uuid, path_in_source))] = source

        def get_column_handle(self, columnsource: Foreign, name: str, allow_missing: bool) -> Foreign:
            return columnsource.get(name) if allow_missing else columnsource[name]

        def extract_column(
            self, columnhandle: Foreign, start: int, stop: int, allow_missing: bool, use_ak_forth: bool = True
        ) -> Foreign:
            if columnhandle is None:
                nothing = ak.contents.EmptyArray().to_NumpyArray(bool)
                return ak.contents.IndexedOptionArray(ak.index.Index64([-1] * (stop - start)), nothing)
            # Packed: coffea takes offsets and contents apart, each of which then begins at 0.
            found: Any = ak.to_packed(columnhandle[3](start, stop))
            if not allow_missing:
                return found
            return ak.Array(ak.contents.IndexedOptionArray(ak.index.Index64(range(stop - start)), found.layout))

        @classmethod
        def _extract_base_form(cls, *_: object, **__: object) -> Foreign:
            raise NotImplementedError("the form is made of the columns")

        def __len__(self) -> int:
            return self._stop - self._start

        def __iter__(self) -> Foreign:
            raise NotImplementedError("columns are asked for by name")

    forms: dict[str, Any] = {}
    for name, (form, title, typename, _) in columns.items():
        if "," in name or "!" in name:
            continue
        described: dict[str, Any] = {"docstr": title, "typestr": typename} if typename else {}
        try:
            forms[name] = lazy._lazify_form(json.loads(form.to_json()), f"{name},!load", **described)
        except lazy.CannotBeNanoEvents:
            continue  # as for coffea's own: the branch is not there
    form = {"class": "RecordArray", "fields": list(forms), "contents": list(forms.values()),
            "parameters": {"__doc__": "Events"}, "form_key": ""}  # fmt: skip
    if schema is None:
        fits = {"run", "luminosityBlock", "event"} <= set(forms)
        schema = nano.NanoAODSchema if fits else nano.BaseSchema
    identity = uuid.uuid4().hex
    mapping = Columns(base.UUIDOpener({identity: ""}), 0, length, cache={}, access_log=access_log, virtual=True)
    mapping.preload_column_source(identity, "Events", columns)
    key = (identity, "Events", f"0-{length}")
    form["typenames"] = {name: typename for name, (_, _, typename, _) in columns.items()}
    return nano.NanoEventsFactory._from_mapping(mapping, key, form, schema, metadata, mode="virtual")
