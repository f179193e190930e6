"""Trees and branches: tables with the names of ROOT and uproot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sapwood.columns import Foreign
from sapwood.containers.marks import has_marks, is_plain, marked
from sapwood.errors import CorruptError
from sapwood.files.keyed import KeyedTable
from sapwood.files.members import HasMembers, described_by
from sapwood.show.safe import safe_line
from sapwood.table.reading import Readable, ReadableField
from sapwood.table.schema import HasFields, Words, ratio
from sapwood.table.signatures import in_words, passes_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood import _native
    from sapwood.compression import Compression
    from sapwood.files.baskets import Basket
    from sapwood.files.explaining import TreeExplanation
    from sapwood.files.records import KeyRecord
    from sapwood.interpretation import Interpretation
    from sapwood.objects.model import Model
    from sapwood.schema import StreamerElement, StreamerInfo
    from sapwood.table.engine import StoredField
    from sapwood.table.libraries import Library


_in_words = partial(in_words, filter_field="filter_branch")


class HasBranches(Readable, HasMembers):
    """The common base of a tree and a branch: (sub-)branches by name, which can be read together.

    - ``tree["muon/pt"]`` follows a path.
    - ``tree["pt"]`` finds a branch at any depth (the nearest to the top).
    - ``tree["/pt"]`` finds only a direct branch.
    - ``tree[0]`` selects by number.

    Iteration yields the direct branches. The class has the methods of a mapping without being one: Polars would take a
    mapping for a dict of columns, but a tree is a stream of Arrow batches.
    """

    words = Words("branch", "branches", "sub-branches", "filter_branch", "tree", "baskets", "baskets")

    iteritems = _in_words(Readable.iteritems)
    iterkeys = _in_words(Readable.iterkeys)
    keys = _in_words(Readable.keys)
    items = _in_words(Readable.items)
    itervalues = _in_words(Readable.itervalues)
    values = _in_words(Readable.values)
    itertypenames = _in_words(Readable.itertypenames)
    typenames = _in_words(Readable.typenames)
    show = _in_words(Readable.show)
    arrays = _in_words(Readable.arrays)
    iterate = _in_words(Readable.iterate)
    explain = _in_words(Readable.explain)
    num_entries_for = _in_words(Readable.num_entries_for)

    @property
    def branches(self) -> list[TBranch]:
        """The direct branches."""
        return self.fields

    @property
    def tree(self) -> TTree:
        """The tree."""
        raise NotImplementedError

    def explanation_type(self) -> type[TreeExplanation]:
        """Return the class of the result of `explain`."""
        from sapwood.files.explaining import TreeExplanation

        return TreeExplanation

    def member(self, name: str, all: bool = True, none_if_missing: bool = False) -> Any:  # noqa: A002
        """Return the value of a member, as `Model.member` does; ``fBranches`` are the branches themselves."""
        return self.branches if name == "fBranches" else super().member(name, all, none_if_missing)

    @passes_on(iteritems)
    def common_entry_offsets(self, **chosen: Any) -> list[int]:
        """List the entries at which a basket of every branch begins or ends.

        The branches are those of `keys`, and this object if it is a branch.
        """
        branches: list[TBranch] = [*self._itself, *self.values(**chosen)]
        edges = [set(branch.entry_offsets) for branch in branches if branch.num_baskets]
        return sorted(set.intersection(*edges)) if edges else [0]


class TTree(HasBranches, KeyedTable):
    """A tree: entries, each with a value in every branch.

    It is also an Arrow stream: ``pyarrow.table(tree)``, ``polars.DataFrame(tree)`` and DuckDB accept it, reading
    one record batch after another.
    """

    def __init__(self, native: _native.Tree, key: Any) -> None:
        super().__init__(native, key)
        self._model: Model | None = None
        self._may_be_marked: bool | None = None

    @property
    def _stored_fields(self) -> Sequence[StoredField]:
        return self._native.branches

    def _field(self, stored: StoredField, number: int, parent: HasFields) -> TBranch:
        return TBranch(stored, number, parent, self)

    @property
    def model(self) -> Model:
        """The tree with all its C++ members (`Model`). Its record is read again."""
        model = self._model
        if model is None:
            from sapwood.objects.standard import read_model

            model = self._model = read_model(self._key)
        return model

    @property
    def tree(self) -> TTree:
        """The tree itself."""
        return self

    def whole(self) -> tuple[list[int], list[str]] | None:
        """Return the numbers and names of the branches that `arrays` reads by default, as `Table.whole` does.

        None also if they may include sets or maps, whose arrays have parameters.
        """
        if self._may_be_marked is None:
            self._may_be_marked = not all(is_plain(branch.typename) for branch in self._native.branches)
        return None if self._may_be_marked else super().whole()

    def _stored_friends(self) -> dict[str, tuple[str, str]]:
        return {name: (path, inside) for name, path, inside in self._native.friends}

    @property
    def index_fields(self) -> tuple[str, ...]:
        """The branches of the stored index (`fTreeIndex`); empty if the index uses formulas."""
        names = tuple(name for name in self._native.index or () if name != "0")
        return names if all(name in self for name in names) else ()

    @property
    def list_counters(self) -> dict[str, str]:
        """The name of the counter branch, if there is one, of each list by name."""
        counters = ((branch.name, branch.count_branch) for branch in self.branches)
        return {name: counter.name for name, counter in counters if counter is not None and counter.top_level}

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
        return ratio(self.uncompressed_bytes, self.compressed_bytes)

    @property
    def auto_flush(self) -> int:
        """The size of clusters (`fAutoFlush`): entries if positive, bytes if negative."""
        return self._native.auto_flush

    def field_bytes(self) -> tuple[list[int], list[int]]:
        """List the bytes of all baskets of each branch, before compression and as stored."""
        return self._native.field_bytes()

    def branch_at(self, number: int) -> TBranch:
        """Return a branch by its number among all branches, depth first."""
        return self.every_field[number]

    def __repr__(self) -> str:
        """Return a short description."""
        count = f" ({len(self)} branches)" if len(self) else ""
        return f"<TTree {self.name!r}{count} at 0x{id(self):012x}>"


class TBranch(HasBranches, ReadableField):
    """A branch: the values of one variable, or of one object with sub-branches, for all entries of the tree."""

    _parent: Any
    _table: Any

    _is_marked: bool | None = None

    @property
    def is_marked(self) -> bool:
        """Whether sets or maps are in it: their Awkward arrays have the parameters that uproot gives them."""
        if self._is_marked is None:
            kind = None if self.is_group or is_plain(self.typename) else self.type
            self._is_marked = (
                kind is not None
                # Most files have neither sets nor maps; then the members of their classes need not be looked up.
                and ("set<" in self.typename or "map<" in self.typename or bool(self.file.has_sets_or_maps))
                and has_marks(kind, self.typename, self.member_types)
            )
        return self._is_marked

    def mark(self, node: Foreign) -> Foreign:
        """Return an Awkward layout or form of the branch with these parameters (`sapwood.containers.marks`)."""
        return marked(node, self.typename, self.member_types)

    @property
    def model(self) -> Model:
        """The branch with all its C++ members (`Model`). The record of the tree is read again.

        Raises
        ------
        CorruptError
            The class descriptions of the file contradict the tree.
        """
        found = self._parent.model.member("fBranches")
        try:
            return found[self.index]
        except (TypeError, LookupError):
            raise CorruptError(f"'fBranches' of {self._parent!r} has no branch {self.index}\n{self.location}") from None

    @property
    def streamer(self) -> StreamerInfo | StreamerElement | None:
        """The streamer info of the class, or of the class member, in the branch; None for plain leaves."""
        return described_by(self.model)

    @property
    def interpretation(self) -> Interpretation:
        """The interpretation, by uproot's names (`sapwood.interpretation`), or the reason why there is none."""
        from sapwood.interpretation import interpretation_of

        return interpretation_of(self)

    @property
    def tree(self) -> TTree:
        """The tree."""
        return self._table

    @property
    def classname(self) -> str:
        """The C++ class of the branch itself: `TBranch`, `TBranchElement`, ..."""
        return self.native.encoded_classname

    @property
    def cache_key(self) -> str:
        """A string that identifies this branch among all files."""
        above = self._table.cache_key if self.top_level else self._parent.cache_key
        return f"{above}{':' if self.top_level else '/'}{self.name}({self.index})"

    @property
    def num_baskets(self) -> int:
        """The number of baskets."""
        return self.native.num_baskets

    @property
    def entry_offsets(self) -> list[int]:
        """The first entry of each basket, and the end of the last."""
        return list(self.native.basket_entries) or [0]

    def basket_entry_start_stop(self, basket_num: int) -> tuple[int, int]:
        """Return the first entry of a basket, and the entry after its last."""
        self._check_basket(basket_num)
        start, stop = self.native.basket_entries[basket_num : basket_num + 2]
        return start, stop

    def basket_compressed_bytes(self, basket_num: int) -> int:
        """Return the size of a basket in the file including the key, in bytes."""
        self._check_basket(basket_num)
        return self.native.basket_bytes[basket_num]

    def basket_seek(self, basket_num: int) -> int:
        """Return the offset of a basket in the file, in bytes; 0 for one inside the tree's own record."""
        self._check_basket(basket_num)
        return self.native.basket_seeks[basket_num]

    def basket_key(self, basket_num: int) -> KeyRecord:
        """Read the key of a basket from the file.

        Raises
        ------
        UnsupportedError
            The basket is stored inside the tree's own record.
        CorruptError
            There is no key of a basket at that offset.
        """
        from sapwood.files.baskets import key_of

        return key_of(self, basket_num)

    def basket_uncompressed_bytes(self, basket_num: int) -> int:
        """Return the size of a basket before compression including the key, in bytes; errors as in `basket_key`."""
        key = self.basket_key(basket_num)
        return key.fKeylen + key.fObjlen

    def basket(self, basket_num: int) -> Basket:
        """Read and decompress a basket.

        Raises
        ------
        UnsupportedError
            The basket is in another file, or has no bytes at all.
        CorruptError, StorageError
            The bytes are damaged, or cannot be read.
        """
        from sapwood.files.baskets import Basket

        self._check_basket(basket_num)
        return Basket(self, basket_num)

    @property
    def embedded_baskets(self) -> list[Basket]:
        """The baskets that are stored inside the tree's own record."""
        return [self.basket(number) for number in self.native.embedded_baskets]

    def entries_to_ranges_or_baskets(
        self, entry_start: int, entry_stop: int
    ) -> list[tuple[int, tuple[int, int] | Basket]]:
        """List the baskets of a range of entries: the number of each, its first byte, and the byte after it.

        Baskets inside the tree's own record are returned as baskets.
        """
        found: list[tuple[int, tuple[int, int] | Basket]] = []
        edges, seeks, sizes = self.entry_offsets, self.native.basket_seeks, self.native.basket_bytes
        for number, (seek, size) in enumerate(zip(seeks, sizes, strict=True)):
            if edges[number] < entry_stop and edges[number + 1] > entry_start:
                found.append((number, (seek, seek + size) if seek else self.basket(number)))
        return found

    def _read_as(
        self, interpretation: Interpretation, start: int | None, stop: int | None, library: str | Library
    ) -> Any:
        from sapwood.files.baskets import read_as

        return read_as(self, interpretation, start, stop, library)

    def _check_basket(self, number: int) -> None:
        if not 0 <= number < self.num_baskets:
            raise IndexError(f"{self.object_path} has {self.num_baskets} baskets, no number {number}")

    @property
    def count_branch(self) -> TBranch | None:
        """The branch that counts the items per entry of this one, if there is one."""
        index = self.native.count_branch
        return None if index is None else self._table.branch_at(index)

    @property
    def count_leaf(self) -> Model | None:
        """The leaf of `count_branch` with all its members (`Model`), if there is one."""
        leaves = self.model.member("fLeaves")
        return leaves[0].member("fLeafCount") if leaves else None

    @property
    def leaves(self) -> list[tuple[str, str, str]]:
        """The leaves: C++ class, name and title of each."""
        return list(self.native.leaves)

    @property
    def compression(self) -> Compression | None:
        """The compression setting; that of the file if the branch has none of its own (`kInherit`)."""
        from sapwood.compression import Compression

        code = self.native.compression
        return self.file.compression if code < 0 else Compression.from_code(code)

    def __repr__(self) -> str:
        """Return a short description."""
        count = f" ({len(self)} subbranches)" if len(self) else ""
        return safe_line(f"<{self.classname} {self.name!r}{count} at 0x{id(self):012x}>")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the file and the path in it."""
        return _branch_at, (self._table, self.number)


def _branch_at(tree: TTree, number: int) -> TBranch:
    return tree.branch_at(number)
