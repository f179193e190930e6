"""ZEBRA files: ntuples of HBOOK as tables, banks, and the records of FZ files.

HBOOK histograms become objects of the corresponding ROOT classes; see `sapwood.objects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.errors import ArgumentError, NotFoundError, without_secrets
from sapwood.files.keyed import KeyedTable
from sapwood.table.reading import ReadableField
from sapwood.table.schema import HasFields, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

    from sapwood import _native
    from sapwood.columns import Foreign
    from sapwood.table.engine import StoredField

_WORDS = Words("column", "columns", "columns", "filter_field", "ntuple", "buffers", "buffers")

Piece = tuple[str, Any]
"""Words of one kind: the letter of the kind, and an array, a text or a number.

B bits, I integers, F floats, D doubles, H text, C a count before the counted words, 0 words of unknown kind.
"""


class Ntuple(KeyedTable):
    """A row-wise or column-wise ntuple: rows, each with a value in every column."""

    words = _WORDS

    def _field(self, stored: StoredField, number: int, parent: HasFields) -> NtupleColumn:
        return NtupleColumn(stored, number, parent, self)

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<{self.classname} {self.name!r} ({len(self)} columns) at 0x{id(self):012x}>"


class NtupleColumn(ReadableField):
    """A column of an ntuple. Its title is its declaration, with its block."""

    words = _WORDS

    _table: Any

    @property
    def cache_key(self) -> str:
        """A string that identifies this column among all files."""
        return f"{self._table.cache_key}:{self.name}({self.index})"

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<NtupleColumn {self.title!r} at 0x{id(self):012x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file and the path in it."""
        return _column_at, (self._table, self.number)


def _column_at(table: Ntuple, number: int) -> NtupleColumn:
    return table.field_at(number)


class Bank:
    """A bank: a name, a number, links to other banks, and data."""

    __slots__ = ("_about", "_banks", "place")

    def __init__(self, banks: Banks, place: int) -> None:
        self._banks = banks
        self._about = banks.native.about(place)
        self.place = place
        """Index among the banks of its structure."""

    @property
    def name(self) -> str:
        """The name, four characters without trailing blanks."""
        return self._about[0]

    @property
    def number(self) -> int:
        """The numeric identifier."""
        return self._about[1]

    @property
    def structural(self) -> int:
        """Number of structural links: the first links, which own the banks they point to."""
        return self._about[2]

    @property
    def status(self) -> int:
        """The status word."""
        return self._about[3]

    @property
    def io_words(self) -> list[int]:
        """The words that describe its data."""
        return self._about[4]

    @property
    def pieces(self) -> list[Piece]:
        """The data, piece by piece: adjacent words of one kind."""
        return self._banks.native.data(self.place)

    @property
    def kinds(self) -> str:
        """The kind of each data word, as a letter."""
        return "".join(
            letter * (len(data) // 4 if letter == "H" else len(data) * (2 if letter == "D" else 1))
            for letter, data in self.pieces
        )

    @property
    def data(self) -> Any:
        """The data: an array or a text if all words are of one kind, otherwise a list of arrays and texts."""
        pieces = [data for _, data in self.pieces]
        return pieces[0] if len(pieces) == 1 else pieces

    @property
    def link_places(self) -> list[int]:
        """Indices of the banks that the links point to, from link 1; -1: no bank, -2: a bank that was not written."""
        return self._banks.native.links(self.place)[1:-1]

    @property
    def links(self) -> list[Bank | None]:
        """The banks that the links point to, from link 1."""
        return [self._banks.at(place) for place in self.link_places]

    @property
    def next(self) -> Bank | None:
        """The next bank of its chain."""
        return self._banks.at(self._banks.native.links(self.place)[0])

    @property
    def up(self) -> Bank | None:
        """The bank above."""
        return self._banks.at(self._banks.native.links(self.place)[-1])

    def __repr__(self) -> str:
        """Show name, number and the kinds of its data."""
        kinds = self.kinds
        return f"<Bank {self.name} {self.number}: {kinds[:40]}{'...' if len(kinds) > 40 else ''}>"


class Banks(Sequence[Bank]):
    """Banks that were written together, in the order of the file.

    ``banks["TRAK"]`` lists the banks of a name.
    """

    def __init__(self, native: _native.Structure) -> None:
        self.native: _native.Structure = native

    @property
    def entry(self) -> Bank | None:
        """The entry bank given by the writing program: the top of the structure."""
        place = self.native.entry
        return None if place is None else self[place]

    def at(self, place: int) -> Bank | None:
        """Return a bank by its index; None for an index below 0."""
        return None if place < 0 else Bank(self, place)

    def named(self, name: str) -> list[Bank]:
        """List the banks of a name."""
        return [bank for bank in self if bank.name == name.rstrip()]

    def __len__(self) -> int:
        """Count the banks."""
        return len(self.native)

    def __getitem__(self, where: Any) -> Any:
        """Return a bank by its index, several by a slice, or those of a name."""
        if isinstance(where, str):
            return self.named(where)
        if isinstance(where, slice):
            return [Bank(self, place) for place in range(*where.indices(len(self)))]
        place = where + len(self) if where < 0 else where
        if not 0 <= place < len(self):
            raise IndexError(f"no bank at index {where}: there are {len(self)}")
        return Bank(self, place)

    def __repr__(self) -> str:
        """Show the number of banks of each name."""
        counts: dict[str, int] = {}
        for bank in self:
            counts[bank.name] = counts.get(bank.name, 0) + 1
        return f"<Banks {', '.join(f'{count} {name}' for name, count in counts.items())}>"


class Record(NamedTuple):
    """A logical record of an FZ file."""

    kind: str
    """``"start of run"``, ``"end of run"``, ``"end of file"``, ``"event"``, ``"continuation"`` (more of an event) or
    ``"emergency stop"``."""
    run: int | None
    """The number of the run that the record starts or is part of."""
    user_header: list[Piece]
    """The user header of a structure, or the user words of a start or end."""
    banks: Banks | None
    """The banks, of events and continuations."""
    segments: list[tuple[str, int]]
    """Names and sizes, in words, of the segments that contain the banks."""
    text: str
    """The text vector."""
    offset: int
    """Offset of the record in the file, in bytes."""


class Collected(NamedTuple):
    """The data of all banks of a name, of several structures together."""

    offsets: NDArray[np.int64]
    """Index of the first bank of each structure, and the total number of banks."""
    sizes: NDArray[np.uint32]
    """Number of data words of each bank."""
    words: NDArray[np.uint32]
    """All data words, bank after bank."""

    def matrix(self, size: int | None = None) -> NDArray[np.uint32]:
        """Return the words as one row per bank; ``.view("float32")`` reads them as floats.

        Parameters
        ----------
        size
            Number of words per bank, needed if there may be no banks.

        Raises
        ------
        ArgumentError
            The banks have different numbers of words.
        """
        width = int(self.sizes[0]) if len(self.sizes) else size or 0
        if (size is not None and width != size) or np.any(self.sizes != width):
            sizes = np.unique(self.sizes)
            raise ArgumentError(f"banks of {', '.join(map(str, sizes[:5]))} words are not rows of one length")
        return self.words.reshape(len(self.sizes), width)


def _collected(names: Sequence[str], found: Sequence[tuple[Any, Any, Any]]) -> dict[str, Collected]:
    return {name: Collected(*columns) for name, columns in zip(names, found, strict=True)}


_NO_NAMES = (
    "an FZ file is a sequence of records, which have no names; sapwood ls counts them, and sapwood convert makes a "
    "table of their banks"
)


class FzFile:
    """An open FZ file: a sequence of records. Iteration reads one after the other."""

    def __init__(self, file: Any) -> None:
        self._file = file

    @property
    def file(self) -> Any:
        """The file itself."""
        return self._file

    @property
    def file_path(self) -> str:
        """The path or URL by which the file was opened."""
        return self._file.file_path

    @property
    def mode(self) -> str:
        """The file format of records: ``"exchange"``, ``"native"`` or ``"alfa"`` (text)."""
        return self._file.native.mode

    @property
    def byte_order(self) -> str:
        """The byte order of words: ``"big"`` or ``"little"``."""
        return self._file.native.order

    @property
    def record_words(self) -> int | None:
        """The length of physical records, in words; None in native mode."""
        return self._file.native.record_words

    def __iter__(self) -> Iterator[Record]:
        """Read one logical record after the other."""
        reader = self._file.native.reader()
        run: int | None = None
        while (found := reader.read()) is not None:
            kind, offset, number, header, segments, text, structure = found
            run = number if number is not None else run
            banks = None if structure is None else Banks(structure)
            yield Record(kind, run, header, banks, segments, text, offset)

    def collect(self, names: str | Sequence[str], step_size: int = 1000) -> Iterator[dict[str, Collected]]:
        """Read the data of banks by name, some structures at a time, without making an object per bank.

        Parameters
        ----------
        names
            Names of banks.
        step_size
            Number of structures (events and continuations) to read at a time.

        Yields
        ------
        dict
            For each name, the data of its banks in these structures.
        """
        chosen = [names] if isinstance(names, str) else list(names)
        if step_size < 1:
            raise ArgumentError(f"step_size must be at least 1 structure, not {step_size}")
        reader = self._file.native.reader()
        while (found := reader.collect(chosen, step_size)) is not None:
            yield _collected(chosen, found)

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self._file.closed

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def __getitem__(self, where: str) -> Foreign:
        """Raise an error: records have no names."""
        raise NotFoundError(f"not found: {where!r} in {self.file_path} ({_NO_NAMES})")

    def classnames(self, **_: object) -> dict[str, str]:
        """Raise an error: records have no names."""
        raise NotFoundError(f"{self.file_path} has no objects with names: {_NO_NAMES}")

    keys = iterkeys = iterclassnames = classnames

    def __repr__(self) -> str:
        """Return a short description with the path."""
        return without_secrets(f"<FzFile {self.file_path!r} ({self.mode}) at 0x{id(self):012x}>")


def collect(directory: Any, names: str | Sequence[str], keys: Sequence[str]) -> dict[str, Collected]:
    """Read the data of banks by name from objects of an RZ directory.

    Parameters
    ----------
    directory
        The directory.
    names
        Names of banks.
    keys
        Names of keys in it. The newest cycle of each is read.
    """
    chosen = [names] if isinstance(names, str) else list(names)
    places = [directory.place_of(key) for key in keys]
    return _collected(chosen, directory.native.collect(chosen, places))


def read_banks(key: Any) -> Any:
    """Read the banks of a key, or its vector."""
    directory = key.parent.native
    return directory.vector(key.native) if key.fClassName == "Vector" else Banks(directory.structure(key.native))
