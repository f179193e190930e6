"""Tasks: the columns that an analysis reads, and the results that it computes from a chunk of events."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import signal
import sys
import sysconfig
import threading
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, cast

import numpy as np

from sapwood import columns
from sapwood.errors import ArgumentError, MissingPackageError, SapwoodError, SapwoodWarning, stacklevel
from sapwood.show.plot import Plot
from sapwood.train.task.columns import Declaration

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign

Option = bool | int | float | str | list[Any] | tuple[Any, ...] | None


class TaskError(SapwoodError):
    """A task failed; the message names the task, the file and the entries, and ends with the task's own traceback."""


class Task:
    """One analysis. Derive a class from it, declare its `branches`, and define `process`.

    `branches` is one of:

    - a list of branch names, with the wildcards ``*`` and ``?``; they become fields of the events;
    - a dictionary from a name of your own to a branch, to an expression, or to a list of alternatives. The first
      alternative that the file has is used. With ``None`` as the last alternative, the column may be absent.

    Names with a dot are grouped: ``muon.pt`` and ``muon.eta`` become ``events.muon`` with fields ``pt`` and ``eta``.

    A task without `branches` can use all branches; only those that it accesses are read. `cut` is an expression of
    branches; `process` receives only entries for which it is true.

    `plots` describes how histograms among the results are shown, by the name of the result. `outputs` names files that
    the task writes (see `sapwood.train.Output`). The array of records that `process` returns under such a name has the
    entries of the file.

    Every other public attribute with a plain value (number, string, boolean, None, list) is an option. Its value
    in the class is the default; the user of the task can set another.

    All threads use the same object, so `process` must not change it.
    """

    name: ClassVar[str] = ""
    branches: ClassVar[Declaration] = ()
    plots: ClassVar[Mapping[str, Plot]] = {}
    outputs: ClassVar[Mapping[str, Any]] = {}
    cut: str | None = None

    def begin(self) -> None:
        """Prepare; called once before the first step, in every process that runs steps, after options are set."""

    def process(self, events: Foreign) -> Mapping[str, Any]:
        """Turn a chunk of events into results.

        Parameters
        ----------
        events
            Awkward Array of records, one per entry, with the declared columns as fields.

        Returns
        -------
        Mapping[str, Any]
            Results by name, to be joined with those of other chunks (see `sapwood.train.merge`).
        """
        raise NotImplementedError(f"{type(self).__name__} has no process(events)")

    def end(self, results: dict[str, Any]) -> Mapping[str, Any]:
        """Finish; called once with the joined results. Return the final results."""
        return results


class EntryTask(Task):
    """A task that processes one entry after the other, as ROOT's ``TSelector`` does.

    `start` creates the results of a chunk. `each` fills them from one entry, whose columns are attributes: plain
    Python values and lists; groups are objects with attributes, or lists of such objects. Entries of `outputs` are
    dictionaries in a list of that name. To write an entry with all its columns, append the entry itself.
    """

    def start(self) -> dict[str, Any]:
        """Create empty results (``SlaveBegin``)."""
        return {}

    def each(self, event: Foreign, results: dict[str, Any]) -> None:
        """Process one entry (``Process``)."""
        raise NotImplementedError(f"{type(self).__name__} has no each(event, results)")

    def process(self, events: Foreign) -> Mapping[str, Any]:
        """Call `each` for the entries of a chunk."""
        results = self.start()
        columns = _Columns(events)
        for place in range(len(events)):
            self.each(_Entry(columns, place), results)
        for name in self.outputs:
            if isinstance(rows := results.get(name), list):
                results[name] = _dictionaries(rows)
        return results


class _Columns(dict[str, list[Any]]):
    """The columns of a chunk by name, converted to plain Python values on first access."""

    def __init__(self, events: Foreign) -> None:
        super().__init__()
        self._events = events

    def __missing__(self, name: str) -> list[Any]:
        names = self._events.fields
        if name not in names:
            raise AttributeError(f"the entry has no {name!r}; it has {', '.join(names)}")
        found = self[name] = _plain(self._events[name].to_list())
        return found

    def names(self) -> list[str]:
        return list(self._events.fields)


class _Entry:
    """One entry of a chunk; its columns are attributes."""

    def __init__(self, columns: _Columns, place: int) -> None:
        self._columns, self._place = columns, place

    def __getattr__(self, name: str) -> Foreign:
        if name.startswith("__"):  # Python looks these up to copy the object
            raise AttributeError(name)
        value = self.__dict__[name] = self._columns[name][self._place]
        return value

    def whole(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._columns.names()}


def _plain(values: Foreign) -> Foreign:
    """Convert dictionaries, at any depth of lists, to objects with attributes."""
    if isinstance(values, list):
        if not any(isinstance(value, (list, dict)) for value in values):
            return values
        return [_plain(value) for value in values]
    if isinstance(values, dict):
        return SimpleNamespace(**{key: _plain(value) for key, value in values.items()})
    return values


def _dictionaries(values: Foreign) -> Foreign:
    """Convert entries and objects with attributes, at any depth of lists, to dictionaries."""
    if isinstance(values, list):
        return [_dictionaries(value) for value in values]
    if isinstance(values, (_Entry, SimpleNamespace)):
        values = values.whole() if isinstance(values, _Entry) else vars(values)
        return {key: _dictionaries(value) for key, value in values.items()}
    return values


class Lists(NamedTuple):
    """A column of lists: list `i` is ``content[offsets[i]:offsets[i + 1]]``."""

    offsets: Any
    content: Any


def _read_only(values: Array) -> Array:
    """Return a contiguous read-only view: a kernel is compiled once for each kind of array that it receives."""
    view: Array = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def _plain_column(name: str, column: Foreign) -> Foreign:
    match column:
        case ("number", values):
            return _read_only(values)
        case ("list", offsets, content):
            return Lists(_read_only(offsets), _plain_column(name, content))
        case _:
            raise ArgumentError(f"a plain kernel takes numbers and lists of numbers; {name} is neither")


class NativeTask(Task):
    """A task whose work is a compiled function, for code that processes entry by entry at native speed.

    Numba compiles `kernel`. It takes the events (Numba supports Awkward arrays) and the arrays that `start`
    creates, and fills these arrays. The arrays of all chunks are added. Any parameter after the arrays receives the
    attribute of the task with the same name, such as an option. Without `branches`, all branches are read.

    With ``plain = True`` the kernel takes the columns of `branches` instead of the events, one parameter each: a NumPy
    array for numbers, `Lists` for lists. Such a kernel is compiled once and cached on disk.
    """

    kernel: ClassVar[Any]
    plain: ClassVar[bool] = False

    def start(self) -> dict[str, Any]:
        """Create the arrays that the kernel fills, by the names of the results."""
        return {}

    def begin(self) -> None:
        """Compile the kernel (at its first call)."""
        try:
            ak, numba = import_module("awkward"), import_module("numba")
        except ImportError as error:
            raise MissingPackageError(f"task {task_name(self)} needs the package numba: pip install numba") from error
        ak.numba.register_and_check()
        kernel = type(self).kernel
        self._compiled = kernel if hasattr(kernel, "py_func") else self._compile(numba, kernel)
        self._parameters = list(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)

    def _compile(self, numba: Foreign, kernel: Foreign) -> Foreign:
        if self.plain:
            with suppress(RuntimeError):  # the function has no source file, or there is no folder for the cache
                return numba.njit(nogil=True, cache=True)(kernel)
        return numba.njit(nogil=True)(kernel)

    def _columns(self, events: Foreign) -> list[Any]:
        """Return the first arguments of the kernel."""
        if not self.plain:
            return [import_module("awkward").materialize(events)]
        names: list[str] = list(self.branches)
        return [_plain_column(name, columns.from_awkward(events[name])) for name in names]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the attributes that `begin` sets: they belong to this process."""
        return {name: value for name, value in vars(self).items() if name not in ("_compiled", "_parameters")}

    def process(self, events: Foreign) -> Mapping[str, Any]:
        """Run the kernel on a chunk."""
        from sapwood.train.task.merging import Sum

        arrays, given = self.start(), self._columns(events)
        more = [getattr(self, name) for name in self._parameters[len(given) + len(arrays) :]]
        self._compiled(*given, *arrays.values(), *more)
        return {name: Sum(array) for name, array in arrays.items()}


class Processor(Task):
    """A `ProcessorABC` of coffea as a task: it receives NanoEvents, and its return value is the result."""

    def __init__(self, processor: Foreign, schema: Foreign = None) -> None:
        self.processor = processor
        self.schema = schema if schema is not None else getattr(processor, "schema", None)
        self.name = task_name(processor)  # pyright: ignore[reportAttributeAccessIssue]

    def process(self, events: Foreign) -> Mapping[str, Any]:
        """Run the processor on a chunk."""
        from sapwood.train.coffea import nano_events
        from sapwood.train.task.merging import Added

        given = self.processor.process(nano_events(events, self.schema))
        if given is None:
            return {}
        return Added.in_place_of_arrays(given if isinstance(given, Mapping) else {_ALONE: given})

    def end(self, results: dict[str, Any]) -> Mapping[str, Any]:
        """Call ``postprocess``; a result that is not a dictionary is named ``result``."""
        given = results[_ALONE] if results.keys() == {_ALONE} else results
        after = self.processor.postprocess(given)
        after = given if after is None else after
        return after if isinstance(after, Mapping) else {"result": after}


_ALONE = ""
"""The name of a processor's result that is not a dictionary."""


def as_task(given: Foreign) -> Foreign:
    """Return the task itself, or a `Processor` for a processor of coffea."""
    return Processor(given) if _is_processor(type(given)) else given


_RESERVED = {
    "name", "branches", "plots", "outputs", "cut", "kernel", "begin", "process", "end", "start", "each",
    "results", "vary", "aliases", "plain",
}  # fmt: skip


def task_name(task: Foreign) -> str:
    """Return the name of a task: its `name`, or the name of its class in lower case with underscores."""
    if given := getattr(task, "name", ""):
        return str(given)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(task).__name__).lower()


def task_title(task: Foreign) -> str:
    """Return the first line of the docstring of a task's class without its full stop, or an empty string.

    The title of a `Processor` is that of the processor that it holds. Other classes of sapwood give no title.
    """
    kind = type(task.processor if isinstance(task, Processor) else task)
    if kind.__module__.partition(".")[0] == "sapwood":
        return ""
    return inspect.cleandoc(vars(kind).get("__doc__") or "").partition("\n")[0].rstrip(".")


def check_task(task: Foreign) -> None:
    """Check that an object is a task.

    Raises
    ------
    ArgumentError
        If it has no `process`, or is a class.
    """
    if isinstance(task, type):
        raise ArgumentError(f"{task.__name__} is a class; pass an instance of it: {task.__name__}()")
    if not callable(getattr(task, "process", None)):
        raise ArgumentError(f"{task!r} is not a task: it has no process(events)")


def results_of(given: Foreign, method: str) -> dict[str, Any]:
    """Return the results that a method of a task returned, as a dictionary.

    Raises
    ------
    ArgumentError
        If it did not return a dictionary.
    """
    if not isinstance(given, Mapping):
        what = "nothing" if given is None else f"an object of class {type(given).__name__}"
        raise ArgumentError(f"{method} returned {what}; it must return results by name: return {{'name': ...}}")
    return dict(given)


def options_of(task: Foreign) -> dict[str, Option]:
    """Return the options of a task with their current values."""
    found: dict[str, Option] = {}
    for name in dir(task):
        if name.startswith("_") or name in _RESERVED or isinstance(getattr(type(task), name, None), property):
            continue
        value = getattr(task, name)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple)):
            found[name] = value
    return found


def set_options(tasks: Sequence[Any], settings: Iterable[str]) -> None:
    """Set options of tasks from strings ``task.option=value``, or ``option=value`` for all tasks that have it.

    Raises
    ------
    ArgumentError
        If there is no such task or option, or the type of the value is not the type of the default.
    """
    for setting in settings:
        target, equals, text = setting.partition("=")
        if not equals:
            raise ArgumentError(f"option {setting!r} is not of the form task.option=value")
        name, dot, option = target.strip().rpartition(".")
        chosen = [task for task in tasks if not dot or task_name(task) == name]
        if not chosen:
            raise ArgumentError(f"option {setting!r}: no task {name!r}; tasks are {', '.join(map(task_name, tasks))}")
        able = [task for task in chosen if option in options_of(task)]
        if not able:
            known = "; ".join(f"{task_name(task)} has {', '.join(options_of(task)) or 'none'}" for task in chosen)
            raise ArgumentError(f"option {setting!r}: no option {option!r}; {known}")
        for task in able:
            setattr(task, option, _value(text.strip(), options_of(task)[option], setting))


_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _value(text: str, default: Option, setting: str) -> Option:
    try:
        if isinstance(default, bool):
            return _TRUTH[text.lower()]
        if isinstance(default, str):
            return text
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text)
        return cast(Option, ast.literal_eval(text))
    except (KeyError, ValueError, SyntaxError) as error:
        kind = "true or false" if isinstance(default, bool) else f"like its default {default!r}"
        raise ArgumentError(f"option {setting!r}: {text!r} is not {kind}") from error


_BASES: set[type] = {Task, EntryTask, NativeTask, Processor}


def load_tasks(path: str | Path) -> list[Any]:
    """Load the tasks of a Python file.

    Tasks are, in the order of the file:

    - objects at module level that have `process` and `branches`, or are a `Task` or a processor of coffea. A
      `Processor` replaces the processor that it holds;
    - classes of this kind that the file defines and of which it creates no object. They are created without arguments.
      A class without branches from which other tasks derive is not a task.

    Raises
    ------
    ArgumentError
        If the file does not exist, or has no task.
    TaskError
        If the file itself, or the creation of a task, fails.
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError(f"task file {path} does not exist")
    module = _import(path)
    objects = [value for value in vars(module).values() if not isinstance(value, type) and _looks_like_task(value)]
    made_of = [*objects, *(task.processor for task in objects if isinstance(task, Processor))]
    found: list[Any] = []
    for value in vars(module).values():
        if any(value is known for known in found) or not _looks_like_task(value):
            continue  # an object with two names is one task
        if not isinstance(value, type):
            found.append(value)
        elif value.__module__ == module.__name__ and not any(isinstance(made, value) for made in made_of):
            derived = any(isinstance(other, type) and other is not value and issubclass(other, value)
                          for other in vars(module).values())  # fmt: skip
            if getattr(value, "branches", None) or not derived:  # otherwise it is a base class of tasks
                found.append(_make(value, path))
    for name, value in vars(module).items():
        if _is_nearly_a_task(value, module):
            warnings.warn(
                f"{path}: class {name} is not a task: it has process, but no branches, and does not derive from Task",
                SapwoodWarning, stacklevel=stacklevel(),
            )  # fmt: skip
    if not found:
        raise ArgumentError(
            f"{path} holds no task: no class with branches = [...] and process(self, events), none derived from Task"
        )
    return found


def _looks_like_task(value: Foreign) -> bool:
    if isinstance(value, ModuleType):
        return False
    kind: type = value if isinstance(value, type) else type(value)
    if (
        (kind in _BASES and kind is not Processor)
        or value is Processor
        or inspect.isabstract(kind)
        or not callable(getattr(value, "process", None))
    ):
        return False
    return bool(getattr(value, "branches", None)) or issubclass(kind, Task) or _is_processor(kind)


def _is_nearly_a_task(value: Foreign, module: ModuleType) -> bool:
    """Return whether a class of a file has `process`, but is neither a task nor a base class of others."""
    if not isinstance(value, type) or value.__module__ != module.__name__ or _looks_like_task(value):
        return False
    others = [other for other in vars(module).values() if isinstance(other, type) and other is not value]
    plain = callable(getattr(value, "process", None)) and not inspect.isabstract(value)
    return plain and not any(issubclass(other, value) for other in others)


def _is_processor(kind: type) -> bool:
    """Return whether a class is one of coffea's processors."""
    return any(base.__name__ == "ProcessorABC" and base.__module__.startswith("coffea") for base in kind.__mro__)


def _make(kind: type, path: Path) -> Foreign:
    try:
        return kind()
    except (Exception, SystemExit) as error:
        raise TaskError(f"{path}: {kind.__name__}() failed: {described(error)}\n{own_traceback(error)}") from error


class _Loader(SourceFileLoader):
    """Loads a file without writing bytecode: the next run would read a bytecode file that a full disk cut short."""

    def path_stats(self, path: str) -> NoReturn:
        raise OSError(f"no bytecode of {path} is wanted")  # Python then writes none


def _import(path: Path) -> ModuleType:
    name = "sapwood_task_" + re.sub(r"\W", "_", str(path.resolve()))
    loader = _Loader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if path.suffix != ".py" or spec is None:
        raise ArgumentError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # needed to pickle objects of the file's classes
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as Python does for a script: a task file may import modules of its folder
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise TaskError(f"task file {path} failed: {described(error)}\n{own_traceback(error)}") from error
    return module


def described(error: BaseException) -> str:
    """Return an error in one line: its class and message."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - classes of tasks have their own texts
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def was_pressed(error: BaseException) -> bool:
    """Return whether an exception may come from Ctrl-C. Tasks can raise `KeyboardInterrupt`, too."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def own_traceback(error: BaseException) -> str:
    """Format the part of an error's traceback that is in the user's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [place for place, frame in enumerate(frames) if not is_foreign(frame.filename)]
    if not mine:
        return ""
    text = "".join(traceback.format_list(frames[mine[0] : mine[-1] + 1])).rstrip()
    return text + (f"\n  ... {len(frames) - mine[-1] - 1} more below" if mine[-1] + 1 < len(frames) else "")


def is_foreign(filename: str) -> bool:
    """Return whether a file belongs to this package, to Python, or to an installed package."""
    if filename.startswith("<") or is_installed(filename):
        return True
    folders = [Path(__file__).resolve().parents[2], *(Path(path) for path in _LIBRARIES)]
    return any(Path(filename).resolve().is_relative_to(folder) for folder in folders)


def is_installed(filename: str) -> bool:
    """Return whether a file is in a folder of installed packages, also of another environment (``PYTHONPATH``)."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(filename).parts)


_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {
    str(Path(np.__file__).parent.parent)
}
