"""NanoEvents of coffea, read by sapwood: for its processors as tasks, and for those who use coffea itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import awkward as ak

import sapwood
from sapwood.errors import ArgumentError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


def nano_events(events: ak.Array, schema: Foreign = None) -> Foreign:
    """Make NanoEvents of the events of a step.

    Parameters
    ----------
    events
        An array of records; columns that are virtual are read when they are looked at.
    schema
        A schema class of coffea; by default `NanoAODSchema` where the names of the columns fit it, else `BaseSchema`.
    """
    metadata = {**events.attrs.get("metadata", {}), "dataset": events.attrs.get("dataset", "")}
    for name, ours in (("filename", "file"), ("treename", "tree"), ("fileuuid", "uuid")):
        metadata[name] = events.attrs.get(ours, "")
    for name in ("entrystart", "entrystop"):
        metadata[name] = events.attrs.get(f"{name[:5]}_{name[5:]}")
    return _factory(events, schema, metadata).events()


def nano_factory(
    tree: Foreign,
    *,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    schemaclass: Foreign = None,
    metadata: dict[str, Any] | None = None,
    access_log: list[Any] | None = None,
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
        A list that is told of every branch when it is read.
    """
    events = tree.arrays(entry_start=entry_start, entry_stop=entry_stop, virtual=True, access_log=access_log)
    return _factory(events, schemaclass, metadata or {})


@contextmanager
def reading_by_sapwood() -> Generator[None]:
    """Let coffea's own `Runner` read with sapwood inside a ``with`` block, with executors of this process.

    Files are opened by sapwood once more: coffea still asks uproot for their headers.
    """
    executor = _coffea("processor.executor")

    class Factory(_coffea("nanoevents").NanoEventsFactory):  # pyright: ignore[reportUntypedBaseClass]
        @classmethod
        def from_root(
            cls, file: Foreign, *, treepath: str, entry_start: int | None = None, entry_stop: int | None = None,
            schemaclass: Foreign = None, metadata: Foreign = None, access_log: Foreign = None, **_: object,
        ) -> Foreign:  # fmt: skip
            tree = sapwood.open({file.file_path: None})[treepath]
            return nano_factory(tree, entry_start=entry_start, entry_stop=entry_stop, schemaclass=schemaclass,
                                metadata=metadata, access_log=access_log)  # fmt: skip

    before = executor.NanoEventsFactory
    executor.NanoEventsFactory = Factory
    try:
        yield
    finally:
        executor.NanoEventsFactory = before


def _coffea(module: str) -> Any:
    try:
        return import_module(f"coffea.{module}")
    except ImportError as error:
        raise ArgumentError("processors of coffea need the package coffea: pip install coffea") from error


def _factory(events: ak.Array, schema: Foreign, metadata: dict[str, Any]) -> Foreign:
    nano, base, lazy = _coffea("nanoevents"), _coffea("nanoevents.mapping.base"), _coffea("nanoevents.mapping.uproot")
    tuple_to_key = _coffea("nanoevents.util").tuple_to_key

    class Mapping(base.BaseSourceMapping):  # pyright: ignore[reportUntypedBaseClass]
        """Columns of an array of records."""

        def key_root(self) -> str:
            return "SapwoodMapping:"

        def preload_column_source(self, uuid: str, path_in_source: str, source: Foreign) -> None:
            self._cache[self.key_root() + tuple_to_key((uuid, path_in_source))] = source

        def get_column_handle(self, columnsource: Foreign, name: str, allow_missing: bool) -> Foreign:
            return columnsource[name] if not allow_missing or name in columnsource.fields else None

        def extract_column(
            self, columnhandle: Foreign, start: int, stop: int, allow_missing: bool, use_ak_forth: bool = True
        ) -> Foreign:
            if columnhandle is None:
                nothing = ak.contents.EmptyArray().to_NumpyArray(bool)
                return ak.contents.IndexedOptionArray(ak.index.Index64([-1] * (stop - start)), nothing)
            found = ak.materialize(columnhandle[start:stop]).layout
            if not allow_missing:
                return found
            return ak.contents.IndexedOptionArray(ak.index.Index64(range(stop - start)), found)

        @classmethod
        def _extract_base_form(cls, *_: object, **__: object) -> Foreign:
            raise NotImplementedError("the form is made of the array")

        def __len__(self) -> int:
            return self._stop - self._start

        def __iter__(self) -> Foreign:
            raise NotImplementedError("columns are asked for by name")

    forms: dict[str, Any] = {}
    layout: Any = events.layout
    for name, content in zip(layout.fields, layout.contents, strict=True):
        if "," in name or "!" in name:
            continue
        try:
            forms[name] = lazy._lazify_form(json.loads(content.form.to_json()), f"{name},!load")
        except lazy.CannotBeNanoEvents:
            continue  # as for coffea's own: the branch is not there
    form = {"class": "RecordArray", "fields": list(forms), "contents": list(forms.values()),
            "parameters": {"__doc__": "Events"}, "form_key": ""}  # fmt: skip
    if schema is None:
        fits = {"run", "luminosityBlock", "event"} <= set(forms)
        schema = nano.NanoAODSchema if fits else nano.BaseSchema
    identity = uuid.uuid4().hex
    mapping = Mapping(base.UUIDOpener({identity: ""}), 0, len(events), cache={}, virtual=True)
    mapping.preload_column_source(identity, "Events", events)
    key = (identity, "Events", f"0-{len(events)}")
    form["typenames"] = {}
    return nano.NanoEventsFactory._from_mapping(mapping, key, form, schema, metadata, mode="virtual")
