"""Pickling for other processes and checkpoints: tasks by value, results by pickle or by value."""

from __future__ import annotations

import io
import os
import pickle
import site
import sys
import sysconfig
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import IO, TYPE_CHECKING, Any

from sapwood.errors import SapwoodError, SapwoodWarning, stacklevel
from sapwood.train.task.tasks import is_installed, was_pressed

if TYPE_CHECKING:
    from sapwood.columns import Foreign

try:
    import cloudpickle
except ImportError:
    cloudpickle = None


class UnsendableError(SapwoodError):
    """Something cannot be pickled."""


@dataclass(frozen=True)
class Sealed:
    """Results that pickle alone cannot send, as bytes."""

    data: bytes


def sealed(results: Foreign) -> Foreign:
    """Return results in a form that pickle can send: unchanged, or `Sealed` if the receiver may fail to load them.

    Raises
    ------
    UnsendableError
        They cannot be pickled.
    """
    try:
        # A test only: the output is discarded, and arrays are not copied.
        test = _Test(_Nowhere(), 5, buffer_callback=lambda _: None)
        test.dump(results)
        if test.strange:
            return Sealed(pickle.dumps(results, pickle.HIGHEST_PROTOCOL))
    except BaseException as error:
        if was_pressed(error):
            raise
        file = io.BytesIO()
        _dump_by_value(results, file)
        return Sealed(file.getvalue())
    return results


def opened(results: Foreign) -> Foreign:
    """Return the results that were `sealed`.

    Raises
    ------
    UnsendableError
        They cannot be unpickled here.
    """
    return loads(results.data) if isinstance(results, Sealed) else results


def dump(value: Foreign, file: IO[bytes]) -> None:
    """Pickle a value that may hold objects of tasks to a file, for `loads`.

    Raises
    ------
    UnsendableError
        The value cannot be pickled.
    """
    begin = file.tell()
    try:
        pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
    except OSError:
        raise
    except BaseException as error:
        if was_pressed(error):
            raise
        file.seek(begin)
        file.truncate()
        _dump_by_value(value, file)


def loads(data: bytes) -> Any:
    """Return the value that `dump` has pickled. This can run code: `data` must be from this program, or be signed.

    Raises
    ------
    UnsendableError
        The value cannot be unpickled here.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except BaseException as error:
        if was_pressed(error):
            raise
        raise UnsendableError(f"{type(error).__name__}: {error}") from error


def dumps_tasks(value: Foreign, tasks: Sequence[Any], *, as_here: bool = False) -> bytes:
    """Pickle an object that holds tasks.

    Modules that are not installed are pickled by value, with all changes that the program made to them. If that fails,
    importable modules are pickled by name, unless other processes need the modules as they are here (`as_here`).

    Raises
    ------
    UnsendableError
        The object needs cloudpickle, which is not installed.
    """
    loose, importable = _own_modules(tasks)
    if cloudpickle is None:
        if loose or (as_here and importable):
            raise UnsendableError("tasks defined in task files need the package cloudpickle: pip install cloudpickle")
        return pickle.dumps(value)
    try:
        return _dumps_with([*loose, *importable], value)
    except Exception as error:
        if as_here or not importable:
            raise
        data = _dumps_with(loose, value)
        warnings.warn(
            "other processes import the modules of the tasks as their files have them; what the program has changed in "
            f"them stays here, as it cannot be sent: {type(error).__name__}: {error}",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )
        return data


def _dumps_with(modules: Sequence[ModuleType], value: Foreign) -> bytes:
    """Pickle a value; objects defined in `modules` are pickled by value."""
    from cloudpickle import dumps, register_pickle_by_value, unregister_pickle_by_value

    for module in modules:
        register_pickle_by_value(module)
    try:
        return dumps(value)
    finally:
        for module in modules:
            unregister_pickle_by_value(module)


def _dump_by_value(value: Foreign, file: IO[bytes]) -> None:
    try:
        (pickle.Pickler if cloudpickle is None else _Pickler)(file, pickle.HIGHEST_PROTOCOL).dump(value)
    except OSError:
        raise
    except BaseException as error:
        if was_pressed(error):
            raise
        raise UnsendableError(f"{type(error).__name__}: {error}") from error


_ANYWHERE = frozenset({"awkward", "builtins", "collections", "copyreg", "datetime", "fractions", "numpy", "sapwood"})
"""Packages whose objects every process can load."""


class _Test(pickle.Pickler):
    """Notes whether there are objects that another process may be unable to load, such as those of a task's classes."""

    strange = False

    def reducer_override(self, obj: Foreign) -> Foreign:
        named = obj if isinstance(obj, (type, FunctionType, BuiltinFunctionType)) else type(obj)
        if str(named.__module__).partition(".")[0] not in _ANYWHERE:
            self.strange = True
        return NotImplemented


class _Nowhere:
    def write(self, data: Foreign) -> int:
        return len(data)


if cloudpickle is not None:

    class _Pickler(cloudpickle.Pickler):
        """Pickles by value the objects that cannot be imported, such as functions in functions.

        Classes that were received by value, such as tasks and their modules, are pickled by name: the sender has them.
        By value, they would return as other classes, or overwrite changed ones there.
        """

        def persistent_id(self, obj: Foreign) -> tuple[str, str] | None:
            if not isinstance(obj, (type, FunctionType)) or "<" in obj.__qualname__:
                return None
            name = obj.__module__
            known = _named(name, obj.__qualname__)
            by_name = name == "__main__" or name not in sys.modules or (known is not None and known is not obj)
            return (name, obj.__qualname__) if by_name else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[str, str]) -> Foreign:
        found = _named(*pid)
        if found is None:
            raise UnsendableError(f"{'.'.join(pid)} does not exist in this process")
        return found


def _named(module: str, name: str) -> Any:
    """Return an attribute of an imported module by its qualified name; None if it does not exist."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _own_modules(tasks: Sequence[Any]) -> tuple[list[ModuleType], list[ModuleType]]:
    """List modules that are not installed: those in the folders of task files, and other importable ones.

    Other processes cannot import the first. They import the second from their files, without the changes that the
    program made.
    """
    own = [sys.modules.get(type(getattr(task, "processor", task)).__module__) for task in tasks]
    files = [one.__file__ for one in own if one is not None and one.__name__.startswith("sapwood_task_")]
    folders = {Path(file).resolve().parent for file in files if file}
    installed = tuple(
        os.path.join(folder, "")  # noqa: PTH118 - compared as text
        for folder in {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    )
    loose: list[ModuleType] = []
    importable: list[ModuleType] = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or not path.endswith(".py") or name != getattr(module, "__name__", None):
            continue
        if name == "__main__" or name.partition(".")[0] == "sapwood":
            continue
        if folders and Path(path).resolve().parent in folders:
            loose.append(module)
        elif not path.startswith(installed) and not is_installed(path):
            importable.append(module)
    return loose, importable
