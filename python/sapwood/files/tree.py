"""Trees and branches."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood import columns
from sapwood.columns import Array, Foreign, Type
from sapwood.compression import Compression
from sapwood.errors import ArgumentError, LimitError
from sapwood.files.members import described_by
from sapwood.table.fields import HasBranches
from sapwood.table.learning import Learned
from sapwood.table.libraries import Library, library_of
from sapwood.table.query import Selection, unreadable_error
from sapwood.table.scan import arrow_parts, single, warn_of_parts
from sapwood.table.steps import StepPlan, entry_range

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from sapwood import _native
    from sapwood.files.file import ReadOnlyFile, ReadOnlyKey
    from sapwood.objects.model import Model
    from sapwood.schema import StreamerElement, StreamerInfo

_GROWING = threading.Lock()

_STREAM_STEP = "64 MB"
"""How much of a tree one Arrow record batch holds, uncompressed."""
_MOST_BATCHES = 1_000_000
"""The most record batches of a stream: 64 TB."""


class TTree(HasBranches):
    """A tree: entries, each with a value in every branch.

    It is an Arrow stream too: ``pyarrow.table(tree)``, ``polars.DataFrame(tree)`` and DuckDB take it as it is, reading
    one record batch after another.
    """

    def __init__(self, native: _native.Tree, key: ReadOnlyKey) -> None:
        super().__init__()
        self._native = native
        self._key = key
        self._nodes: list[TBranch] | None = None
        self._clusters: list[int] | None = None
        self._model: Model | None = None
        self._learned: Learned | None = None

    @property
    def learned(self) -> Learned:
        """Which branches were read one by one."""
        if self._learned is None:
            with _GROWING:
                if self._learned is None:
                    self._learned = Learned(self)
        return self._learned

    @property
    def nodes(self) -> list[TBranch]:
        """All branches, depth first, as the native tree counts them."""
        # Made when first asked for: of many files alike, only the first one's branches are looked at.
        if self._nodes is None:
            with _GROWING:
                if self._nodes is None:
                    self._nodes = self._grow()
        return self._nodes

    def _grow(self) -> list[TBranch]:
        nodes: list[TBranch] = []
        for index, branch in enumerate(self._native.branches):
            parent = branch.parent
            above: HasBranches = self if parent is None else nodes[parent]
            node = TBranch(branch, index, above, self)
            nodes.append(node)
            above._direct.append(node)
        return nodes

    @property
    def _children(self) -> list[TBranch]:
        _ = self.nodes
        return self._direct

    @property
    def native(self) -> _native.Tree:
        """The native tree; raises `StorageError` once the file is closed."""
        _ = self.file.native
        return self._native

    @property
    def model(self) -> Model:
        """The tree with all members that it has in C++ (`Model`); its record is read once more for it."""
        model = self._model
        if model is None:
            from sapwood.objects.standard import read_model

            model = self._model = read_model(self._key)
        return model

    @property
    def tree(self) -> TTree:
        """The tree itself."""
        return self

    @property
    def file(self) -> ReadOnlyFile:
        """The file."""
        return self._key.file

    @property
    def parent(self) -> ReadOnlyKey:
        """The key of the tree."""
        return self._key

    @property
    def name(self) -> str:
        """The name of the tree."""
        return self._native.name

    @property
    def title(self) -> str:
        """The title of the tree."""
        return self._native.title

    @property
    def classname(self) -> str:
        """The C++ class: `TTree`, `TNtuple`, ..."""
        return self._native.classname

    @property
    def object_path(self) -> str:
        """The path of the tree in the file, with its cycle."""
        return self._key.object_path

    @property
    def cache_key(self) -> str:
        """A string that stands for this tree among all files."""
        return f"{self._key.parent.cache_key}{self.name};{self._key.fCycle}"

    @property
    def num_entries(self) -> int:
        """The number of entries."""
        return self._native.num_entries

    @property
    def aliases(self) -> dict[str, str]:
        """The names and expressions that the tree defines (`fAliases`)."""
        return dict(self._native.aliases)

    @property
    def uncompressed_bytes(self) -> int:
        """The size of all baskets before compression, in bytes (`fTotBytes`)."""
        return self._native.total_bytes

    @property
    def compressed_bytes(self) -> int:
        """The size of all baskets as stored, in bytes (`fZipBytes`)."""
        return self._native.compressed_bytes

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty tree."""
        return _ratio(self.uncompressed_bytes, self.compressed_bytes)

    @property
    def auto_flush(self) -> int:
        """How often clusters were closed: after so many entries, or if negative so many bytes (`fAutoFlush`)."""
        return self._native.auto_flush

    @property
    def clusters(self) -> list[int]:
        """The entries at which clusters begin, and the end: 0, ..., `num_entries`."""
        if self._clusters is None:
            self._clusters = self._native.clusters()
        return list(self._clusters)

    def same_shape(self, other: TTree) -> bool:
        """Tell whether another tree has the same branches and aliases, of the same types, in the same places."""
        return self._native.same_shape(other._native)

    def branch_at(self, native_index: int) -> TBranch:
        """Give a branch by its place among all, depth first."""
        return self.nodes[native_index]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Foreign:
        """Give all readable branches as an Arrow stream (a capsule), named as in `arrays`, by whole clusters."""
        from sapwood import _native

        del requested_schema  # a wish only, by the Arrow PyCapsule interface
        selection = Selection(self)
        steps = list(islice(StepPlan(selection, _STREAM_STEP, (0, self.num_entries)), _MOST_BATCHES + 1)) or [(0, 0)]
        if len(steps) > _MOST_BATCHES:
            raise LimitError(f"tree {self.name} claims {self.num_entries} entries: more than {_MOST_BATCHES} batches")
        names, parts = arrow_parts(selection, steps)
        return _native.arrow_stream(names, parts, warn_of_parts)

    def __repr__(self) -> str:
        """Show what it is."""
        count = f" ({len(self)} branches)" if len(self) else ""
        return f"<TTree {self.name!r}{count} at 0x{id(self):012x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file and the path in it."""
        return _object_at, (self.file, self._key.object_path)


class TBranch(HasBranches):
    """A branch: the values of one variable, or of one object with sub-branches, for all entries of the tree."""

    def __init__(self, native: _native.Branch, index: int, parent: HasBranches, tree: TTree) -> None:
        super().__init__()
        self.native: _native.Branch = native
        self.native_index: int = index
        self._parent = parent
        self._tree = tree
        self._name = native.name
        self._reason: str | None = None
        self._reason_known = False

    @property
    def _itself(self) -> Sequence[TBranch]:
        return (self,)

    @property
    def model(self) -> Model:
        """The branch with all members that it has in C++ (`Model`); the record of the tree is read once more for it."""
        return self._parent.model.member("fBranches")[self.index]

    @property
    def streamer(self) -> StreamerInfo | StreamerElement | None:
        """What the file says of the class, or the member of a class, that the branch holds; None for plain leaves."""
        return described_by(self.model)

    @property
    def tree(self) -> TTree:
        """The tree."""
        return self._tree

    @property
    def parent(self) -> HasBranches:
        """The tree or branch above."""
        return self._parent

    @property
    def top_level(self) -> bool:
        """Whether the tree is directly above."""
        return self._parent is self._tree

    @property
    def name(self) -> str:
        """The name, as it is stored (`fName`)."""
        return self._name

    @property
    def title(self) -> str:
        """The title (`fTitle`)."""
        return self.native.title

    @property
    def classname(self) -> str:
        """The C++ class of the branch itself: `TBranch`, `TBranchElement`, ..."""
        return self.native.encoded_classname

    @property
    def cpp_class(self) -> str:
        """The C++ class of what it holds, where the branch names one (`fClassName`), else its type."""
        return self.native.classname or self.typename

    @property
    def typename(self) -> str:
        """The C++ type of what it holds: ``float``, ``int32_t[3]``, ``std::vector<float>``, ..."""
        return self.native.typename

    @property
    def index(self) -> int:
        """The place among the branches of the parent."""
        return self._parent._children.index(self)

    @property
    def object_path(self) -> str:
        """The path in the file: the tree's, a colon, and the names down to here."""
        return f"{self._parent.object_path}{':' if self.top_level else '/'}{self.name}"

    @property
    def cache_key(self) -> str:
        """A string that stands for this branch among all files."""
        above = self._tree.cache_key if self.top_level else self._parent.cache_key  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        return f"{above}{':' if self.top_level else '/'}{self.name}({self.index})"

    def path_in(self, source: HasBranches) -> str:
        """Give the path from a tree or branch above to here."""
        path = self._name
        above = self._parent
        while above is not source and isinstance(above, TBranch):
            path = f"{above._name}/{path}"
            above = above._parent
        return path

    def is_below(self, other: HasBranches) -> bool:
        """Tell whether this is a sub-branch of the other one, at any depth."""
        above: HasBranches | None = self._parent
        while isinstance(above, TBranch):
            if above is other:
                return True
            above = above._parent
        return above is other

    @property
    def is_group(self) -> bool:
        """Whether it has no values of its own, but only sub-branches."""
        return bool(self._children) and not self.native.has_data

    @property
    def type(self) -> Type | None:
        """What it is read as (see `sapwood.columns`), None where it cannot be read."""
        if self.is_group:
            fields = [(child.name, child.type) for child in self._children if child.type is not None]
            return ("record", "", fields) if fields else None
        return self.native.type

    @property
    def reason(self) -> str | None:
        """Why it cannot be read, None where it can."""
        if not self._reason_known:
            self._reason = self.native.reason
            self._reason_known = True
        return self._reason

    @property
    def left_out(self) -> list[str]:
        """The members that cannot be decoded and are left out, as far as that is known beforehand: which, and why."""
        return self.native.left_out

    @property
    def doubts(self) -> list[str]:
        """What could not be read if it occurred: elements of containers whose class the file does not describe."""
        return self.native.doubts

    @property
    def interpretation(self) -> Interpretation:
        """What it is read as, or why it cannot be read."""
        return Interpretation(self)

    @property
    def num_entries(self) -> int:
        """The number of entries in this branch."""
        return self.native.entries

    @property
    def num_baskets(self) -> int:
        """The number of baskets."""
        return self.native.num_baskets

    @property
    def entry_offsets(self) -> list[int]:
        """The entries at which baskets begin, and the end."""
        return list(self.native.basket_entries) or [0]

    def basket_entry_start_stop(self, basket_num: int) -> tuple[int, int]:
        """Give the first entry of a basket and the one behind its last."""
        self._check_basket(basket_num)
        start, stop = self.native.basket_entries[basket_num : basket_num + 2]
        return start, stop

    def basket_compressed_bytes(self, basket_num: int) -> int:
        """Give the size of a basket in the file, key and all, in bytes."""
        self._check_basket(basket_num)
        return self.native.basket_bytes[basket_num]

    def basket_seek(self, basket_num: int) -> int:
        """Give the offset of a basket in the file, in bytes; 0 for one that lies inside the tree's own record."""
        self._check_basket(basket_num)
        return self.native.basket_seeks[basket_num]

    def _check_basket(self, number: int) -> None:
        if not 0 <= number < self.num_baskets:
            raise IndexError(f"{self.object_path} has {self.num_baskets} baskets, no number {number}")

    @property
    def count_branch(self) -> TBranch | None:
        """The branch that counts the items of this one in each entry, if there is one."""
        index = self.native.count_branch
        return None if index is None else self._tree.branch_at(index)

    @property
    def leaves(self) -> list[tuple[str, str, str]]:
        """The leaves: C++ class, name and title of each."""
        return list(self.native.leaves)

    @property
    def uncompressed_bytes(self) -> int:
        """The size of its baskets before compression, in bytes (`fTotBytes`)."""
        return self.native.total_bytes

    @property
    def compressed_bytes(self) -> int:
        """The size of its baskets as stored, in bytes (`fZipBytes`)."""
        return self.native.compressed_bytes

    @property
    def compression_ratio(self) -> float:
        """Uncompressed over compressed size; not a number for an empty branch."""
        return _ratio(self.uncompressed_bytes, self.compressed_bytes)

    @property
    def compression(self) -> Compression | None:
        """The compression setting; the file's where the branch has none of its own (`kInherit`)."""
        code = self.native.compression
        return self.file.compression if code < 0 else Compression.from_code(code)

    def array(
        self,
        interpretation: None = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = None,
        library: str | Library = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
    ) -> Foreign:
        """Read this branch; a branch with only sub-branches gives a record of those.

        Parameters
        ----------
        interpretation
            None: another reading of the bytes cannot be had.
        entry_start, entry_stop, library, ak_add_doc
            As in `arrays`, as are the errors.
        decompression_executor, interpretation_executor, array_cache
            Have no effect, see `arrays`.
        """
        del decompression_executor, interpretation_executor, array_cache
        if interpretation is not None:
            raise ArgumentError(f"the interpretation of a branch cannot be replaced (by {interpretation!r})")
        if not self.is_group and self.reason is not None:
            raise unreadable_error([self])
        entries = self._tree.num_entries if self.is_group else self.num_entries
        start, stop = entry_range(entries, entry_start, entry_stop)
        return single(self, start, stop, library_of(library), ak_add_doc)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Read this branch as a NumPy array."""
        array = self.array(library="np")
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        """Show what it is."""
        count = f" ({len(self)} subbranches)" if len(self) else ""
        return f"<{self.classname} {self.name!r}{count} at 0x{id(self):012x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file and the path in it."""
        return _branch_at, (self._tree, self.native_index)


class Interpretation:
    """What a branch is read as; its `repr` is the type as Awkward Array writes it, or why it cannot be read."""

    def __init__(self, branch: TBranch) -> None:
        self._branch = branch

    @property
    def type(self) -> Type | None:
        """The type, None where the branch cannot be read."""
        return self._branch.type

    @property
    def reason(self) -> str | None:
        """Why the branch cannot be read, None where it can."""
        return self._branch.reason

    @property
    def typename(self) -> str:
        """The C++ type."""
        return self._branch.typename

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of the elements that ``library="np"`` gives: `object` for what has no fixed size."""
        kind, shape = self.type, ()
        while kind is not None and kind[0] == "fixed":
            kind, shape = kind[2], (*shape, kind[1])
        dtype = np.dtype(kind[1] if kind is not None and kind[0] == "number" else object)
        return np.dtype((dtype, shape)) if shape else dtype

    def __repr__(self) -> str:
        """Show what it is."""
        kind = self.type
        return f"unreadable: {self.reason}" if kind is None else columns.describe(kind)


def _ratio(uncompressed: int, compressed: int) -> float:
    return uncompressed / compressed if compressed else float("nan")


def _object_at(file: ReadOnlyFile, path: str) -> Foreign:
    return file.root_directory[path]


def _branch_at(tree: TTree, native_index: int) -> TBranch:
    return tree.branch_at(native_index)
