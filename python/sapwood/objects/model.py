"""Any ROOT object as a Python object: its class, its bases, its members.

An object is read completely, but converted to Python objects one level at a time, on first access to its members.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sapwood import locks
from sapwood.columns import Foreign
from sapwood.containers import STLMap, STLVector
from sapwood.errors import CorruptError, LimitError, NotFoundError, SapwoodError, SapwoodWarning, UnsupportedError
from sapwood.naming import regular_classname
from sapwood.objects.detached import DetachedFile
from sapwood.show.safe import safe_line

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood import _native


class Unreadable:
    """A placeholder for an unreadable part. Any use of it raises an error with the reason.

    Attributes
    ----------
    reason
        The unreadable part, its position and the reason.
    """

    __slots__ = ("corrupt", "reason")

    def __init__(self, reason: str, corrupt: bool = False) -> None:
        self.reason: str
        self.corrupt: bool
        object.__setattr__(self, "reason", reason)
        object.__setattr__(self, "corrupt", corrupt)

    def error(self) -> CorruptError | UnsupportedError:
        """Return the error that any use of the object raises."""
        return (CorruptError if self.corrupt else UnsupportedError)(self.reason)

    def __getattr__(self, name: str) -> Any:
        """Raise the error, except for names that Python itself looks up."""
        if name.startswith("__") and name.endswith("__") and name != "__array__":
            raise AttributeError(name)
        raise self.error()

    def _refuse(self, *_: object) -> Any:
        raise self.error()

    __len__ = __iter__ = __getitem__ = __bool__ = __float__ = __int__ = __index__ = __contains__ = __call__ = _refuse  # pyright: ignore[reportAssignmentType]
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __round__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __and__ = __or__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rand__ = __ror__ = _refuse

    def __repr__(self) -> str:
        """Return the reason."""
        return safe_line(f"<unreadable: {self.reason}>")

    def __reduce__(self) -> tuple[type, tuple[str, bool]]:
        """Pickle it."""
        return Unreadable, (self.reason, self.corrupt)


class Document:
    """The content of one key. An object with several pointers to it is one Python object."""

    def __init__(self, key: Foreign) -> None:
        self.key = key
        # Models hold the document; if it held them too, only Python's search for cycles would free them.
        self._shared: dict[int, weakref.ref[Model]] = {}

    @property
    def makers(self) -> tuple[Any, Any, Any, Any]:
        """The callables with which the native reader makes models, sequences, mappings, and unreadable members."""
        return self._model, STLVector, STLMap, Unreadable

    def _model(self, native: _native.Object) -> Model:
        reference = native.reference
        if not reference:
            return model_class(native)(native, self)
        known = self._shared.get(reference)
        found = None if known is None else known()
        if found is None:
            found = model_class(native)(native, self)
            self._shared[reference] = weakref.ref(found)
        return found

    def shared(self, reference: int) -> Model | None:
        """Return the object that pointers of this value lead to, if it was read."""
        known = self._shared.get(reference)
        return None if known is None else known()

    def adopt(self, model: Model) -> None:
        """Let pointers to the object of the key lead to its model; the key's object has reference 1."""
        self._shared[1] = weakref.ref(model)


def present(model: Model, name: str) -> Any:
    """Return the value of a member that a class cannot do without.

    Raises
    ------
    CorruptError
        The member is a null pointer.
    """
    found = model.member(name)
    if found is None:
        raise CorruptError(f"{model.classname} without its {name}, which is a null pointer: {model!r}")
    return found


_GUARDED = ("__call__", "__eq__", "__len__", "__str__", "__bool__", "__float__", "__int__")
# Types of results that Python requires. It checks them where sapwood can no longer raise an error.
_ANSWERS = {"__len__": int, "__str__": str}
# Axes, sides of errors and modes of errors.
_WORDS = frozenset(("x", "y", "z", "both", "low", "high", "mean", "diff", "", "s", "i", "g"))
# Errors of methods of an object whose members contradict its class: an axis without a number of bins, ...
CONTRARY = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make errors of a method about its object's members name the object."""
    wanted = _ANSWERS.get(function.__name__)

    @functools.wraps(function)
    def call(self: Model, *arguments: Any, **options: Any) -> Any:
        try:
            found = function(self, *arguments, **options)
            if wanted is None:
                return found
            if isinstance(found, Unreadable):
                raise found.error()
            if not isinstance(found, wanted):
                raise CorruptError(f"{place_of(self)}: {function.__name__!r} is {found!r}, not {wanted.__name__}")
            if isinstance(found, int) and found < 0:
                raise CorruptError(f"{place_of(self)}: its members state {found} elements")
            return found
        except SapwoodError:
            raise
        except CONTRARY as error:
            given = [*arguments, *options.values()]
            # Wrong arguments of the caller: too many of them, or of a type that the method does not take.
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                raise
            if not all(one is None or isinstance(one, (bool, int, float)) or _is_word(one) for one in given):
                raise
            raise CorruptError(
                f"{place_of(self)}: its members do not fit together for {function.__name__!r} "
                f"({type(error).__name__}: {error})"
            ) from error
        except (MemoryError, RecursionError) as error:
            why = "needs more memory than there is" if isinstance(error, MemoryError) else "nests too deep"
            raise LimitError(f"{place_of(self)} {why} for {function.__name__!r}") from error

    return call


def _is_word(argument: object) -> bool:
    """Return whether an argument chooses one of a few ways: then only the object can be wrong."""
    return isinstance(argument, str) and argument in _WORDS


def place_of(model: Model) -> str:
    """Return the class, the key and the file of an object as text."""
    key = model.parent
    return model.classname if key is None else f"{model.classname} in {key.object_path!r} of {key.file.file_path}"


# Threads that ask one object for a member get one Python object of it.
_making = locks.reentrant_lock()


class Model:
    """An object of a ROOT class.

    Common classes have methods of their own. All objects have their C++ members, by C++ name. An unreadable member is
    an `Unreadable`.
    """

    is_counted: bool = True  # in references of ROOT's JSON form

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the package's own classes raise `CorruptError` if the members of an object are inconsistent."""
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("sapwood."):
            return
        for name, found in list(vars(cls).items()):
            if isinstance(found, property) and found.fget is not None:
                setattr(cls, name, property(_guarded(found.fget), doc=found.__doc__))
            elif isinstance(found, FunctionType) and (not name.startswith("_") or name in _GUARDED):
                setattr(cls, name, _guarded(found))

    def __init__(self, native: _native.Object, document: Document) -> None:
        # What of it is a Python object by now: None once that is all.
        self._native: _native.Object | None = native
        self._document = document
        self._bases: list[Model] | None = None
        self._members: dict[str, Any] = {}
        self._detached: DetachedFile | None = None

    def _load(self) -> None:
        with _making:
            native = self._native
            if native is not None:
                self._about = native.classname, native.version, native.reason, native.place
                _ = self.bases
                self._members = native.members(self._members, self._document.makers)
                self._native = None

    @property
    def key(self) -> Foreign:
        """The key of the object; None for an object inside another, and for one that was not read."""
        return self._document.key if self._document.shared(1) is self else None

    @property
    def classname(self) -> str:
        """The C++ class."""
        return regular_classname(self._native.classname if self._native is not None else self._about[0])

    @property
    def class_version(self) -> int:
        """The version of the class with which the object was written."""
        return self._native.version if self._native is not None else self._about[1]

    @property
    def instance_version(self) -> int:
        """The version of the class with which the object was written."""
        return self.class_version

    @property
    def reason(self) -> str | None:
        """The reason why the object, or the rest of it, could not be read; None if it could."""
        return self._native.reason if self._native is not None else self._about[2]

    @property
    def num_bytes(self) -> int:
        """The size of the object, in bytes, as stored but uncompressed."""
        return (self._native.place if self._native is not None else self._about[3])[1]

    @property
    def file(self) -> Foreign:
        """The metadata of its file (`DetachedFile`), which remain after the file is closed."""
        return self._detached if self._document.key is None else self._document.key.file.detached

    @property
    def _open_file(self) -> Foreign:
        return None if self._document.key is None else self._document.key.file

    @property
    def parent(self) -> Foreign:
        """The key it was read from, or was part of; None after unpickling."""
        return self._document.key

    @property
    def bases(self) -> list[Model]:
        """The parts that the direct base classes contribute, in C++'s order."""
        if self._bases is None:
            with _making:
                if self._bases is None:
                    self._bases = [] if self._native is None else self._native.bases(self._document.makers)
        return self._bases

    @property
    def members(self) -> dict[str, Any]:
        """The members of the class itself, by name."""
        if self._native is not None:
            self._load()
        return self._members

    @property
    def member_names(self) -> list[str]:
        """The names of the members of the class itself."""
        return list(self.members)

    @property
    def base_names_versions(self) -> list[tuple[str, int]]:
        """The direct base classes and their versions; -1 for a base without its own version."""
        known = self.class_streamer
        if known is None:
            return [(base.classname, base.class_version) for base in self.bases]
        return [(base.name, base.member("fBaseVersion")) for base in known.bases]

    @property
    def class_streamer(self) -> Foreign:
        """The streamer info of the class in this version; None if the file has none, or there is no file."""
        file = self._open_file
        return None if file is None else file.streamer_named(self.classname, self.class_version)

    @property
    def behaviors(self) -> tuple[type[Model], ...]:
        """The Python classes with its methods, besides those of all models."""
        return tuple(cls for cls in type(self).__mro__ if issubclass(cls, Model) and cls is not Model)

    @property
    def all_members(self) -> dict[str, Any]:
        """The members of this class and of all its bases, by name."""
        found: dict[str, Any] = {}
        for base in self.bases:
            found |= base.all_members
        return found | self.members

    def has_member(self, name: str, all: bool = True) -> bool:  # noqa: A002
        """Return whether this class or (with `all`) a base has a member of that name."""
        if name in self._members:
            return True
        native = self._native
        if native is not None:
            owner = native.owner(name)
            return owner == -1 or (all and owner is not None)
        return all and any(base.has_member(name) for base in reversed(self.bases))

    def member(self, name: str, all: bool = True, none_if_missing: bool = False) -> Any:  # noqa: A002
        """Return the value of a member.

        Parameters
        ----------
        name
            The C++ name of the member.
        all
            Also search the bases.
        none_if_missing
            Return None if the member does not exist.

        Raises
        ------
        NotFoundError
            The member does not exist.
        """
        found = self._members.get(name, self)
        if found is not self:
            return found
        native = self._native
        if native is not None:
            owner = native.owner(name)
            if owner == -1:
                with _making:
                    if name not in self._members:
                        self._members[name] = native.member(name, self._document.makers)
                    return self._members[name]
            if owner is not None and all:
                return self.bases[owner].member(name)
        elif all:
            for base in reversed(self.bases):
                if base.has_member(name):
                    return base.member(name)
        if none_if_missing:
            return None
        why = f"; {self.reason}" if self.reason else ""
        raise NotFoundError(
            f"{self.classname} has no member {name!r}; it has {', '.join(self.all_members) or 'none'}{why}"
        )

    def _fresh(self, name: str) -> Any:
        """Return the value of a member; if it is an array, a new one that this object does not keep.

        A large array is then in memory once less. None if there is no such member.
        """
        if name not in self._members and self._native is not None:
            owner = self._native.owner(name)
            if owner == -1:
                return self._native.member(name, self._document.makers)
            if owner is not None:
                return self.bases[owner]._fresh(name)
        found = self.member(name, none_if_missing=True)
        return found.copy() if isinstance(found, np.ndarray) else found  # pyright: ignore[reportUnknownVariableType]

    def base(self, *cls: type | str) -> list[Model]:
        """List the parts of the given base classes (Python classes or C++ names)."""
        names = {regular_classname(c) for c in cls if isinstance(c, str)}
        types = tuple(c for c in cls if not isinstance(c, str))
        found: list[Model] = []
        for base in self.bases:
            if isinstance(base, types) or base.classname in names:
                found.append(base)
            found += base.base(*cls)
        return found

    def is_instance(self, *cls: type | str) -> bool:
        """Return whether the object is of, or derives from, one of the classes (Python classes or C++ names)."""
        names = {regular_classname(c) for c in cls if isinstance(c, str)}
        types = tuple(c for c in cls if not isinstance(c, str))
        return isinstance(self, types) or self.classname in names or bool(self.base(*cls))

    def unreadable(self) -> list[tuple[str, str]]:
        """List the unreadable parts of the object: (path through its members, reason).

        Raises
        ------
        LimitError
            Objects nest too deep.
        """
        try:
            return list(_unreadable(self, "", set()))
        except RecursionError as error:
            raise LimitError(f"{place_of(self)} nests too deep to be searched") from error

    def to_dict(self) -> dict[str, Any]:
        """Return all members as a dict; objects in it are dicts too, arrays stay NumPy arrays.

        An object with several pointers to it is one dict.

        Raises
        ------
        UnsupportedError
            The object contains a reference to itself, so the dict would be infinite.
        LimitError
            Objects nest too deep.
        """
        try:
            return _as_dict(self, {})
        except RecursionError as error:
            raise LimitError(f"{place_of(self)} nests too deep for a dict") from error

    def to_pyroot(self, name: str | None = None) -> Any:
        """Convert the object to a PyROOT object, as `sapwood.to_pyroot` does; `name` is its name in ROOT."""
        return import_module("sapwood.writing.pyroot").to_pyroot(self, name)

    def tojson(self) -> Any:
        """Return lists and dicts for `json.dumps`, in ROOT's JSON form of objects.

        An object that occurs again is only referenced by its number, ``{"$ref": number}``.

        Raises
        ------
        LimitError
            Objects nest too deep.
        """
        return to_json(self)

    def _json(self, json: _Json) -> Any:
        out: dict[str, Any] = {"_typename": self.classname}
        json.members(self, out)
        return out

    def _json_into(self, json: _Json, out: dict[str, Any]) -> None:
        json.members(self, out)

    def with_members(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with other values for some members of the class or its bases."""
        made: Self = _empty(type(self))  # pyright: ignore[reportAssignmentType]
        made.__dict__.update(self.__getstate__())
        made._document = self._document
        made._bases = [base.with_members(values) for base in self.bases]
        made._members = {name: values.get(name, value) for name, value in self._members.items()}
        return made

    @property
    def closed(self) -> bool:
        """Whether the file it was read from was closed."""
        return self._open_file is None or self._open_file.closed

    def close(self) -> None:
        """Close the file it was read from."""
        if self._open_file is not None:
            self._open_file.close()

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Show class and version."""
        note = " not readable" if self.reason else ""
        return safe_line(f"<{self.classname} (version {self.class_version}){note} at 0x{id(self):012x}>")

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the data that were read, without the file."""
        self._load()
        kept = {name: value for name, value in self.__dict__.items() if name in ("_bases", "_members", "_about")}
        return kept | {"_native": None, "_detached": DetachedFile.of(self.file)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle it."""
        self.__dict__.update({"_detached": None} | state)
        self._document = Document(None)

    def __reduce__(self) -> Any:
        """Pickle it."""
        return _empty, (type(self),), self.__getstate__()


def _empty(cls: type[Model]) -> Model:
    return cls.__new__(cls)


def to_json(value: Any) -> Any:
    """Return the content of a key, a model or a container, in the form of `Model.tojson`.

    Raises
    ------
    LimitError
        Objects nest too deep.
    """
    try:
        return _Json().value(value)
    except RecursionError as error:
        place = place_of(value) if isinstance(value, Model) else "a container"
        raise LimitError(f"{place} nests too deep for JSON") from error


class _Json:
    """Converts objects to ROOT's JSON form, and numbers repeated objects."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # ids stay unique while their objects live

    def value(self, value: Any) -> Any:
        if isinstance(value, Model):
            known = self._numbers.get(id(value))
            if known is not None:
                return {"$ref": known}
            if value.is_counted:
                self._numbers[id(value)] = len(self._numbers)
                self._kept.append(value)
            return value._json(self)  # pyright: ignore[reportPrivateUsage]
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, tuple):
            first, second = value  # pyright: ignore[reportUnknownVariableType]
            return {"_typename": "pair", "first": self.value(first), "second": self.value(second)}
        if isinstance(value, STLMap):
            return [{"$pair": "pair", "first": self.value(k), "second": self.value(v)} for k, v in value.items()]
        if isinstance(value, Unreadable):
            return {"_unreadable": value.reason}
        return value

    def members(self, model: Model, out: dict[str, Any]) -> None:
        """Add the members of the bases, then its own."""
        for base in model.bases:
            base._json_into(self, out)  # pyright: ignore[reportPrivateUsage]
        for name, value in model.members.items():
            out[name] = self.value(value)
        if model.reason:
            out["_unreadable"] = model.reason


def _unreadable(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Unreadable):
        yield path, value.reason
    elif isinstance(value, Model):
        if id(value) in seen:
            return
        seen.add(id(value))
        found = False
        for base in value.bases:
            for one in _unreadable(base, path, seen):
                found = True
                yield one
        for name, member in value.members.items():
            for one in _unreadable(member, path if name == "@items" else f"{path}.{name}", seen):
                found = True
                yield one
        if value.reason and not found:
            yield path, value.reason
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from _unreadable(item, f"{path}[{i}]", seen)
    elif isinstance(value, STLMap):
        for key, item in value.items():
            yield from _unreadable(item, f"{path}[{key!r}]", seen)


def _as_dict(value: Any, known: dict[int, tuple[Model, dict[str, Any] | None]]) -> Any:
    """Convert a value; `known` has the objects that were met, each with its dict once that is complete."""
    if isinstance(value, Model):
        _, found = known.get(id(value), (value, {}))
        if found is None:
            raise UnsupportedError(f"{value!r} contains itself, so it cannot become a dict")
        if id(value) not in known:
            known[id(value)] = value, None
            found = {name: _as_dict(member, known) for name, member in value.all_members.items()}
            known[id(value)] = value, found
        return found
    if isinstance(value, (list, tuple)):
        return type(value)(_as_dict(item, known) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, STLMap):
        return STLMap((_as_dict(k, known), _as_dict(v, known)) for k, v in value.items())
    return value


class_behaviors: dict[str, type[Model]] = {}
"""The Python class of each C++ class that has one. Templates are listed as ``Name<``."""

_not_inherited: set[str] = set()
_chosen: dict[str, type[Model]] = {}

_M = TypeVar("_M", bound=type[Model])


def behavior(*classnames: str, inherited: bool = True) -> Callable[[_M], _M]:
    """Register a Python class for C++ classes, (``Name<``) for templates, and for their derived classes."""

    def register(cls: _M) -> _M:
        for name in classnames:
            class_behaviors[name] = cls
            if not inherited:
                _not_inherited.add(name)
        _chosen.clear()
        return cls

    return register


def model_class(native: _native.Object) -> type[Model]:
    """Choose the Python class of an object: that of its C++ class, or of the first base that has one."""
    chosen = _chosen.get(native.classname)
    if chosen is None:
        names = [regular_classname(name) for name in native.lineage()]
        names = [name for i, name in enumerate(names) if i == 0 or name not in _not_inherited]
        candidates = (class_behaviors.get(name) or class_behaviors.get(name.partition("<")[0] + "<") for name in names)
        chosen = next((cls for cls in candidates if cls is not None), Model)
        # Without members, the methods of a class cannot work.
        if native.reason is None:
            _chosen[native.classname] = chosen
    return chosen


def read_model(key: Foreign, *, warn: bool = True) -> Foreign:
    """Read the object of a key. Unreadable parts are `Unreadable` and, with `warn`, reported by a warning.

    Raises
    ------
    UnsupportedError
        No part of the object can be read.
    CorruptError
        The bytes of the object contradict the format.
    """
    document = Document(key)
    found, problems = key.parent.native.object(key.native, document.makers)
    if isinstance(found, Model):
        document.adopt(found)
    if problems and warn:
        shown = "".join(f"\n    {path or 'the object'}: {why}" for path, why in problems[:10])
        more = f"\n    and {len(problems) - 10} more" if len(problems) > 10 else ""
        count = f"{len(problems)} parts" if len(problems) > 1 else "a part"
        warnings.warn(
            f"{count} of {key.object_path!r} in {key.file.file_path} cannot be read:{shown}{more}",
            SapwoodWarning,
            stacklevel=4,
        )
    return found
