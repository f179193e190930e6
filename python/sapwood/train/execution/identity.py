"""Identity of runs: digests of values and code that are the same in every process."""

from __future__ import annotations

import dis
import enum
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.train.task.tasks import is_foreign, options_of

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None), type(...), np.generic, PurePath)
_OF_CLASSES = (FunctionType, staticmethod, classmethod, property)
_TAKEN = (*_PLAIN, FunctionType, type, ModuleType, list, tuple, set, frozenset, dict, np.ndarray)
"""Types of a function's global variables that enter its digest; the source of the module covers the others."""
_RUNNING = ("begin", "process", "start", "each", "end")


def identity_of_task(task: Foreign) -> dict[str, str]:
    """Return digests of everything that shapes the results of a task, by name: its options, attributes and code."""
    kind, options = type(task), options_of(task)
    made = _made_by_runs(kind)
    found = {"code": digest(kind)}
    own = getattr(task, "__dict__", {})
    for name in dir(task):
        there = inspect.getattr_static(kind, name, None)
        if name.startswith(("__", "_abc_")) or name in ("name", "plots") or isinstance(there, cached_property):
            continue
        if (isinstance(there, _OF_CLASSES) and name not in own) or (name in made and there is None):
            continue
        word = f"option {name}" if name in options else name if not name.startswith("_") else f"attribute {name}"
        found[word] = digest(getattr(task, name))
    return found


def digest(value: Foreign) -> str:
    """Return a string that is the same for equal values; classes and functions are compared by their content."""
    words = _Words()
    words.take(value)
    return words.sum.hexdigest()[:16]


def _made_by_runs(kind: type) -> set[str]:
    """Return the attributes that a run sets: those assigned in `begin`, `process` and the methods that they call."""
    made: set[str] = set()
    seen: set[str] = set()
    waiting = list(_RUNNING)
    while waiting:
        name = waiting.pop()
        code = getattr(getattr(kind, name, None), "__code__", None)
        if name not in seen and code is not None:
            made |= {str(one.argval) for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"}
            waiting += code.co_names
        seen.add(name)
    return made


class _Words:
    """Feeds the content of a value, word by word, to a hash."""

    def __init__(self) -> None:
        self.sum = hashlib.sha256()
        self._known: dict[int, Any] = {}  # classes, functions and modules, each added once
        self._inside: set[int] = set()

    def take(self, value: Foreign) -> None:
        if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
            self._say(type(value).__name__, repr(value))
        elif isinstance(value, (FunctionType, type, ModuleType)):
            if id(value) not in self._known:
                self._known[id(value)] = value
                self._definition(value)
        elif id(value) in self._inside:
            self._say("circle")
        else:
            self._inside.add(id(value))
            self._made_of(value)
            self._inside.discard(id(value))

    def _say(self, *words: str) -> None:
        for word in words:
            data = word.encode("utf-8", "surrogatepass")
            self.sum.update(b"%d:" % len(data) + data)

    def _made_of(self, value: Foreign) -> None:
        self._say(type(value).__qualname__)
        if isinstance(value, (list, tuple)):
            self._all(value)
        elif isinstance(value, (set, frozenset)):
            self._say(*sorted(map(digest, value)))
        elif isinstance(value, Mapping):
            self._all([part for item in value.items() for part in item])
        elif isinstance(value, np.ndarray):
            self._say(value.dtype.str, str(value.shape))
            if value.dtype.hasobject:
                self._all(value.ravel().tolist())
            else:
                self.sum.update(value.tobytes())
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, (staticmethod, classmethod, MethodType)):
            self.take(value.__func__)
            if isinstance(value, MethodType):
                self.take(value.__self__)
        elif isinstance(value, property):
            self._all([value.fget, value.fset])
        elif isinstance(value, partial):
            self._all([value.func, value.args, value.keywords])
        elif isinstance(value, enum.Enum):
            self._say(value.name)
        elif isinstance(value, BuiltinFunctionType):
            self._say(value.__qualname__)
        elif isinstance(inner := _wrapped(value), FunctionType):
            self.take(inner)
        else:
            self._object(value)

    def _all(self, values: Foreign) -> None:
        self._say(str(len(values)))
        for value in values:
            self.take(value)

    def _object(self, value: Foreign) -> None:
        """Add the state that pickle would store of an object; if it cannot be pickled, only its class."""
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - an object of the user may raise anything
            self.take(type(value))
            return
        self._all([list(part) if isinstance(part, Iterator) else part for part in parts]
                  if isinstance(parts, tuple) else [parts])  # fmt: skip

    def _definition(self, value: FunctionType | type | ModuleType) -> None:
        module = value if isinstance(value, ModuleType) else _module_of(value)
        name = getattr(value, "__qualname__", "")
        source = None if module is None else _source(module)
        if source == "":
            self._say("of a library", module.__name__ if module else "", name)
            return
        if source is not None and module is not None:
            self._source(module, source)
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._say("class", name)
            self._all(value.__bases__)
            for name, member in vars(value).items():
                # Other members are in the source, if there is one, and runs may change them.
                if isinstance(member, _OF_CLASSES) or (source is None and not name.startswith("_")):
                    self._say(name)
                    self.take(member)

    def _source(self, module: ModuleType, source: str) -> None:
        """Add the source of a module once, and the sources of the user's other modules that it uses."""
        if id(source) in self._known:
            return
        self._known[id(source)] = source
        self._say("source", source)
        for value in list(vars(module).values()):
            other = value if isinstance(value, ModuleType) else _module_of(value)
            if other is not None and (text := _source(other)):
                self._source(other, text)

    def _function(self, value: FunctionType) -> None:
        self._say("function", value.__qualname__)
        self._code(value.__code__)
        self._all([value.__defaults__, value.__kwdefaults__])
        for cell in value.__closure__ or ():
            try:
                self.take(cell.cell_contents)
            except ValueError:
                self._say("empty")
        for name in _names(value.__code__):
            found = value.__globals__.get(name)
            if isinstance(found, _TAKEN):
                self._say(name)
                self.take(found)

    def _code(self, code: CodeType) -> None:
        self._say(code.co_code.hex(), *code.co_names)
        self._all(code.co_consts)


def _module_of(value: Foreign) -> ModuleType | None:
    """Return the module in which a class or function, or the class of anything else, was defined."""
    defined = value if isinstance(value, (FunctionType, type)) else type(value)
    return sys.modules.get(str(defined.__module__))


def _wrapped(value: Foreign) -> Foreign:
    """Return the Python function inside a cached or Numba-compiled one; None if there is none."""
    found = (inspect.getattr_static(value, name, None) for name in ("__wrapped__", "py_func"))
    return next((one for one in found if one is not None), None)


def _names(code: CodeType) -> dict[str, None]:
    """Return the names that code, and functions inside it, may use from their module."""
    names = dict.fromkeys(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _names(inner)
    return names


def _source(module: ModuleType) -> str | None:
    """Return the source of a module; None if it has no file, an empty string for modules of libraries."""
    path = getattr(module, "__file__", None)
    if path is None:
        return None if module.__name__ == "__main__" else ""
    return _text(path, _changed(path))


def _changed(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1000)
def _text(path: str, _: int) -> str | None:
    if is_foreign(path):
        return ""
    try:
        return Path(path).read_bytes().hex()
    except OSError:
        return None
