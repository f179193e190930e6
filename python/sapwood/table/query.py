"""Queries: from names, filters, expressions and a cut to the fields of a table that are read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from sapwood.columns import Array, Foreign
from sapwood.errors import (
    ArgumentError,
    LimitError,
    NotFoundError,
    SapwoodError,
    SapwoodWarning,
    UnsupportedError,
    check_kind,
    stacklevel,
)
from sapwood.garbage import no_garbage
from sapwood.show.units import listed
from sapwood.table.expressions import MAX_DEPTH, Expression, Language, RootText
from sapwood.table.filters import Filter, NameFilter, no_filter
from sapwood.table.schema import (
    Field,
    FieldFilter,
    HasFields,
    Interpretation,
    Table,
    check_filter,
    is_registered,
    registered_interpretations,
)

if TYPE_CHECKING:
    from sapwood.table.corrections import Given
    from sapwood.table.friends import FriendElement

Expressions = str | Iterable["str | tuple[str, None]"] | Mapping[str, None] | None
"""Names or expressions: one, or several; None for all fields that filters let pass."""

_SHOWN = 10
"""Maximum number of fields that a message names; others are only counted."""


class Wanted(TypedDict, total=False):
    """The keywords of `Query`."""

    filter_name: NameFilter
    filter_typename: NameFilter
    filter_field: FieldFilter
    aliases: Mapping[str, str] | None
    language: Language | None
    corrections: Given | None


class Leaf:
    """A field with data."""

    __slots__ = ("field",)

    def __init__(self, field: Field) -> None:
        self.field = field


class Group:
    """A field that has only parts: a record of them."""

    __slots__ = ("field", "fields")

    def __init__(self, field: Field, fields: list[tuple[str, Leaf | Group]]) -> None:
        self.field = field
        self.fields = fields


class Parts(Group):
    """Some parts of a field: a record of them, within the lists that the field has around it."""

    __slots__ = ()


class Formula:
    """An expression, with the node of each name in it."""

    __slots__ = ("depth", "expression", "names")

    def __init__(self, expression: Expression, names: dict[str, Node], depth: int) -> None:
        self.expression = expression
        self.names = names
        self.depth = depth
        """The nesting depth of its operations, including those of the aliases."""


Node = Leaf | Group | Formula


class Whole(NamedTuple):
    """All fields of a table, as `arrays` reads them by default."""

    numbers: list[int]
    names: list[str]


class Beside(NamedTuple):
    """The fields that a query reads from a friend."""

    friend: FriendElement
    query: Query
    by: tuple[Field, ...]
    """The fields of the table by whose values the entries of the friend are found; empty: by number."""


class Query:
    """The fields and expressions that a call of `arrays` or `iterate` reads from a table.

    Raises
    ------
    NotFoundError, ArgumentError
        A name is unknown, or an expression is invalid.
    UnsupportedError
        A field that was requested by name cannot be read, or no field that passes the filters can be read.
    """

    def __init__(
        self,
        source: HasFields,
        expressions: Expressions = None,
        cut: str | None = None,
        *,
        filter_name: NameFilter = no_filter,
        filter_typename: NameFilter = no_filter,
        filter_field: FieldFilter = no_filter,
        aliases: Mapping[str, str] | None = None,
        language: Language | None = None,
        corrections: Given | None = None,
    ) -> None:
        self.source = source
        if language is not None and corrections is not None:
            raise ArgumentError("pass corrections as Language(corrections=...)")
        self._language = language or Language(corrections=corrections)
        if aliases is not None:
            check_kind("aliases", aliases, Mapping, "a dict of names and expressions")
            for item in aliases.items():
                for part in item:
                    check_kind("a name or expression in aliases", part, str, "a text")
        check_filter(source, filter_field)
        self._given_aliases: dict[str, str] = {**source.table.aliases, **(aliases or {})}
        self._stored_aliases = source.table.aliases.keys() - (aliases or {}).keys()
        self._looks_at_fields = filter_field is not None and filter_field is not no_filter
        self._unreadable: dict[Field, None] = {}
        self.named: set[Field] = set()
        """The fields that were requested by name, not only selected by a filter."""
        self._reads: dict[Field, int] = {}
        self._nodes: dict[Field, Leaf | Group] = {}
        self._formulas: dict[str, Formula] = {}
        self._beside: dict[str, Beside] = {}
        self._around = frozenset([_place(source)])
        self._beside_another = False
        self._lost_friends: dict[str, SapwoodError] = {}
        word = source.words.field
        for name in aliases or ():
            if source.find(name) is not None:
                warnings.warn(
                    f"{name!r} is both an alias and a {word}; the {word} is taken\nin {source.object_path}",
                    SapwoodWarning,
                    stacklevel=stacklevel(),
                )

        self.prepared: Any = None
        """The engine that computes its expressions natively, after its first use (see `sapwood.table.native.Exact`)."""
        self.by_entry = False
        """Whether the value of an entry may depend on that entry only: entries are read in steps."""
        self.whole: Whole | None = None
        """All fields of the table, if the query reads all of them. They are examined one by one only if necessary."""
        self._outputs: list[tuple[str, Node]] = []
        self.fills: dict[str, Callable[[Array], Array]] = {}
        """Functions that write a result into an array of the caller, by the name of the result."""
        self.of_leaf = False
        """Whether the source represents one of its own fields, which has no subfields."""
        self.repeated: list[str] = []
        """The requested names. In tuples and lists of results, a repeated name is repeated too."""
        if expressions is None:
            names, typenames = Filter(filter_name), Filter(filter_typename)
            everything = cut is None and names.everything and typenames.everything
            if everything and not (registered_interpretations or self._looks_at_fields):
                self.whole = _whole(source)
            if self.whole is None:
                with no_garbage():
                    self._select(names, typenames, filter_field)
        else:
            for name, given in names_in(expressions):
                node = self._resolve(name, ())
                fill = getattr(given, "fill", None)
                if fill is not None:
                    self.fills[name] = fill
                interpretation: Interpretation | None = getattr(given, "plain", given)
                if interpretation is not None and not (
                    isinstance(node, Leaf | Group) and interpretation == node.field.interpretation
                ):
                    raise ArgumentError(f"the interpretation of {name!r} cannot be replaced: {interpretation!r}")
                self._outputs.append((name, node))
            self.repeated = [name for name, _ in self._outputs]
            self._outputs = list(dict(self._outputs).items())
        self.cut: Formula | Leaf | Group | None = None
        """The condition that selects entries."""
        if cut is not None:
            if not isinstance(cut, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentError(f"a cut is an expression in a string, not {cut!r}")
            self.cut = self._resolve(cut, ())
        if unreadable := self._all_unreadable():
            raise unreadable_error(unreadable)

    @classmethod
    def picking(cls, source: HasFields, fields: Mapping[str, Field | str | None]) -> Query:
        """Return a query of fields that were found before, and of expressions, by the names of the results.

        None stands for the column of a friend that has the name of the result (``friend.column``).

        Raises
        ------
        NotFoundError
            No friend has such a column.
        SapwoodError
            The friend cannot be opened.
        UnsupportedError
            A field cannot be read.
        """
        query = cls(source, [])
        for name, field in fields.items():
            if isinstance(field, str):
                node = query._resolve(field, ())
            elif (node := query.of_friend(name) if field is None else query._node(field)) is None:
                raise NotFoundError(f"no friend has the column {name!r}\n{source.location}")
            query._outputs.append((name, node))
        query.named.update(query._reads)
        if unreadable := query._all_unreadable():
            raise unreadable_error(unreadable)
        return query

    def nested(self) -> Query:
        """Put parts of fields that are selected by their paths into records of the fields, if the table does so.

        Parts of a field whose type is not records in lists stay as they are. If the source is a field itself, its
        selected parts are put into records of the source.
        """
        if not self.source.nests or self.whole is not None:
            return self
        found: dict[str, Node] = {}
        parts: dict[Field, list[Leaf | Group]] = {}
        for name, node in self.outputs:
            if isinstance(node, Formula) or (top := self._outermost(node.field)) is node.field:
                found[name] = node
            elif _records(top.type) and name.replace("/", self.source.separator) == node.field.path_in(self.source):
                parts.setdefault(top, []).append(node)
                found.setdefault(top.name, node)
            else:
                found[name] = node
        for top, nodes in parts.items():
            whole = found[top.name]
            if isinstance(whole, Formula) or whole.field is not top:
                found[top.name] = _parts_of(top, nodes)
        if isinstance(self.source, Field) and not self.of_leaf:
            found = self._within(self.source, found)
        self._outputs = list(found.items())
        self.repeated = list(found) if self.repeated else []
        return self

    def _within(self, field: Field, found: dict[str, Node]) -> dict[str, Node]:
        """Put the selected parts of a field into records of the field, if they are its members."""
        inner = [(name, node) for name, node in found.items() if not isinstance(node, Formula)]
        if not inner or len(inner) < len(found) or not _records(field.type):
            return found
        if any(node.field.parent is not field for _, node in inner):
            return found
        complete = [name for name, _ in inner] == [child.name for child in field.fields]
        if complete and not any(isinstance(node, Parts) for _, node in inner):
            return {field.name: self._node(field)}
        return {field.name: Parts(field, inner)}

    def _outermost(self, field: Field) -> Field:
        """Return the field directly in the source that holds a field."""
        while field.parent is not self.source and isinstance(field.parent, Field):
            field = field.parent
        return field

    def _look(self) -> None:
        """Examine the fields of a whole table, at the first use."""
        if self.whole is not None and not self._outputs:
            every = self.source.table.every_field
            with no_garbage():
                fields: list[Field] = [every[number] for number in self.whole.numbers]
                nodes = [Leaf(field) for field in fields]
                self._reads = {field: place for place, field in enumerate(fields)}
                self._nodes = dict(zip(fields, nodes, strict=True))
                self._outputs = list(zip(self.whole.names, nodes, strict=True))

    @property
    def outputs(self) -> list[tuple[str, Node]]:
        """The names of the results with their nodes."""
        self._look()
        return self._outputs

    @property
    def fields(self) -> list[Field]:
        """The fields to read, each once."""
        self._look()
        return list(self._reads)

    @property
    def beside(self) -> list[Beside]:
        """The queries on friends."""
        return list(self._beside.values())

    @property
    def all_fields(self) -> list[Field]:
        """The fields to read, followed by those of friends."""
        return [*self.fields, *(field for one in self._beside.values() for field in one.query.all_fields)]

    @property
    def paths(self) -> list[str]:
        """The names of the fields to read, as expressions use them."""
        own = [field.path_in(self.source) for field in self.fields]
        return own + [f"{name}.{path}" for name, one in self._beside.items() for path in one.query.paths]

    @property
    def requested_names(self) -> list[str]:
        """The names by which the fields to read were requested, which are the same in every kind of table.

        Fields that were not requested by a name have their paths.
        """
        names: dict[Field, str] = {}

        def visit(name: str, node: Node) -> None:
            if isinstance(node, Leaf):
                names.setdefault(node.field, name)
                return
            parts = node.names.items() if isinstance(node, Formula) else node.fields
            for part, inner in parts:
                visit(part if isinstance(node, Formula) else f"{name}.{part}", inner)

        for name, node in self.outputs:
            visit(name, node)
        return [names.get(field, path) for field, path in zip(self.all_fields, self.paths, strict=True)]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the fields to read, as the stored table counts them."""
        return [field.number for field in self._reads] if self.whole is None else self.whole.numbers

    def bytes_between(self, start: int, stop: int) -> float:
        """Estimate the bytes of the fields to read in memory, between two entries."""
        return self.bytes_in([(start, stop)])[0]

    def bytes_in(self, ranges: Sequence[tuple[int, int]]) -> list[float]:
        """Estimate the bytes of the fields to read in memory, in each of several ranges of entries."""
        own = self.source.table.native.bytes_in(self.numbers, ranges)
        others = [one.query.bytes_in(ranges) for one in self._beside.values()]
        return [sum(sizes) for sizes in zip(own, *others, strict=True)]

    def on(self, source: HasFields) -> Query | None:
        """Return the same query for another table; None if the fields might differ."""
        mine = self.source
        if self._beside:
            return None  # its friends are others
        if isinstance(mine, Table) and isinstance(source, Table) and not self._looks_at_fields:
            return self.moved(source) if source.same_shape(mine) else None
        return None

    def moved(self, source: HasFields) -> Query:
        """Return the same query for another table, which must have the same fields."""
        moved = copy(self)
        moved.source = source
        return moved

    def cut_alone(self) -> Query:
        """Return a query of the same fields whose only result is the value of the cut, named ``cut``."""
        alone = copy(self)
        alone._outputs = [] if self.cut is None else [("cut", self.cut)]
        alone.repeated, alone.fills, alone.cut, alone.prepared = [], {}, None, None
        return alone

    def same_shape(self, other: Query) -> list[int] | None:
        """Return the numbers of this query's fields in the order of another one's, if both read the same.

        That is: the same field paths with the same types, for the same results made in the same way. None otherwise.
        """
        if self._reads is other._reads or (self.whole is not None and self.whole is other.whole):
            return other.numbers
        if self._recipe() != other._recipe():
            return None
        if self._friend_types() != other._friend_types():
            return None
        mine = {field.path_in(self.source): field for field in self.fields}
        numbers: list[int] = []
        for field in other.fields:
            match = mine.get(field.path_in(other.source))
            if match is None or match.type != field.type:
                return None
            numbers.append(match.number)
        return numbers if len(numbers) == len(mine) else None

    def same_results(self, other: Query) -> bool:
        """Return whether this query makes the same results as another one, from fields of the same names."""
        mine, others = set(self.requested_names), set(other.requested_names)
        return self._recipe() == other._recipe() and mine == others and len(mine) == len(self.all_fields)

    def _friend_types(self) -> list[Any]:
        return [field.type for one in self._beside.values() for field in one.query.all_fields]

    def _recipe(self) -> tuple[Any, ...]:
        formulas = {name: f.expression.text for name, f in self._formulas.items()}
        beside = [(name, [field.name for field in one.by], one.query.paths) for name, one in self._beside.items()]
        return sorted(name for name, _ in self.outputs), formulas, self.cut is None, beside

    # Which fields

    def _select(self, names: Filter, typenames: Filter, filter_field: FieldFilter) -> None:
        called = {field: name for name, field in self.source.chosen(names, typenames, filter_field or no_filter)}
        leaves: dict[Field, None] = {}
        bad: dict[Field, None] = {}
        chosen_groups: list[Field] = []
        for field in called:
            if field.is_group:
                chosen_groups.append(field)
            else:
                (leaves if field.reason is None else bad)[field] = None
        groups: list[Field] = []
        for group in chosen_groups:
            below = [field for field in group.descendants() if not field.is_group]
            readable = {field for field in below if field.reason is None}
            if any(group.is_below(outer) for outer in groups):
                continue
            bad.update((field, None) for field in below if field.reason is not None)
            if readable <= leaves.keys():
                # Its parts stand for themselves.
                continue
            for field in readable & leaves.keys():
                del leaves[field]
            groups.append(group)
        if bad:
            asked = [field for field in bad if names.names & {field.name, field.path_in(self.source)}]
            if asked:
                raise unreadable_error(asked)
            if not leaves and not groups:
                raise unreadable_error(bad)
            _warn(self.source, bad)
        if names.names:
            self.named.update(b for b in leaves if names.names & {b.name, b.path_in(self.source)})
        taken: set[str] = set()
        lost: list[str] = []
        for field in [*leaves, *groups]:
            name = called[field] if called[field] not in taken else field.path_in(self.source)
            if name in taken:
                lost.append(name)
                continue
            taken.add(name)
            self._outputs.append((name, self._leaf(field) if field in leaves else self._node(field)))
        if lost:
            warnings.warn(
                f"{len(lost)} {self.source.words.fields} have the same path as another one, which was read instead: "
                f"{listed(lost, _SHOWN)}\n"
                f"in {self.source.object_path}",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )

    def _leaf(self, field: Field) -> Leaf | Group:
        self._reads.setdefault(field, len(self._reads))
        if is_registered(field):
            raise UnsupportedError(f"{field.object_path} has a registered interpretation: read it with array()")
        return self._nodes.get(field) or self._nodes.setdefault(field, Leaf(field))

    def _node(self, field: Field) -> Leaf | Group:
        if not field.is_group:
            if field.reason is not None:
                self._unreadable[field] = None
            return self._leaf(field)
        fields: dict[str, Leaf | Group] = {}
        for child in field.fields:
            below = [child, *child.descendants()]
            if any(not b.is_group and b.reason is None for b in below):
                fields.setdefault(child.name, self._node(child))
        if not fields:
            self._unreadable[field] = None
        return self._nodes.setdefault(field, Group(field, list(fields.items())))

    # Expressions

    def _resolve(self, text: str, within: tuple[str, ...]) -> Node:
        field = self.source.find(text)
        if field is not None:
            self.named.add(field)
            if field.is_group:
                bad = {b: None for b in field.descendants() if not b.is_group and b.reason is not None}
                if bad and any(not b.is_group and b.reason is None for b in field.descendants()):
                    _warn(self.source, bad)
            return self._node(field)
        known = self._formulas.get(text)
        if known is not None:
            return known
        if text not in self._given_aliases and (within or _PLAIN_NAME.fullmatch(text)):
            node = self.of_friend(text)
            if node is not None:
                return node
        if text in within:
            chain = " → ".join([*within, text])
            raise ArgumentError(f"the alias {text!r} is defined by itself: {chain}\n{self.source.location}")
        if len(within) >= MAX_DEPTH:
            raise LimitError(
                f"more than {MAX_DEPTH} aliases that use each other, from {within[0]!r}\n{self.source.location}"
            )
        definition = self._given_aliases.get(text, text)
        names = _Names(self, self._given_aliases)
        where, word = self.source.location, self.source.words.field
        try:
            is_stored = text in self._stored_aliases
            if is_stored or isinstance(text, RootText):
                from sapwood.table.formulas import RootFormula  # few trees have formulas

                where = f"in the alias {text!r} that the tree stores\n{where}" if is_stored else where
                expression = RootFormula(definition, names, where, word)
            else:
                expression = self._language.parse(definition, names, where, word)
        except NotFoundError as error:
            lost = "".join(f"\n{one}" for one in self._lost_friends.values())
            raise NotFoundError(f"{error}{lost}") if lost else error  # noqa: B904 - or the same
        inner = (*within, text)
        nodes = {name: self._resolve(name, inner) for name in expression.needs}
        depth = expression.depth + max((node.depth for node in nodes.values() if isinstance(node, Formula)), default=0)
        if depth > MAX_DEPTH:
            raise LimitError(
                f"{depth} nested operations in {text[:80]!r} and the aliases that it uses; the limit is {MAX_DEPTH}\n"
                f"{self.source.location}"
            )
        formula = self._formulas[text] = Formula(expression, nodes, depth)
        return formula

    # Friends

    def of_friend(self, where: str) -> Leaf | Group | None:
        """Return the column of a friend by name, as ROOT finds it; None if no friend has it.

        ``friend.column`` is a column of one friend. A name without a friend's name is searched in each friend in turn;
        a friend that cannot be opened has no columns then.
        """
        source = self.source
        if not isinstance(source, Table):
            return None
        friends = [friend for name, friend in source.friends.items() if name not in self._lost_friends]
        if where.startswith(f"{source.name}.") and (field := source.find(where[len(source.name) + 1 :])) is not None:
            self.named.add(field)
            return self._node(field)
        for friend in friends:
            column = friend.column(where)
            if column is not None and (node := self._column_of(friend, column)) is not None:
                return node
        for friend in friends:
            try:
                _ = friend.table
            except SapwoodError as error:
                self._lost_friends[friend.name] = error
                continue
            if (node := self._column_of(friend, where)) is not None:
                return node
        return None

    def friend_columns(self) -> Iterator[str]:
        """Iterate over the names of the columns of friends that can be opened, each after the name of its friend."""
        friends = self.source.friends if isinstance(self.source, Table) else {}
        for name, friend in friends.items():
            with suppress(SapwoodError):
                yield from (f"{name}.{path}" for path, field in friend.table.walk(True) if not field.is_group)

    def _column_of(self, friend: FriendElement, column: str) -> Leaf | Group | None:
        known = self._beside.get(friend.name)
        query = Query(friend.table, []) if known is None else known.query
        is_itself = not self._beside_another and query.source is not self.source
        if _place(query.source) in self._around and not is_itself:
            return None  # a friend of a friend that is the table itself
        query._around = self._around | query._around
        query._beside_another = True
        field = query.source.find(column)
        if field is not None:
            query.named.add(field)
        node = query.of_friend(column) if field is None else query._node(field)
        if node is not None and known is None:
            self._beside[friend.name] = Beside(friend, query, tuple(map(self._key, friend.on(self.source.table))))
        return node

    def _key(self, name: str) -> Field:
        field = self.source[name]
        self.named.add(field)
        self._node(field)
        return field

    def _all_unreadable(self) -> list[Field]:
        return [*self._unreadable, *(field for one in self._beside.values() for field in one.query._all_unreadable())]


_PLAIN_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")


def _whole(source: HasFields) -> Whole | None:
    found = source.whole() if isinstance(source, Table) else None
    return None if found is None else Whole(*found)


def _place(source: HasFields) -> tuple[str, str]:
    return source.file.file_path, source.object_path


class _Names:
    """All names that an expression may use: fields by name or path, fields of friends, and aliases."""

    def __init__(self, query: Query, aliases: Mapping[str, str]) -> None:
        self._query = query
        self._source = query.source
        self._aliases = aliases

    def __contains__(self, name: object) -> bool:
        if name in self._aliases or self._source.find(str(name)) is not None:
            return True
        return self._query.of_friend(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self._aliases
        for path, field in self._source.walk(True):
            yield field.name
            if path != field.name:
                yield path
        yield from self._query.friend_columns()

    def __len__(self) -> int:
        return sum(1 for _ in self)


def names_in(expressions: Expressions) -> list[tuple[str, Interpretation | None]]:
    """Return the names and expressions of a call, each with the interpretation that is given for it.

    Raises
    ------
    ArgumentError, TypeError
        One of them is neither.
    """
    if isinstance(expressions, str):
        return [(expressions, None)]
    if isinstance(expressions, Iterable):
        names: list[tuple[str, Interpretation | None]] = []
        items: Iterable[object] = expressions.items() if isinstance(expressions, Mapping) else expressions
        for item in items:
            match item:
                case str():
                    names.append((item, None))
                case (str(), None | Interpretation()):
                    names.append((item[0], item[1]))
                case (str(), str()):
                    raise ArgumentError(
                        f"{item[1]!r} is not an interpretation of {item[0]!r}. To name an expression, use "
                        f"aliases={{{item[0]!r}: {item[1]!r}}}"
                    )
                case (str(), _):
                    raise ArgumentError(f"the interpretation of {item[0]!r} cannot be replaced: {item!r}")
                case _:
                    raise TypeError(f"an expression is a string, not {item!r}")
        return names
    raise TypeError(f"expressions are None, a string or an iterable of strings, not {expressions!r}")


def unreadable_error(fields: Iterable[Field]) -> UnsupportedError:
    """Make the error that names all requested fields that cannot be read, with class and reason."""
    found = list(fields)
    words = found[0].words
    lines = [
        f"{field.object_path} (class {field.cpp_class}): {field.reason or f'none of its {words.parts} can be read'}"
        for field in found[:_SHOWN]
    ]
    place = f"in file {found[0].file.file_path}"
    if len(found) == 1:
        return UnsupportedError(f"cannot read {lines[0]}\n{place}")
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more")
    return UnsupportedError("\n    ".join([f"cannot read {len(found)} {words.fields}:", *lines]) + f"\n{place}")


def _warn(source: HasFields, fields: Iterable[Field]) -> None:
    found = [field.path_in(source) for field in fields]
    warnings.warn(
        f"{len(found)} {source.words.fields} cannot be read and are left out: {listed(found, _SHOWN)}\n"
        f"({source.words.field}.reason says why)\nin {source.object_path}",
        SapwoodWarning,
        stacklevel=stacklevel(),
    )


def _records(kind: Foreign) -> bool:
    """Whether a type is records, or lists and arrays of records."""
    while kind is not None and kind[0] in ("list", "fixed"):
        kind = kind[-1]
    return kind is not None and kind[0] == "record"


def _parts_of(field: Field, nodes: list[Leaf | Group]) -> Leaf | Group:
    """Return the node of a field with only the selected parts, at any depth."""
    chosen = {node.field: node for node in nodes}
    if field in chosen:
        return chosen[field]
    inner: list[tuple[str, Leaf | Group]] = []
    for child in field.fields:
        below = [node for node in nodes if node.field is child or node.field.is_below(child)]
        if below:
            inner.append((child.name, _parts_of(child, below)))
    return Parts(field, inner)
