"""Trees and branches while they are written."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sapwood.compression import Compression, code_of
from sapwood.errors import NotFoundError
from sapwood.table.index import Zones
from sapwood.table.statistics import ZoneCollector
from sapwood.writing.columns import to_columns

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Column, Foreign
    from sapwood.files.tree import TTree
    from sapwood.writing.output import OutputFile
    from sapwood.writing.plan import Plan


class WritableTree:
    """A tree being written, made by `WritableDirectory.mktree`.

    Entries given to `extend` are gathered until a cluster is full, then written together; closing the file writes the
    rest.
    """

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int, plan: Plan, codes: list[int]) -> None:
        """Take a tree that the native core has made."""
        self._path = path
        self._file = file
        self._number = number
        self._plan = plan
        self._codes: dict[str, int] = {branch.name: code for branch, code in zip(plan.branches, codes, strict=True)}
        self._places = {branch.name: place for place, branch in enumerate(plan.branches)}
        self._zones: ZoneCollector | None = None

    def __repr__(self) -> str:
        """Show what it is."""
        return f"<WritableTree {self.object_path!r}, {self.num_entries} entries>"

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the directories and of the tree."""
        return self._path

    @property
    def object_path(self) -> str:
        """The same as one string."""
        return "/" + "/".join(self._path)

    @property
    def name(self) -> str:
        """Name of the tree."""
        return self._path[-1]

    @property
    def file(self) -> OutputFile:
        """The file."""
        return self._file

    @property
    def file_path(self) -> str | None:
        """Path of the file."""
        return self._file.file_path

    @property
    def num_entries(self) -> int:
        """Entries taken so far."""
        return self._file.native.tree_counts(self._number)[0]

    @property
    def num_entries_written(self) -> int:
        """Entries in the file, which are those of full clusters."""
        return self._file.native.tree_counts(self._number)[1]

    @property
    def num_baskets(self) -> int:
        """Baskets in the file, of the branch that has most."""
        return self._file.native.tree_counts(self._number)[2]

    def keys(self) -> list[str]:
        """Give the names of the branches, counters among them."""
        return [branch.name for branch in self._plan.branches]

    def __getitem__(self, where: str) -> WritableBranch:
        """Give a branch.

        Raises
        ------
        NotFoundError
            No branch has that name.
        """
        if where not in self._codes:
            raise NotFoundError(f"no branch {where!r} in tree {self.object_path!r}: there are {self.keys()}")
        return WritableBranch(self, where)

    def read(self) -> TTree:
        """Open the tree for reading, with all entries so far; those that wait for their cluster to be full end it."""
        self._file.commit()
        return self._file.read()["/".join(self._path)]

    def arrays(self, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Read the entries so far: `TTree.arrays` of `read`."""
        return self.read().arrays(*arguments, **options)

    def show(self, *arguments: Foreign, **options: Foreign) -> None:
        """Print the branches: `TTree.show` of `read`."""
        self.read().show(*arguments, **options)

    def extend(self, data: object) -> None:
        """Add entries.

        Parameters
        ----------
        data
            As for `WritableDirectory.mktree`: data for every branch, all of one length. Counters need not be given;
            if they are, they must count. Numbers of another type are converted if they fit.

        Raises
        ------
        ArgumentError
            The data do not fit the branches; none of them is written.
        StorageError
            The storage took no more; the message says how many entries are safe.
        """
        self._file.check_open("write to")
        self.take(self._plan.columns(to_columns(data, self._plan.maps)))

    def collect_zones(self, entries: int) -> None:
        """Look at all values to come, for an index of the tree with zones of so many entries."""
        self._zones = ZoneCollector(entries)

    @property
    def zones(self) -> Zones | None:
        """What the index of the tree holds, if its values were looked at."""
        return None if self._zones is None else self._zones.zones()

    def take(self, columns: list[Column]) -> None:
        """Write the columns of all branches that are not counters."""
        self._file.native.extend(self._number, columns)
        if self._zones is not None:
            self._zones.take(self._plan.bounded(columns))

    def finish(self) -> None:
        """Write the entries gathered so far and make them part of the readable file; it takes no more."""
        self._file.check_open("write to")
        self._file.native.finish_tree(self._number)

    def flush(self) -> None:
        """Write the entries gathered so far, as a cluster of its own however small."""
        self._file.check_open("write to")
        self._file.native.flush(self._number)

    @property
    def compression(self) -> Compression | dict[str, Compression | None] | None:
        """Codec and level of the baskets to come: one for all branches, or by name if they differ.

        Can be set to one or to a mapping with all names.
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
        for name, code in codes.items():
            self.set_branch_code(name, code)

    def branch_code(self, name: str) -> int:
        """Give the compression setting of a branch as ROOT's number."""
        return self._codes[name]

    def set_branch_code(self, name: str, code: int) -> None:
        """Set the compression setting of a branch as ROOT's number."""
        self._file.native.set_branch_compression(self._number, self._places[name], code)
        self._codes[name] = code

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def __enter__(self) -> Self:
        """Give itself; the end of the block closes the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, also after an exception."""
        self._file.leave(error)


class WritableBranch:
    """A branch of a `WritableTree`."""

    def __init__(self, tree: WritableTree, name: str) -> None:
        """Take a branch by its name."""
        self._tree = tree
        self._name = name

    def __repr__(self) -> str:
        """Show what it is."""
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
        """Codec and level of the baskets to come; can be set."""
        return Compression.from_code(self._tree.branch_code(self._name))

    @compression.setter
    def compression(self, value: Compression | None) -> None:
        self._tree.set_branch_code(self._name, code_of(value))
