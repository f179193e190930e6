"""Reading what a `Selection` wants: at once, or when it is looked at."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood import columns
from sapwood.columns import Array, Column, Foreign
from sapwood.errors import CorruptError, LimitError, SapwoodWarning, StorageError, UnsupportedError, stacklevel
from sapwood.table.libraries import NO_UNIONS, How, Library, Result
from sapwood.table.query import Formula, Group, Leaf, Selection, documentation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sapwood import _native
    from sapwood.files.tree import TBranch

_AT_ONCE = 100_000
"""How many entries are decoded at once to see whether they can be."""

Part = tuple[Selection, Sequence[int], int, int]
"""A selection, the native branch indexes to read for it, and a range of entries."""


def read(parts: Sequence[Part], carry: _native.Carry | None = None, lost: Lost | None = None) -> list[Column | None]:
    """Read the branches of all parts, joined in order: one native call, in which other Python threads run.

    A single part that follows another may use what that has left in `carry`. Of the branches that nobody asked for by
    name, those that turn out to be unreadable when they are decoded are left out with a warning (None in their place);
    of steps, which share `lost`, in the first one only.
    """
    found, left_out = _read(parts, carry, lost)
    warn_of_parts(left_out)
    return found


def _read(
    parts: Sequence[Part], carry: _native.Carry | None, lost: Lost | None
) -> tuple[list[Column | None], list[str]]:
    """Do what `read` does, but give what was left out of the branches instead of a warning."""
    from sapwood import _native

    if not parts or not parts[0][1]:
        return [], []
    lost = Lost() if lost is None else lost
    selection = parts[0][0]
    reasons: list[str] = []
    while True:
        places = [place for place in range(len(parts[0][1])) if place not in lost]
        wanted = [
            (part.source.tree.native, [indexes[place] for place in places], start, stop)
            for part, indexes, start, stop in parts
        ]
        left_out: list[str] = []
        try:
            found = iter(_native.read(wanted, carry, left_out))
            break
        except (UnsupportedError, CorruptError) as error:
            if len(parts[0][1]) == 1:
                raise
            column = error.column if isinstance(error, UnsupportedError) else None
            place = None if column is None else places[column]
            if place is None or selection.branches[place] in selection.named or lost.settled or len(places) == 1:
                hint = _HOW_TO_LEAVE_OUT
                if lost.settled and place is not None:
                    hint = _HOW_TO_GO_ON.format(name=selection.branches[place].name, start=parts[0][2])
                raise type(error)(f"{error}\n{hint}") from error
            lost.add(place)
            reasons.append(str(error))
    lost.settled = True
    _warn("branches", reasons)
    return [None if place in lost else next(found) for place in range(len(parts[0][1]))], left_out


def arrow_parts(selection: Selection, steps: Sequence[tuple[int, int]]) -> tuple[list[str], list[Any]]:
    """Give the names and the data of an Arrow stream of all steps: what to read, or columns where only they tell types.

    Where there are objects, the first step is decoded for it, and those branches are left out that cannot be.
    """
    native, indexes = selection.source.tree.native, selection.indexes
    names = [name for name, _ in selection.outputs]
    kinds = [branch.type or ("dynamic",) for branch in selection.branches]
    settled = all(map(columns.is_settled, kinds))
    if settled and not any(map(columns.has_records, kinds)):
        return names, [(native, indexes, *step) for step in steps]
    lost = Lost()
    read_now = steps[:1] if settled else steps
    found, left_out = _read([(selection, indexes, *step) for step in read_now], None, lost)
    if settled:
        kept = [place for place in range(len(indexes)) if place not in lost]
        return [names[place] for place in kept], [(native, [indexes[place] for place in kept], *step) for step in steps]
    warn_of_parts(left_out)
    data: dict[str, Column] = {}
    refused: list[str] = []
    for name, column in zip(names, found, strict=True):
        if column is not None and columns.has_unions(columns.type_of(column)):
            refused.append(f"{name}: {NO_UNIONS}")
        elif column is not None:
            data[name] = column
    _warn("branches", refused)
    return list(data), list(data.values())


def warn_of_parts(reasons: list[str]) -> None:
    """Warn of what was left out of branches."""
    _warn("kinds of parts", reasons)


class Lost(set[int]):
    """The places of the branches that were left out of the first of several steps, and so are of all."""

    settled = False
    """Whether the first step was read."""


_SHOWN = 5
"""So many that are left out are named with their reasons."""


def _warn(what: str, reasons: list[str]) -> None:
    if reasons:
        listed = "\n    ".join(reasons[:_SHOWN] + ["and others"] * (len(reasons) > _SHOWN))
        warnings.warn(
            f"{len(reasons)} {what} cannot be decoded and are left out:\n    {listed}",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )


_HOW_TO_LEAVE_OUT = (
    "No values are given, not of the other branches either. To read those, leave this one out "
    "(filter_branch=lambda branch: ...); tree.unreadable(entries=None) names all branches that fail like this."
)

_HOW_TO_GO_ON = (
    "All steps have the branches of the first, in which this one could be decoded. To read on without it, iterate with "
    "filter_branch=lambda branch: branch.name != {name!r} from entry {start} of this tree; "
    "tree.unreadable(entries=None) names all branches that fail like this."
)


def undecodable(branch: TBranch, entries: int | None) -> str | None:
    """Decode the first entries of a branch (None: all) and a long one, and forget them; say what went wrong."""
    from sapwood import _native

    stop = branch.num_entries if entries is None else min(entries, branch.num_entries)
    try:
        for start in range(0, stop, _AT_ONCE):
            _native.read([(branch.tree.native, [branch.native_index], start, min(start + _AT_ONCE, stop))])
        # The first entries are often empty.
        longest = branch.native.longest_entry() if stop else None
        if longest is not None and stop <= longest < branch.num_entries:
            _native.read([(branch.tree.native, [branch.native_index], longest, longest + 1)])
    except (UnsupportedError, CorruptError, LimitError) as error:
        return str(error)
    return None


def together(
    selection: Selection,
    data: list[Column | None],
    start: int,
    stop: int,
    library: Library,
    how: How,
    add_doc: bool | Mapping[str, str],
    only: Array | None = None,
) -> Foreign:
    """Make what `arrays` gives of the columns that `read` gave for the entries from `start` to `stop`, or some only."""
    with _no_garbage():
        results, entries = selection.results(data, start, stop, library, add_doc, only)
        nodes = dict(selection.outputs)
        refused = {name: why for name, result in results if (why := library.refuses(result))}
        for name, why in refused.items():
            node = nodes.get(name)
            if not isinstance(node, Leaf) or node.branch in selection.named:
                raise UnsupportedError(f"{name}: {why}")
        _warn("branches", [f"{name}: {why}" for name, why in refused.items()])
        results = [(name, result) for name, result in results if name not in refused]
        return library.group(results, entries, how, documentation(selection.source, add_doc))


@contextmanager
def _no_garbage() -> Generator[None]:
    """Let Python not look for garbage in a block that makes many objects, all of them wanted.

    It would look again and again, which costs more than making them where branches are many.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_one(selection: Selection, branch: TBranch, start: int, stop: int) -> Column:
    """Read a branch that was not named beforehand; see `sapwood.table.learning`."""
    carry = branch.tree.learned.carry_for(branch, start, stop) if branch.file.is_far else None
    try:
        found = read([(selection, [branch.native_index], start, stop)], carry)
    except StorageError:
        branch.tree.learned.give_up()
        raise
    return next(column for column in found if column is not None)


def single(branch: TBranch, start: int, stop: int, library: Library, add_doc: bool | Mapping[str, str]) -> Foreign:
    """Read one branch; one with only sub-branches as a record of them (NumPy: a dict, pandas: a frame)."""
    selection = Selection(branch.parent, filter_branch=lambda other: other is branch)
    if selection.indexes == [branch.native_index]:
        data: list[Column | None] = [read_one(selection, branch, start, stop)]
    else:
        data = read([(selection, selection.indexes, start, stop)])
    ((_, result),), entries = selection.results(data, start, stop, library, add_doc)
    if branch.is_group and library.name in ("np", "pd"):
        return library.table([(name, Result(column)) for name, column in result.value[3]], entries, None, None)
    return library.finish(result, entries)


class Accessed(NamedTuple):
    """One entry of an access log: which branch was read, for which buffer of the virtual array."""

    branch: str
    buffer_key: str


def virtual(
    selection: Selection,
    start: int,
    stop: int,
    add_doc: bool | Mapping[str, str],
    log: Foreign,
    failed: Callable[[Exception], None] | None = None,
) -> Foreign:
    """Give an Awkward array whose branches are read when they are first looked at, each on its own.

    `failed` is told of an error of reading before that is raised where the array is looked at.

    Raises
    ------
    ImportError
        The installed Awkward Array has no virtual arrays (they came with 2.8).
    """
    import awkward as ak

    container: dict[str, Callable[[], Any]] = {}
    forms: list[Any] = []
    names: list[str] = []
    reasons: list[str] = []
    for number, (name, node) in enumerate(selection.outputs):
        if isinstance(node, Formula):
            continue
        parameters = documentation(node.branch, add_doc)
        try:
            form = _form(node, str(number), selection, (start, stop), container, log, failed, parameters)
        except UnsupportedError as error:
            if node.branch in selection.named:
                raise
            reasons.append(str(error))
            continue
        forms.append(form)
        names.append(name)
    _warn("branches", reasons)
    form = ak.forms.RecordForm(forms, names, parameters=documentation(selection.source, add_doc))
    return ak.from_buffers(form, stop - start, container)


def _form(
    node: Leaf | Group,
    key: str,
    selection: Selection,
    entries: tuple[int, int],
    container: dict[str, Callable[[], Any]],
    log: Foreign,
    failed: Callable[[Exception], None] | None,
    parameters: dict[str, Any] | None,
) -> Foreign:
    import awkward as ak

    if isinstance(node, Group):
        forms = [
            _form(field, f"{key}/{i}", selection, entries, container, log, failed, None)
            for i, (_, field) in enumerate(node.fields)
        ]
        return ak.forms.RecordForm(forms, [name for name, _ in node.fields], parameters=parameters)
    branch = node.branch
    once = threading.Lock()
    known: dict[str, Any] = {}

    def buffer(name: str) -> Callable[[], Any]:
        def get() -> Foreign:
            nonlocal log
            with once:
                if not known:
                    try:
                        known.update(columns.buffers_of(read_one(selection, branch, *entries), key))
                    except Exception as error:
                        if failed is not None:
                            failed(error)
                        raise
            if log is not None:
                log += [Accessed(branch.path_in(selection.source), name)]
            return known[name]

        return get

    kind = branch.type or ("dynamic",)
    if not columns.is_settled(kind):
        # Only its data say what it is, so it is read now.
        column = read_one(selection, branch, *entries)
        known.update(columns.buffers_of(column, key))
        kind = columns.type_of(column)
    form = columns.form_of(kind, key, parameters)
    for name in form.expected_from_buffers(buffer_key="{form_key}-{attribute}"):
        container[name] = buffer(name)
    return form
