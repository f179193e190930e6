"""What is sent to other processes, or kept for another run: tasks by value, results in whatever way they allow."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import IO, TYPE_CHECKING, Any

from sapwood.errors import SapwoodError

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
    """Return results as they can be sent: as they are, or `Sealed`.

    Raises
    ------
    UnsendableError
        They cannot be pickled.
    """
    try:
        # What is written is thrown away, and arrays are not even copied.
        pickle.Pickler(_Nowhere(), 5, buffer_callback=lambda _: None).dump(results)
    except Exception:  # noqa: BLE001 - objects of a task may raise anything
        file = io.BytesIO()
        _dump_by_value(results, file)
        return Sealed(file.getvalue())
    return results


def opened(results: Foreign) -> Foreign:
    """Return what was `sealed`.

    Raises
    ------
    UnsendableError
        It cannot be unpickled here.
    """
    return loads(results.data) if isinstance(results, Sealed) else results


def dump(value: Foreign, file: IO[bytes]) -> None:
    """Pickle a value that may hold objects of tasks into a file, for `loads`.

    Raises
    ------
    UnsendableError
        It cannot be pickled.
    """
    begin = file.tell()
    try:
        pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - objects of a task may raise anything
        file.seek(begin)
        file.truncate()
        _dump_by_value(value, file)


def loads(data: bytes) -> Any:
    """Return what `dump` has pickled. This can run code: `data` must come from this program, or be signed.

    Raises
    ------
    UnsendableError
        It cannot be unpickled here.
    """
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:
        raise UnsendableError(f"{type(error).__name__}: {error}") from error


def dumps_tasks(value: Foreign, tasks: Sequence[Any]) -> bytes:
    """Pickle what holds tasks; what comes from their files goes by value, since others cannot import it."""
    modules = _own_modules(tasks)
    if cloudpickle is None:
        if modules:
            raise UnsendableError(
                "what is defined in task files needs the package cloudpickle: pip install cloudpickle"
            )
        return pickle.dumps(value)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(value)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _dump_by_value(value: Foreign, file: IO[bytes]) -> None:
    try:
        (pickle.Pickler if cloudpickle is None else _Pickler)(file, pickle.HIGHEST_PROTOCOL).dump(value)
    except OSError:
        raise
    except Exception as error:
        raise UnsendableError(f"{type(error).__name__}: {error}") from error


class _Nowhere:
    def write(self, data: Foreign) -> int:
        return len(data)


if cloudpickle is not None:

    class _Pickler(cloudpickle.Pickler):
        """Pickles by value what has no place from which it could be imported, such as functions in functions.

        Classes that came here by value, as tasks and what lies beside them do, go by their names: who sent them has
        them, and by value they would come back as others, or overwrite what they have become there.
        """

        def persistent_id(self, obj: Foreign) -> tuple[str, str] | None:
            if not isinstance(obj, (type, FunctionType)) or "<" in obj.__qualname__:
                return None
            name = obj.__module__
            return (name, obj.__qualname__) if name == "__main__" or name not in sys.modules else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: tuple[str, str]) -> Foreign:
        module, name = pid
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


def _own_modules(tasks: Sequence[Any]) -> list[Any]:
    """List the modules of tasks that came from files, and their neighbours: other processes cannot import them."""
    found: dict[str, Any] = {}
    for task in tasks:
        module = sys.modules.get(type(getattr(task, "processor", task)).__module__)
        if module is None or not module.__name__.startswith("sapwood_task_") or not module.__file__:
            continue
        folder = Path(module.__file__).resolve().parent
        for name, other in list(sys.modules.items()):
            path = getattr(other, "__file__", None)
            if path and Path(path).resolve().parent == folder and name != "__main__":
                found[name] = other
    return list(found.values())
