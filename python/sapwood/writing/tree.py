"""Trees and branches being written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sapwood.columns import Type, length_of, type_of
from sapwood.compression import Compression, code_of
from sapwood.errors import ArgumentError, LimitError, NotFoundError, SapwoodWarning, UnsupportedError, stacklevel
from sapwood.writing.columns import Ready, to_columns
from sapwood.writing.shapes import blank, shape_of
from sapwood.writing.table import WritableTable
from sapwood.writing.types import to_type

if TYPE_CHECKING:
    from sapwood.columns import Foreign
    from sapwood.writing.objects import Object
    from sapwood.writing.output import OutputFile
    from sapwood.writing.plan import Numbers, TreePlan


class WritableTree(WritableTable):
    """A tree being written, made by `WritableDirectory.mktree`.

    `extend` buffers entries until a cluster is full, then writes them together. Closing the file writes the
    rest.
    """

    def __init__(
        self,
        path: tuple[str, ...],
        file: OutputFile,
        number: int,
        plan: TreePlan,
        codes: list[int],
        add_branches: Callable[..., None],
        *,
        loses_index: bool = False,
    ) -> None:
        """Wrap a tree of the native core, with the function that adds branches to it."""
        super().__init__(path, file, number)
        self._add_branches = add_branches
        self._plan = plan
        self.go_on(number, plan, codes, loses_index=loses_index)

    def go_on(
        self,
        number: int,
        plan: TreePlan,
        codes: list[int],
        added: Sequence[TreePlan] = (),
        *,
        loses_index: bool = False,
    ) -> None:
        """Continue with another tree of the native core, which has the branches of this tree and those `added`."""
        self._number = number
        self._loses_index = loses_index
        if plan is not self._plan:
            plan.keep_names(self._plan, *added)
        self._plan = plan
        self._codes: dict[str, int] = {branch.name: code for branch, code in zip(plan.branches, codes, strict=True)}
        self._places = {branch.name: place for place, branch in enumerate(plan.branches)}
        self._collected = []

    def describe(
        self,
        weight: float,
        aliases: Object | None,
        index: Object | None,
        friends: Object | None,
        user_info: Object | None,
    ) -> None:
        """Set the weight of a new tree, and objects of ROOT's classes for what else it has besides its entries."""
        with self._file.changing():
            self._file.check_open("describe a tree in")
            self._file.native.describe_tree(self._number, weight, (aliases, index, friends, user_info))

    def collect_zones(self) -> None:
        """Collect statistics of all numbers, and hashes of baskets, which the index of a tree has."""
        self._file.native.keep_checksums()
        super().collect_zones()

    @property
    def num_baskets(self) -> int:
        """Number of baskets of the branch with the most baskets."""
        with self._file.changing():
            return self._file.native.table_counts(self._number)[2]

    def keys(self) -> list[str]:
        """Return the names of the branches, including counters."""
        return [branch.name for branch in self._plan.branches]

    def __contains__(self, where: object) -> bool:
        """Whether there is a branch of that name."""
        return where in self._codes

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the branches."""
        return iter(self.keys())

    def __getitem__(self, where: str) -> WritableBranch:
        """Return a branch.

        Raises
        ------
        NotFoundError
            No branch has that name.
        """
        if where not in self._codes:
            raise NotFoundError(f"no branch {where!r} in tree {self.object_path!r}: there are {self.keys()}")
        return WritableBranch(self, where)

    def extend(self, data: object, *, accept_new_fields: bool = False) -> None:
        """Add entries.

        Parameters
        ----------
        data
            Data for every branch, all of one length, in a form that `WritableDirectory.mktree` takes. Counters are
            optional, but must be correct. Numbers of another type are converted if they fit. If the tree has an index
            (`TTreeIndex`) of branches with one number, the entries are added to it; any other index is left out, with a
            warning.
        accept_new_fields
            Add branches for new columns. Earlier entries get zeros and empty lists.

        Raises
        ------
        ArgumentError
            The data do not fit the branches. No entry is written.
        StorageError
            The storage is full or failed. The message states how many entries are safe.
        """
        self._file.check_open("write to")
        columns = to_columns(data, self._plan.maps)
        with self._file.changing():
            if accept_new_fields and (new := self._plan.unknown(columns)):
                known = self._plan.columns({name: column for name, column in columns.items() if name not in new})
                if len({length_of(column) for column in (*known, *new.values())}) > 1:
                    raise ArgumentError("data for branches and for new ones have different lengths: nothing was added")
                types = {name: type_of(column) for name, column in new.items()}
                self.add_branches(_blanks(types, self.num_entries))
            before = self.num_entries
            self.take(self._plan.columns(columns))
            if self._loses_index and self.num_entries > before:
                self._loses_index = False
                text = (
                    f"the index of tree {self.object_path!r} is left out, because the new entries cannot be added to "
                    "it; without one, friends are matched by the numbers of their entries"
                )
                warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())

    def add_branches(self, data: object, **choices: Any) -> None:
        """Add branches with data, as `WritableDirectory.add_branches` does. Later entries must include them.

        Parameters
        ----------
        data
            Data by name, or a table, with as many entries as the tree.
        choices
            As for `WritableDirectory.add_branches`.

        Raises
        ------
        ArgumentError
            The tree has another number of entries, or a branch of that name.
        UnsupportedError
            The tree's description contains data that cannot be preserved.
        """
        self._add_branches(data, **choices)

    def add_fields(self, types: Mapping[str, object]) -> None:
        """Add branches by type. Earlier entries get zeros, empty strings and empty lists.

        Parameters
        ----------
        types
            Types by name, as for `WritableDirectory.mktree`.

        Raises
        ------
        ArgumentError
            The tree has a branch of that name.
        """
        with self._file.changing():
            blanks = _blanks({name: to_type(kind) for name, kind in types.items()}, self.num_entries)
            self.add_branches(blanks, branch_types=types)

    def _numbers(self) -> list[Numbers]:
        return self._plan.numbers()

    @property
    def compression(self) -> Compression | dict[str, Compression | None] | None:
        """Codec and level of future baskets: one for all branches, or by name if they differ.

        Can be set to one value or to a mapping with all names.
        """
        codes = set(self._codes.values())
        if len(codes) == 1:
            return Compression.from_code(codes.pop())
        return {name: Compression.from_code(code) for name, code in self._codes.items()}

    @compression.setter
    def compression(self, value: Compression | Mapping[str, Compression | None] | None) -> None:
        if isinstance(value, Mapping):
            if set(value) != set(self._codes):
                raise TypeError(f"compression by name takes exactly the names of all branches: {self.keys()}")
            codes = {name: code_of(one) for name, one in value.items()}
        else:
            codes = dict.fromkeys(self._codes, code_of(value))
        with self._file.changing():
            for name, code in codes.items():
                self.set_branch_code(name, code)

    def branch_code(self, name: str) -> int:
        """Return the compression setting of a branch as ROOT's number."""
        return self._codes[name]

    def set_branch_code(self, name: str, code: int) -> None:
        """Set the compression setting of a branch as ROOT's number."""
        with self._file.changing():
            self._file.native.set_field_compression(self._number, self._places[name], code)
            self._codes[name] = code


class FixedTree(WritableTable):
    """A tree of the file that cannot be extended: it can be read, and new branches can be added to it."""

    def __init__(
        self, path: tuple[str, ...], file: OutputFile, add_branches: Callable[..., None], reason: UnsupportedError
    ) -> None:
        """Remember why it cannot be extended, and the function that adds branches to it."""
        super().__init__(path, file, -1)
        self._add_branches, self._reason = add_branches, reason
        self._entries: int = self.read().num_entries

    @property
    def num_entries(self) -> int:
        """Number of entries."""
        return self._entries

    @property
    def num_entries_written(self) -> int:
        """Number of entries."""
        return self._entries

    def keys(self) -> list[str]:
        """Return the names of the branches."""
        return self.read().keys()

    def __contains__(self, where: object) -> bool:
        """Whether there is a branch of that name."""
        return where in self.keys()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the branches."""
        return iter(self.keys())

    def __getitem__(self, where: str) -> Foreign:
        """Return a branch that can be read."""
        return self.read()[where]

    def extend(self, data: object, *, accept_new_fields: bool = False) -> None:
        """Raise `UnsupportedError` with the reason."""
        del data, accept_new_fields
        raise self._reason

    def add_branches(self, data: object, **choices: Any) -> None:
        """Add branches with data, as `WritableTree.add_branches` does."""
        self._add_branches(data, **choices)

    def add_fields(self, types: Mapping[str, object]) -> None:
        """Add branches by type, as `WritableTree.add_fields` does."""
        with self._file.changing():
            blanks = _blanks({name: to_type(kind) for name, kind in types.items()}, self.num_entries)
            self.add_branches(blanks, branch_types=types)

    @property
    def num_baskets(self) -> int:
        """Number of baskets of the branch with the most baskets."""
        return max((branch.num_baskets for branch in self.read().branches), default=0)

    @property
    def compression(self) -> Compression | dict[str, Compression | None] | None:
        """Codec and level of the branches: one for all, or by name if they differ."""
        found = {branch.name: branch.compression for branch in self.read().branches}
        first = next(iter(found.values()), None)
        return first if all(one == first for one in found.values()) else found

    @compression.setter
    def compression(self, value: object) -> None:
        del value
        raise self._reason

    def finish(self) -> None:
        """Do nothing: no entries are buffered."""

    def flush(self) -> None:
        """Do nothing: no entries are buffered."""


def _blanks(types: Mapping[str, Type], entries: int) -> dict[str, Ready]:
    """Return columns of zeros, empty strings and empty lists."""
    shapes = {name: shape_of(kind, name, {}, nameless=True) for name, kind in types.items()}
    try:
        return {name: Ready(blank(shape, entries)) for name, shape in shapes.items()}
    except (MemoryError, ValueError):
        raise LimitError(f"no memory for {', '.join(types)} in {entries} entries") from None


class WritableBranch:
    """A branch of a `WritableTree`."""

    def __init__(self, tree: WritableTree, name: str) -> None:
        """Refer to a branch by name."""
        self._tree = tree
        self._name = name

    def __repr__(self) -> str:
        """Return a short description."""
        return f"<WritableBranch {self._name!r} of {self._tree.object_path!r}>"

    @property
    def tree(self) -> WritableTree:
        """The tree."""
        return self._tree

    @property
    def name(self) -> str:
        """Name of the branch."""
        return self._name

    @property
    def compression(self) -> Compression | None:
        """Codec and level of future baskets. Can be set."""
        return Compression.from_code(self._tree.branch_code(self._name))

    @compression.setter
    def compression(self, value: Compression | None) -> None:
        self._tree.set_branch_code(self._name, code_of(value))
