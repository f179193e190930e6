"""The banks of an FZ file as a table: an entry for each event, and fields for each name of a bank."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, UnsupportedError
from sapwood.files.hbook import FzFile, Record
from sapwood.train.data.dataset import is_url

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.files.hbook import Piece

_WORDS = 4_000_000
"""Number of data words converted at a time."""
_HEADER = "header"
"""Name of the field that holds the user header."""
_TYPES = {"B": "u4", "I": "i4", "F": "f4", "D": "f8", "C": "i4", "0": "u4"}
"""Type of each kind of data; H is text."""


@dataclass
class _Form:
    """Common properties of the banks of one name: number per event, kinds and lengths of their pieces.

    A length is None where it differs between banks.
    """

    kinds: str = ""
    lengths: list[int | None] = field(default_factory=list[int | None])
    single: bool = True
    events: int = 0
    other: str = ""

    def look(self, banks: Sequence[Sequence[Piece]]) -> None:
        """Update the properties with the banks of an event."""
        self.events += 1
        self.single &= len(banks) == 1
        for pieces in banks:
            kinds = "".join(kind for kind, _ in pieces)
            if not (kinds.startswith(self.kinds) or self.kinds.startswith(kinds)):
                self.other = kinds
                continue
            self.kinds = max(self.kinds, kinds, key=len)
            new = not self.lengths
            for place, kind in enumerate(self.kinds):
                length = _length(pieces[place]) if place < len(pieces) else 0
                if place == len(self.lengths):
                    self.lengths.append(length if new else None)
                elif self.lengths[place] != length and kind != "H":
                    self.lengths[place] = None

    def columns(self, name: str, banks: Sequence[Sequence[Sequence[Piece]]]) -> dict[str, Foreign]:
        """Return the fields of some events, given the banks of each event."""
        import awkward as ak

        flat = [pieces for one in banks for pieces in one]
        counts = np.array([len(one) for one in banks], np.int64)
        found: dict[str, Foreign] = {}
        for place, (kind, length) in enumerate(zip(self.kinds, self.lengths, strict=True)):
            values = [pieces[place][1] if place < len(pieces) else () for pieces in flat]
            if kind == "H":
                column = ak.to_layout(ak.Array([str(text or "") for text in values] or [""])[: len(values)])
            else:
                parts = [np.atleast_1d(np.asarray(one, _TYPES[kind])) for one in values]
                data: Foreign = np.concatenate([*parts, np.empty(0, _TYPES[kind])])
                data = ak.contents.NumpyArray(data)
                if length is None:
                    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])
                    column = ak.contents.ListOffsetArray(ak.index.Index64(offsets), data)
                else:
                    column = data if length == 1 else ak.contents.RegularArray(data, length, len(values))
            path = name if len(self.kinds) == 1 else f"{name}_{place + 1}"
            found[path] = self._of_events(column, counts)
        return found

    def numbers(self, numbers: Sequence[int], banks: Sequence[Sequence[object]]) -> Foreign:
        """Return the numeric identifiers of the banks of some events."""
        import awkward as ak

        counts = np.array([len(one) for one in banks], np.int64)
        flat: Foreign = np.array(numbers, np.int32)
        return self._of_events(ak.contents.NumpyArray(flat), counts)

    def _of_events(self, column: Foreign, counts: Foreign) -> Foreign:
        import awkward as ak

        if self.single:
            return ak.Array(column)
        offsets = ak.index.Index64(np.concatenate([[0], np.cumsum(counts)]))
        return ak.Array(ak.contents.ListOffsetArray(offsets, column))


def _length(piece: Piece) -> int:
    return int(np.size(piece[1])) if piece[0] != "H" else 1


@dataclass
class _Event:
    """The banks of an event by name, including its continuations, and their numeric identifiers."""

    run: int
    banks: dict[str, list[list[Piece]]] = field(default_factory=dict[str, "list[list[Piece]]"])
    numbers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    words: int = 0

    def add(self, record: Record) -> None:
        """Add the banks of a record."""
        for bank in record.banks or ():
            pieces = bank.pieces
            self.banks.setdefault(bank.name, []).append(pieces)
            self.numbers.setdefault(bank.name, []).append(bank.number)
            self.words += sum(_length(piece) for piece in pieces)


def _events(file: FzFile) -> Iterator[_Event]:
    event: _Event | None = None
    for record in file:
        if record.kind == "event":
            if event is not None:
                yield event
            event = _Event(record.run or 0)
            if record.user_header:
                event.banks[_HEADER] = [record.user_header]
        if event is not None:
            event.add(record)
    if event is not None:
        yield event


def banks_as_table(
    stack: contextlib.ExitStack,
    source: str,
    names: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Iterator[Foreign], Foreign, dict[str, str]]:
    """Return the banks of an FZ file as table batches, an empty batch with their types, and the counters of lists.

    An entry is an event with its continuations. The fields are:

    - ``run``: the number of the run;
    - ``header``: the user header;
    - ``TRAK``: the data of the banks named ``TRAK``; data of several kinds are in ``TRAK_1``, ``TRAK_2``, ...;
    - ``TRAK_number``: their numeric identifiers.

    A field of banks holds a single value per event if each event has exactly one such bank, otherwise a list. Links
    are left out.

    The file is read twice: the first pass finds the types.

    Parameters
    ----------
    stack
        Closes the file.
    source
        The file.
    names
        Names or patterns of banks; by default all.
    options
        Options of `sapwood.open`.

    Raises
    ------
    NotFoundError
        The file has no events, or no bank matches one of the names.
    UnsupportedError
        The file is not an FZ file, or the data of banks of one name differ in their kinds.
    """
    file: Foreign = stack.enter_context(sapwood.open({source: None}, **(options or {} if is_url(source) else {})))
    if not isinstance(file, FzFile):
        raise UnsupportedError(f"{source} is not an FZ file, although its name ends in .fz")
    forms: dict[str, _Form] = {}
    total = 0
    for event in _events(file):
        total += 1
        for name, banks in event.banks.items():
            forms.setdefault(name, _Form()).look(banks)
    if not total:
        raise NotFoundError(f"{source} has no events")
    for form in forms.values():
        form.single &= form.events == total
    for pattern in names or ():
        if not fnmatch.filter(forms, pattern):
            raise NotFoundError(f"{source} has no bank {pattern}; there are: {', '.join(forms)}")
    if names:
        forms = {name: one for name, one in forms.items() if any(fnmatch.fnmatchcase(name, p) for p in names)}
    if differing := {name: one for name, one in forms.items() if one.other}:
        name, form = next(iter(differing.items()))
        good = [name for name in forms if name not in differing]
        raise UnsupportedError(
            f"{source}: {', '.join(differing)}: these banks cannot be fields, because the data of {name} are of the "
            f"kinds {form.kinds[:20]} and {form.other[:20]}; choose others with --columns {' '.join(good[:8])}"
        )

    def batch(events: Sequence[_Event]) -> Foreign:
        import awkward as ak

        found: dict[str, Foreign] = {"run": np.array([one.run for one in events], np.int32)}
        for name, form in forms.items():
            banks = [one.banks.get(name, []) for one in events]
            more = form.columns(name, banks)
            if name != _HEADER:
                numbers = [number for one in events for number in one.numbers.get(name, ())]
                more = {f"{name}_number": form.numbers(numbers, banks)} | more
            if both := more.keys() & found.keys():
                raise ArgumentError(f"{source}: two banks make the field {min(both)}; choose one with --columns")
            found |= more
        return ak.zip(found, depth_limit=1)

    def batches() -> Iterator[Foreign]:
        waiting: list[_Event] = []
        for event in _events(file):
            waiting.append(event)
            if sum(one.words for one in waiting) >= _WORDS or len(waiting) >= 1000:
                yield batch(waiting)
                waiting = []
        if waiting:
            yield batch(waiting)

    empty = batch([])
    lists = [name for name, form in forms.items() if not form.single]
    own = {name: [f"{name}_number", *forms[name].columns(name, [])] for name in lists}
    return batches(), empty, {path: f"n{name}" for name in lists for path in own[name]}
