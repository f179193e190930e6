"""Reading of fields for which an interpretation is registered, together with others."""

from __future__ import annotations

from typing import Any, NamedTuple

from sapwood.columns import Foreign
from sapwood.errors import UnsupportedError
from sapwood.table.filters import Filter, no_filter
from sapwood.table.query import Expressions, Wanted, names_in
from sapwood.table.results import ResultForm
from sapwood.table.schema import Field, is_registered


class Registered(NamedTuple):
    """The requested fields of a table, of which some have a registered interpretation."""

    source: Foreign
    """The `Readable` that has the fields."""
    own: dict[str, Any]
    """The fields with a registered interpretation, by name."""
    rest: Expressions
    """The other expressions; None for all fields that the filters of `wanted` let pass."""
    wanted: Wanted
    order: list[str]
    """The names of all results."""

    @classmethod
    def among(cls, source: Foreign, expressions: Expressions, wanted: Wanted) -> Registered:
        """Find the fields with a registered interpretation among those that a call of `arrays` requests.

        An interpretation that is given with a name comes before the registered one.
        """
        if expressions is not None:
            pairs = names_in(expressions)
            given = {name: source[name] for name, kind in pairs if kind is None and name in source}
            own = {name: field for name, field in given.items() if is_registered(field)}
            rest: Any = [pair for pair in pairs if pair[0] not in own]
            return cls(source, own, rest, wanted, [name for name, _ in pairs])
        keep = wanted.get("filter_field") or no_filter
        names, typenames = Filter(wanted.get("filter_name")), Filter(wanted.get("filter_typename"))
        chosen: dict[str, Field] = dict(source.chosen(names, typenames, keep))
        own = {name: field for name, field in chosen.items() if is_registered(field)}
        left_out = set(own.values())
        others: Wanted = {**wanted, "filter_field": lambda field: field not in left_out and keep(field)}
        return cls(source, own, None, others, list(chosen))

    def arrays(self, start: int, stop: int, form: ResultForm, array_cache: object) -> Foreign:
        """Read a range of entries: `arrays` of the others, and `array` of each with a registered interpretation.

        Raises
        ------
        UnsupportedError
            The library, or the way of putting arrays together, is not for such fields.
        """
        library, how = form.library, form.how
        if library.name not in ("np", "ak", "pd") or isinstance(how, str):
            path = next(iter(self.own.values())).object_path
            raise UnsupportedError(f"{path} has a registered interpretation: read it with array()")
        common: dict[str, Any] = {
            "entry_start": start, "entry_stop": stop, "library": library, "array_cache": array_cache,
        }  # fmt: skip
        found: dict[str, Foreign] = {}
        if self.rest is None or self.rest:
            found = self.source.arrays(self.rest, how=dict, ak_add_doc=form.add_doc, **common, **self.wanted)
        found |= {name: field.array(**common) for name, field in self.own.items()}
        if how in (tuple, list):
            return how(found[name] for name in self.order if name in found)
        found = {name: found[name] for name in self.order if name in found} | found
        if how is dict or library.name == "np":
            return found
        if library.name == "pd":
            import pandas as pd

            return pd.DataFrame(found)
        import awkward as ak

        layouts = [ak.to_layout(one) for one in found.values()]
        return ak.Array(ak.contents.RecordArray(layouts, list(found), stop - start))
