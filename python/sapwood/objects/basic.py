"""Arrays, collections, strings, dates and other small classes of ROOT."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.objects.dates import unpack_datetime
from sapwood.objects.model import Document, Model, behavior
from sapwood.show.safe import safe_line

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood import _native

# Bits of a TObject that describe its state in memory (kIsOnHeap, kNotDeleted), not its content.
_MEMORY_BITS = 0x03000000


@behavior("TObject", inherited=False)
class TObject(Model):
    """The base of most ROOT classes: ``@fUniqueID`` and ``@fBits``."""

    def _json_into(self, json: Any, out: dict[str, Any]) -> None:
        out["fUniqueID"] = self.members["@fUniqueID"]
        out["fBits"] = self.members["@fBits"] & ~_MEMORY_BITS
        if "@pidf" in self.members:
            out["fPID"] = self.members["@pidf"]


@behavior("TNamed")
class TNamed(Model):
    """An object with a name and a title."""

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.member("fName")

    @property
    def title(self) -> str:
        """The title of the object."""
        return self.member("fTitle")


@behavior("TArrayC", "TArrayS", "TArrayI", "TArrayL", "TArrayL64", "TArrayF", "TArrayD")
class TArray(Model, Sequence[Any]):
    """Numbers; `numpy.asarray` returns them as an array."""

    is_counted = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the numbers as a NumPy array."""
        values: np.ndarray[Any, Any] = self.member("fArray")
        if dtype is not None and values.dtype != dtype:
            return values.astype(dtype)
        return values.copy() if copy else values

    @property
    def nbytes(self) -> int:
        """The size of the numbers, in bytes."""
        return self.member("fArray").nbytes

    def __getitem__(self, where: Any) -> Any:
        """Return a number, or an array of some."""
        return self.member("fArray")[where]

    def __len__(self) -> int:
        """Count the numbers."""
        return len(self.member("fArray"))

    def _json(self, json: Any) -> Any:
        return self.member("fArray").tolist()

    def _json_into(self, json: Any, out: dict[str, Any]) -> None:
        out["fArray"] = self.member("fArray").tolist()


class Collection(Model):
    """A ROOT collection of pointers."""

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.member("fName", none_if_missing=True) or ""

    def __repr__(self) -> str:
        """Show the class and how many items there are."""
        count = len(self)  # pyright: ignore[reportArgumentType]
        return safe_line(f"<{self.classname} (version {self.class_version}) of {count} items at 0x{id(self):012x}>")


@behavior(
    "TCollection", "TSeqCollection", "TList", "THashList", "TSortedList", "TObjArray", "TOrdCollection", "THashTable",
    "TClonesArray", "TBtree", "RooLinkedList",
)  # fmt: skip
class ObjectList(Collection, Sequence[Any]):
    """A list or array of objects; empty places are None."""

    @property
    def _items(self) -> list[Any]:
        return self.member("@items")

    @property
    def options(self) -> list[str]:
        """The option of each object of a `TList`, such as the drawing option of a histogram or graph."""
        return list(self.member("@options", none_if_missing=True) or ())

    @property
    def item_classname(self) -> str | None:
        """The class of the objects of a `TClonesArray`."""
        return self.member("@class", none_if_missing=True)

    @property
    def item_classversion(self) -> int | None:
        """The version of that class."""
        return self.member("@version", none_if_missing=True)

    def __getitem__(self, where: Any) -> Any:
        """Return an object, or a list of some."""
        return self._items[where]

    def __len__(self) -> int:
        """Count the places."""
        return len(self._items)

    def _json(self, json: Any) -> Any:
        out: dict[str, Any] = {"_typename": self.classname, "name": self.name or self.classname}
        out["arr"] = [json.value(item) for item in self._items]
        if self.has_member("@options"):
            out["opt"] = [option or None for option in self.options]
        return out


@behavior("TRefArray", "RooRefArray")
class TRefArray(Collection, Sequence[int]):
    """The unique identifiers of objects stored elsewhere; 0 for empty places."""

    @property
    def refs(self) -> np.ndarray[Any, Any]:
        """The identifiers, as 32-bit integers."""
        return self.member("@items")

    @property
    def nbytes(self) -> int:
        """The size of the identifiers, in bytes."""
        return self.refs.nbytes

    def __getitem__(self, where: Any) -> Any:
        """Return an identifier, or an array of some."""
        return self.refs[where]

    def __len__(self) -> int:
        """Count the places."""
        return len(self.refs)

    def _json(self, json: Any) -> Any:
        return {"_typename": self.classname, "name": self.name or self.classname, "arr": self.refs.tolist()}


@behavior("TMap", "TExMap")
class TMap(Collection, Mapping[Any, Any]):
    """Pairs of objects (`TMap`) or integers (`TExMap`). Keys are found by their name or text."""

    def items(self) -> list[tuple[Any, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the pairs."""
        return self.member("@items").items()

    def keys(self) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the keys."""
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """List the values."""
        return [value for _, value in self.items()]

    def __getitem__(self, wanted: object) -> Any:
        """Return the value of a key: the key itself, or its name."""
        for key, value in self.items():
            named = isinstance(key, Model) and key.member("fName", none_if_missing=True) == wanted
            if key is wanted or named or ((not isinstance(key, Model) or isinstance(key, str)) and key == wanted):
                return value
        raise KeyError(wanted)

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.items())

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys."""
        return iter(self.keys())

    def _json(self, json: Any) -> Any:
        pair = "TPair" if self.classname == "TMap" else "pair"
        pairs = [{"$pair": pair, "first": json.value(k), "second": json.value(v)} for k, v in self.items()]
        return {"_typename": self.classname, "name": self.name or self.classname, "arr": pairs}


@behavior("TObjString")
class TObjString(str, Model):
    """A string that is an object, and also a Python string."""

    __slots__ = ()

    def __new__(cls, native: _native.Object, document: Document) -> Self:
        """Take the text of the object."""
        text = native.member("fString", document.makers) if native.owner("fString") == -1 else ""
        return super().__new__(cls, text if isinstance(text, str) else repr(text))

    __eq__ = str.__eq__
    __ne__ = str.__ne__
    __hash__ = str.__hash__

    def __repr__(self) -> str:
        """Show the text."""
        return f"<TObjString {str.__repr__(self)} at 0x{id(self):012x}>"

    def __str__(self) -> str:
        """Return the text."""
        return str.__str__(self)

    def __reduce__(self) -> Any:
        """Pickle it."""
        return _string, (str(self),), self.__getstate__()


def _string(text: str) -> TObjString:
    return str.__new__(TObjString, text)


@behavior("TString", "TStringLong")
class TString(Model):
    """A string where an object is expected."""

    def __str__(self) -> str:
        """Return the text."""
        return self.member("fString")


@behavior("TParameter<")
class TParameter(Model):
    """A named number."""

    @property
    def name(self) -> str:
        """The name of the number."""
        return self.member("fName")

    @property
    def value(self) -> bool | int | float:
        """The number, as a bool, int or float depending on its C++ type."""
        value = self.member("fVal")
        inner = self.classname.partition("<")[2].rstrip(">")
        return bool(value) if inner == "bool" else value

    def __bool__(self) -> bool:
        """Whether it is not zero."""
        return bool(self.value)

    def __int__(self) -> int:
        """Return it as an integer."""
        return int(self.value)

    def __float__(self) -> float:
        """Return it as a float."""
        return float(self.value)

    def __index__(self) -> int:
        """Return it as an index; a float is an error."""
        if isinstance(self.value, float):
            raise TypeError(f"{self.classname} is not an integer")
        return int(self.value)


@behavior("TRef")
class TRef(Model):
    """A reference to any object by its unique identifier."""

    @property
    def ref(self) -> int:
        """The identifier; 0 for a reference to nothing."""
        return self.member("ref")

    def __repr__(self) -> str:
        """Show the identifier."""
        return f"<TRef {self.ref}>"

    def _json(self, json: Any) -> Any:
        out: dict[str, Any] = {"_typename": self.classname}
        self.bases[0]._json_into(json, out)
        return out | {"fPID": self.member("@pidf", none_if_missing=True) or 0}


@behavior("TDatime")
class TDatime(Model):
    """A date and time of day, in no particular time zone."""

    def to_datetime(self) -> datetime.datetime:
        """Return it as a `datetime`."""
        return unpack_datetime(self.member("fDatime"))

    def _json(self, json: Any) -> Any:
        return {"_typename": self.classname, "_blob": [self.member("fDatime")]}


@behavior("TTimeStamp")
class TTimeStamp(Model):
    """A point in time."""

    def to_datetime(self) -> datetime.datetime:
        """Return it as a `datetime` in UTC; nanoseconds are truncated to microseconds."""
        seconds, nanoseconds = self.member("fSec"), self.member("fNanoSec")
        start = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return start + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
