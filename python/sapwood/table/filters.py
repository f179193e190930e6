"""Filters: which names, types or objects are wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from sapwood.errors import ArgumentError

NameFilter = str | Callable[[str], Any] | Iterable["str | Callable[[str], Any]"] | None
"""None (everything), a name, a glob pattern, a regular expression ``"/pattern/flags"``, a function of the name, or
several of these, of which one must match."""

_REGEX = r"(?s)/(.*)/([iLmsux]*)"
_GLOB = r"[*?\[]"
_DEEPEST = 20
"""Maximum levels of lists in lists. A list may contain itself."""


class Filter:
    """A test of strings, made of one of the forms of `NameFilter`.

    Raises
    ------
    TypeError
        The filter has none of these forms.
    """

    __slots__ = ("_tests", "everything", "names")

    def __init__(self, wanted: NameFilter) -> None:
        """Understand a filter; a `Filter` is taken as it is."""
        self._tests: list[Callable[[str], Any]] = []
        self.names: set[str] = set()
        """The names that are wanted as such, with no pattern."""
        self.everything: bool = wanted is None or wanted is no_filter
        """Whether every string passes."""
        if not self.everything:
            self._add(wanted)

    def _add(self, wanted: object, depth: int = 0) -> None:
        if isinstance(wanted, Filter):
            self.everything |= wanted.everything
            self.names |= wanted.names
            self._tests += wanted._tests
        elif isinstance(wanted, str):
            regex = re.fullmatch(_REGEX, wanted)
            if regex is not None:
                flags = re.RegexFlag(0)
                for flag in regex[2]:
                    flags |= getattr(re, flag.upper())
                try:
                    self._tests.append(re.compile(regex[1], flags).match)
                except re.error as error:
                    raise ArgumentError(f"{regex[1]!r} is not a regular expression: {error}") from None
            elif re.search(_GLOB, wanted):
                self._tests.append(lambda name: fnmatchcase(name, wanted))
            else:
                self.names.add(wanted)
        elif callable(wanted):
            self._tests.append(wanted)
        elif wanted is None:
            self.everything = True
        elif isinstance(wanted, Iterable) and not isinstance(wanted, (bytes, bytearray)):
            if depth >= _DEEPEST:
                raise ArgumentError(f"lists of filters are nested more than {_DEEPEST} levels deep")
            for one in wanted:
                self._add(one, depth + 1)
        else:
            raise TypeError(
                "a filter is None, a name, a glob pattern, a regular expression between slashes, a function, "
                f"or several of these, not {wanted!r}"
            )

    def __call__(self, name: str) -> bool:
        """Return whether this string passes."""
        return self.everything or name in self.names or any(test(name) for test in self._tests)


def no_filter(_: object) -> bool:
    """Let everything pass: the default of every ``filter_...`` argument."""
    return True


Rename = (
    str | Callable[[str], str] | Mapping[str, str] | Iterable["str | Callable[[str], str] | Mapping[str, str]"] | None
)
"""None (names stay), a regular expression with a replacement (``"/from/to/flags"``), a function of the name, a mapping
of old to new names, or several of these, applied in turn."""

_REPLACED = r"(?s)/(.*)/(.*)/([iLmsux]*)"


def renaming(wanted: Rename) -> Callable[[str], str]:
    """Return the function that turns old names into new ones.

    Raises
    ------
    ArgumentError
        A regular expression is not one.
    TypeError
        It has none of the forms of `Rename`.
    """
    if wanted is None:
        return str
    if isinstance(wanted, str):
        found = re.fullmatch(_REPLACED, wanted)
        if found is None:
            raise ArgumentError(f"renaming by a string needs the form '/from/to/', not {wanted!r}")
        flags = re.RegexFlag(0)
        for flag in found[3]:
            flags |= getattr(re, flag.upper())
        try:
            pattern = re.compile(found[1], flags)
        except re.error as error:
            raise ArgumentError(f"{found[1]!r} is not a regular expression: {error}") from None
        replacement = found[2]
        return lambda name: pattern.sub(replacement, name)
    if isinstance(wanted, Mapping):
        names = wanted
        return lambda name: names.get(name, name)
    if callable(wanted):
        return wanted
    if not isinstance(wanted, Iterable) or isinstance(wanted, (bytes, bytearray)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"names are changed by a function, a dict, '/from/to/' or a list of these, not {wanted!r}")
    steps = [renaming(one) for one in wanted]

    def in_turn(name: str) -> str:
        for step in steps:
            name = step(name)
        return name

    return in_turn


def same_filter(one: Any, other: Any) -> Any:
    """Return the filter that was given by one of its two names.

    Raises
    ------
    ArgumentError
        Both are given.
    """
    if other is no_filter:
        return one
    if one is not no_filter:
        raise ArgumentError("filter_branch is another name for filter_field, which is also given")
    return other
