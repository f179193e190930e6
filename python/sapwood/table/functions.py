"""Functions of expressions that work on lists and four-vectors, for arrays and for symbols of the native engine.

``combinations(x, n)`` are all choices of `n` items, ``cartesian(x, y)`` all pairs, and ``nested(x, y)`` for each item
of `x` the list of its pairs; ``['0']``, ``['1']`` are their members. ``concatenate(x, y)`` joins the lists of each
entry, and ``local_index(x)`` is the place of each item in its list.

``random(event, seed)`` is a number from 0 to below 1 that depends on these whole numbers alone; with
``local_index(x)`` among them each item has its own.

Lists are those of entries: ``sum``, ``any``, ``all``, ``min``, ``max``, ``argmin``, ``argmax`` and ``mean`` reduce the
innermost ones, the others work on the outermost. ``min``, ``max``, ``argmin``, ``argmax`` and ``first`` of an empty
list are None. Four-vectors are records with the fields ``pt``, ``eta``, ``phi`` and ``mass``; their functions compute
in double precision.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, LimitError
from sapwood.table.mixing import aligned
from sapwood.table.symbols import NotNativeError, Record, Symbol, is_plain, is_symbolic, items_at

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_MOST = 1 << 28
"""The most combinations of items that an expression may make at once."""


def _lists(value: Foreign, name: str) -> Foreign:
    """Return an array of lists.

    Raises
    ------
    ValueError
        There are no lists in it.
    """
    import awkward as ak

    array = value if isinstance(value, ak.Array) else ak.Array(value)
    if array.ndim < 2:
        raise ValueError(f"{name} needs a list in each entry")
    return array


def _reduction(name: str) -> Callable[[Any], Any]:
    def reduce(x: Foreign, *others: Foreign) -> Foreign:
        if others:
            hint = f"; {name}imum(x, y) compares two values" if name in ("min", "max") else ""
            raise ArgumentError(f"{name} takes the values of one list{hint}")
        if isinstance(x, Symbol):
            return x.apply(name)
        import awkward as ak

        lists = _lists(x, name)
        # The sum of whole numbers, too, is computed in floating point: it may have more than 64 bits.
        return getattr(ak, name)(double(lists) if name == "mean" else lists, axis=-1)

    return reduce


def _count(x: Foreign) -> Foreign:
    if is_symbolic(x):
        return (x.first() if isinstance(x, Record) else x).apply("count")
    import awkward as ak

    return ak.num(_lists(x, "count"), axis=1)


def _first(x: Foreign) -> Foreign:
    if isinstance(x, Record):
        return Record({name: (lambda name=name: _first(x[name])) for name in x.fields})
    if isinstance(x, Symbol):
        return x.apply("first")
    import awkward as ak

    return ak.firsts(_lists(x, "first"), axis=1)


def _argsort(x: Foreign) -> Foreign:
    if isinstance(x, Symbol):
        return x.apply("argsort")
    import awkward as ak

    return ak.argsort(_lists(x, "argsort"), axis=1)


def _sort(x: Foreign) -> Foreign:
    if isinstance(x, Symbol):
        return x.apply("take", x.apply("argsort"))
    import awkward as ak

    return ak.sort(_lists(x, "sort"), axis=1)


def _at(x: Foreign, place: Foreign) -> Foreign:
    if isinstance(x, Record):
        return Record({name: (lambda name=name: _at(x[name], place)) for name in x.fields})
    if isinstance(x, Symbol):
        return x.apply("at", place)
    import awkward as ak

    places = ak.Array(place) if not isinstance(place, ak.Array) else place
    return ak.firsts(_lists(x, "at")[ak.singletons(places)], axis=1)


def _fill_none(x: Foreign, value: Foreign) -> Foreign:
    if isinstance(x, Symbol):
        if not is_plain(value):
            raise NotNativeError("None can only be replaced by a number")
        return x.apply("fill_none", value=value)
    import awkward as ak

    return ak.fill_none(x, value, axis=-1) if isinstance(x, ak.Array) else x


def _check_number(many: float) -> None:
    if many > _MOST:
        raise LimitError(f"{many:.0f} combinations of items; the limit is {_MOST}")


def _lengths(lists: Foreign) -> Any:
    """Return the length of each list; 0 for a missing list."""
    import awkward as ak

    return ak.to_numpy(ak.fill_none(ak.num(lists, axis=1), 0))


def _combinations(x: Foreign, n: Foreign) -> Foreign:
    if type(n) is not int or not 1 <= n <= 16:
        raise ValueError(f"combinations are of 1 to 16 items, not {n!r}")
    if is_symbolic(x):
        of: Symbol = x.first() if isinstance(x, Record) else x

        def member(k: int) -> Callable[[], Symbol | Record]:
            return lambda: items_at(x, of.apply("combinations", value=(n, k)))

        record = Record({str(k): member(k) for k in range(n)})
        record.combined = (x, n) if isinstance(x, Record) and n in (2, 3) else None
        return record
    import awkward as ak

    array = _lists(x, "combinations") if not getattr(x, "fields", None) else x
    sizes, counts = np.unique(_lengths(array), return_counts=True)
    _check_number(sum(math.comb(int(size), n) * int(count) for size, count in zip(sizes, counts, strict=True)))
    return ak.combinations(array, n, axis=1)


def _cartesian(*values: Foreign) -> Foreign:
    if any(map(is_symbolic, values)):
        if not all(map(is_symbolic, values)):
            raise NotNativeError("a Cartesian product needs lists")
        of: list[Symbol] = [value.first() if isinstance(value, Record) else value for value in values]

        def member(k: int) -> Callable[[], Symbol | Record]:
            return lambda: items_at(values[k], of[0].apply("cartesian", *of[1:], value=k))

        return Record({str(k): member(k) for k in range(len(values))})
    import awkward as ak

    product: Any = 1.0
    for value in values:
        product = product * _lengths(value).astype(np.float64)
    _check_number(float(np.sum(product)))
    return ak.cartesian(values, axis=1)


def _nested(first: Foreign, second: Foreign) -> Foreign:
    if is_symbolic(first) or is_symbolic(second):
        if not (is_symbolic(first) and is_symbolic(second)):
            raise NotNativeError("pairs need lists")
        of: list[Symbol] = [value.first() if isinstance(value, Record) else value for value in (first, second)]

        def member(k: int) -> Callable[[], Symbol | Record]:
            return lambda: items_at((first, second)[k], of[0].apply("nested", of[1], value=k))

        return Record({str(k): member(k) for k in range(2)})
    import awkward as ak

    counts: list[Any] = [_lengths(value).astype(np.float64) for value in (first, second)]
    _check_number(float(np.sum(counts[0] * counts[1])))
    return ak.cartesian([first, second], axis=1, nested=True)


def _local_index(x: Foreign) -> Foreign:
    if is_symbolic(x):
        return (x.first() if isinstance(x, Record) else x).apply("local_index")
    import awkward as ak

    return ak.local_index(x, axis=1)


def _concatenate(*values: Foreign) -> Foreign:
    if not values:
        raise ValueError("at least one list is needed")
    if any(map(is_symbolic, values)):
        if all(isinstance(value, Record) for value in values):
            names: list[str] = values[0].fields
            if any(sorted(value.fields) != sorted(names) for value in values):
                raise NotNativeError("the records differ in their fields")
            return Record(
                {name: (lambda name=name: _concatenate(*(value[name] for value in values))) for name in names}
            )
        if not all(isinstance(value, Symbol) for value in values):
            raise NotNativeError("only lists can be joined with lists")
        return values[0].apply("concatenate", *values[1:])
    import awkward as ak

    return ak.concatenate([_lists(value, "concatenate") for value in values], axis=1, mergebool=True)


def _whole_numbers(x: Foreign) -> Foreign:
    """Return whole numbers as 64 bits.

    Raises
    ------
    ValueError
        They are not whole numbers.
    """
    import awkward as ak

    if isinstance(x, (bool, int, np.integer)):
        return np.uint64(int(x) & 0xFFFF_FFFF_FFFF_FFFF)
    kind: Any = getattr(ak.to_numpy(ak.ravel(x)), "dtype", np.dtype(object)).kind
    if kind not in "biu":
        raise ValueError("random numbers are made from whole numbers, such as the number of an event and a seed")
    return ak.values_astype(x, np.uint64) if isinstance(x, ak.Array) else np.asarray(x).astype(np.uint64)


def _random(*numbers: Foreign) -> Foreign:
    if not numbers or is_plain(numbers[0]):
        raise ValueError("random numbers need a column first, such as the number of the event")
    if any(map(is_symbolic, numbers)):
        first = numbers[0]
        if not isinstance(first, Symbol):
            raise NotNativeError("random numbers are made from whole numbers")
        found = first.recorder.node("scramble", (0, first))
        for number in numbers[1:]:
            found = found.apply("scramble", number)
        return found.apply("uniform")
    state: Any = np.uint64(0)
    for number in numbers:
        state = _scrambled(state, _whole_numbers(number))
    return (state >> np.uint64(11)) / float(1 << 53)


def _scrambled(state: Foreign, value: Foreign) -> Foreign:
    """Return bits that depend on all bits of both: the step of the generator SplitMix64."""
    with np.errstate(over="ignore"):
        z: Any = (state ^ value) + np.uint64(0x9E37_79B9_7F4A_7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        return z ^ (z >> np.uint64(31))


# Four-vectors


def _vector(pt: Foreign, eta: Foreign, phi: Foreign, mass: Foreign, charge: Foreign = None) -> Foreign:
    given = {"pt": pt, "eta": eta, "phi": phi, "mass": mass}
    if charge is not None:
        given["charge"] = charge
    if any(map(is_symbolic, given.values())):
        return Record({name: (lambda value=value: value) for name, value in given.items()})
    import awkward as ak

    return ak.zip(given, right_broadcast=True)


def double(x: Foreign) -> Foreign:
    """Return numbers in double precision."""
    if isinstance(x, Symbol):
        return x.apply("double")
    if is_plain(x):
        return float(x)
    if isinstance(x, np.ndarray):
        return x.astype(np.float64)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    import awkward as ak

    return ak.values_astype(x, np.float64)


def _components(v: Foreign) -> tuple[Any, Any, Any, Any]:
    """Return x, y, z and energy of a four-vector, or of the sum of those in a combination."""
    fields: list[str] = list(getattr(v, "fields", ()))
    if isinstance(v, Record) and v.combined is not None:
        parent, n = v.combined
        x, y, z, energy = (part.apply("combination_sums", value=n) for part in _components(parent))
        return x, y, z, energy
    if fields and all(name.isdigit() for name in fields):
        return _total([v[name] for name in fields])
    lacking = [name for name in ("pt", "eta", "phi", "mass") if name not in fields]
    if lacking:
        raise ValueError(f"a four-vector has the fields pt, eta, phi and mass; there is no {lacking[0]}")
    if isinstance(v, Record):
        if v.cartesian is None:
            if v.taken is not None:
                parent, places = v.taken
                v.cartesian = tuple(items_at(part, places) for part in _components(parent))
            else:
                v.cartesian = _computed(v)
        return v.cartesian
    return _computed(v)


def _computed(v: Foreign) -> tuple[Any, Any, Any, Any]:
    given = [v[name] for name in ("pt", "eta", "phi", "mass")]
    if all(isinstance(part, Symbol) for part in given):
        pt, eta, phi, mass = given
        x, y, z = (pt.apply("component", angle, value=name) for name, angle in zip("xyz", (phi, phi, eta), strict=True))
        return x, y, z, mass.apply("energy", x, y, z)
    pt, eta, phi, mass = aligned([double(part) for part in given])
    x, y, z = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return x, y, z, np.sqrt(np.maximum(mass * np.absolute(mass) + (x * x + y * y + z * z), 0.0))


def _total(vectors: Foreign) -> tuple[Any, Any, Any, Any]:
    x, y, z, energy = _components(vectors[0])
    for vector in vectors[1:]:
        sums = [(x, y, z, energy), _components(vector)]
        x, y, z, energy = (operator.add(*aligned(parts)) for parts in zip(*sums, strict=True))
    return x, y, z, energy


def _of_sum(work: Callable[[Any, Any, Any, Any], Any], name: str = "", parts: int = 0) -> Callable[..., Any]:
    """Return a function of the sum of vectors; of combinations, the engine computes `name` of the first `parts`."""

    def function(*vectors: Foreign) -> Foreign:
        if not vectors:
            raise ValueError("at least one four-vector is needed")
        if name and len(vectors) == 1 and isinstance(vectors[0], Record) and vectors[0].combined is not None:
            parent, n = vectors[0].combined
            first, *others = _components(parent)[:parts]
            return first.apply("combination_vectors", *others, value=(n, name))
        return work(*_total(vectors))

    return function


def _mass(x: Foreign, y: Foreign, z: Foreign, energy: Foreign) -> Foreign:
    square = energy * energy - (x * x + y * y + z * z)
    return np.copysign(np.sqrt(np.absolute(square)), square)


def _delta_phi(a: Foreign, b: Foreign) -> Foreign:
    return (_difference(a, b, "phi") + math.pi) % (2 * math.pi) - math.pi


def _difference(a: Foreign, b: Foreign, name: str) -> Foreign:
    """Return the difference of a property of two vectors."""
    first, second = aligned([double(a[name]), double(b[name])])
    return first - second


def _nested_pair(a: Foreign, b: Foreign) -> tuple[Record, Record] | None:
    """Return the records of which these are the two members of nested pairs, if they are."""
    if not (isinstance(a, Record) and isinstance(b, Record) and a.taken and b.taken):
        return None
    (first, one), (second, other) = a.taken, b.taken
    made = [symbol.recorder.nodes[symbol.number] for symbol in (one, other)]
    if [(name, value) for name, _, value in made] != [("nested", 0), ("nested", 1)] or made[0][1] != made[1][1]:
        return None
    return first, second


def _delta_r(a: Foreign, b: Foreign) -> Foreign:
    pair = _nested_pair(a, b)
    if pair is not None:
        eta, *others = (double(record[name]) for record in pair for name in ("eta", "phi"))
        return eta.apply("nested_distances", *others)
    eta, phi = _difference(a, b, "eta"), _delta_phi(a, b)
    return np.sqrt(eta * eta + phi * phi)


LIST_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in ("sum", "any", "all", "min", "max", "argmin", "argmax", "mean")},
    "count": _count,
    "first": _first,
    "argsort": _argsort,
    "sort": _sort,
    "at": _at,
    "fill_none": _fill_none,
    "combinations": _combinations,
    "cartesian": _cartesian,
    "nested": _nested,
    "random": _random,
    "local_index": _local_index,
    "concatenate": _concatenate,
    "vector": _vector,
    "mass": _of_sum(_mass, "mass", 4),
    "pt": _of_sum(lambda x, y, z, energy: np.sqrt(x * x + y * y), "pt", 2),
    "eta": _of_sum(lambda x, y, z, energy: np.arcsinh(z / np.sqrt(x * x + y * y))),
    "phi": _of_sum(lambda x, y, z, energy: np.arctan2(y, x)),
    "energy": _of_sum(lambda x, y, z, energy: energy),
    "deltaphi": _delta_phi,
    "deltaR": _delta_r,
}
"""The functions, by name."""
ITEMWISE = (_random, _vector)
"""Those whose arguments are aligned by entry as the operands of an operator are."""
