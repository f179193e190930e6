"""Protocols of tables, fields and engines, which every kind of table must implement to be read.

Native tables and the native engine satisfy them; so does any Python object that has the same members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sapwood.columns import Column, Foreign, Type

StoredPart = tuple[Any, Sequence[int], int, int]
"""A stored table, the numbers of the fields to read, and a range of entries."""


class StoredField(Protocol):
    """A field as it is stored."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def title(self) -> str:
        """The title or description."""
        ...

    @property
    def parent(self) -> int | None:
        """The number of the field that it is part of; None at the top."""
        ...

    @property
    def typename(self) -> str:
        """The C++ type."""
        ...

    @property
    def classname(self) -> str:
        """The C++ class of its values if the file names one, otherwise ""."""
        ...

    @property
    def type(self) -> Type | None:
        """The type of its column (see `sapwood.columns`); None if it cannot be read."""
        ...

    @property
    def reason(self) -> str | None:
        """The reason why it cannot be read; None if it can."""
        ...

    @property
    def has_data(self) -> bool:
        """Whether the field has values, not only parts."""
        ...

    @property
    def left_out(self) -> list[str]:
        """The members that cannot be decoded and are skipped: which, and why."""
        ...

    @property
    def doubts(self) -> list[str]:
        """Parts that cannot be read if they occur."""
        ...

    @property
    def entries(self) -> int:
        """The number of entries."""
        ...

    @property
    def total_bytes(self) -> int:
        """The size of its pages before compression."""
        ...

    @property
    def compressed_bytes(self) -> int:
        """The size of its pages as stored."""
        ...

    def longest_entry(self) -> int | None:
        """Find the longest entry of the first page whose entries differ in length; None if all have the same length."""
        ...


class StoredTable(Protocol):
    """A table as it is stored. Fields are numbered depth first, each before its parts."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def title(self) -> str:
        """The title or description."""
        ...

    @property
    def classname(self) -> str:
        """The C++ class."""
        ...

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Names and expressions that the table defines."""
        ...

    def clusters(self) -> list[int]:
        """List the entries at which clusters begin, and the end."""
        ...

    def same_shape(self, other: Any, /) -> bool:
        """Whether another table of this kind has the same fields, aliases and types."""
        ...

    def whole(self, parts: bool, /) -> tuple[list[int], list[str]] | None:
        """Return the numbers and names of all fields at the top.

        None where one cannot be read or two have one name, or with `parts` one has parts.
        """
        ...

    def bytes_in(self, fields: Sequence[int], ranges: Sequence[tuple[int, int]], /) -> list[float]:
        """Estimate the bytes of some fields in memory, in each of several ranges of entries."""
        ...

    def count_pages(self, field: int, /) -> int:
        """Count the pages of a field in the file, each once."""
        ...

    def shared_columns(self, field: int, /) -> list[int] | None:
        """List the stored columns of a field, if they and its type determine its values and other fields show them."""
        ...

    def plan(
        self, fields: Sequence[int], start: int, stop: int, /
    ) -> tuple[list[tuple[int, int, int, int, int, int, int]], list[list[tuple[int, int]]]]:
        """Return the planned reads of some fields.

        Returns
        -------
        Pages (cluster from 1, field, page, offset, length, first entry, entries), and requests, each a list of
        (offset, length).
        """
        ...


class Carry(Protocol):
    """Keeps decompressed pages that reach into the next step of an iteration."""

    def announce(self, table: Any, fields: Sequence[int], start: int, stop: int, /) -> None:
        """Announce the pages of all steps to remote storage."""
        ...

    @property
    def announced(self) -> bool:
        """Whether the ranges were announced to storage."""
        ...

    def give_up(self) -> None:
        """End the reading that uses this."""
        ...


class Engine(Protocol):
    """Reads stored tables; the module `sapwood._native` is one."""

    def read(
        self, parts: Sequence[StoredPart], carry: Any = None, left_out: list[str] | None = None, /
    ) -> list[Column]:
        """Read fields: one column for each place in the lists of numbers, all parts joined.

        `left_out` is a list that gets the reasons for parts of fields that are left out. Without it, these are errors.
        """
        ...

    @property
    def Carry(self) -> Callable[[int], Carry]:  # noqa: N802 - a class
        """Makes a store for pages that reach into the next step, of at most this many bytes."""
        ...

    def arrow_stream(
        self, names: Sequence[str], data: Any, warn: Callable[[list[str]], object] | None = None, /
    ) -> Foreign:
        """Make an Arrow C stream of columns or parts."""
        ...


class File(Protocol):
    """The properties that reading needs of the file that holds a table."""

    @property
    def file_path(self) -> str:
        """The path or URL."""
        ...

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    @property
    def is_far(self) -> bool:
        """Whether the file is on remote storage, where announcing reads ahead pays off."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the counters of the reads from the file so far."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...
