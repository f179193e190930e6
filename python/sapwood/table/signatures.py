"""Signatures of functions that pass keywords on, and of functions with other names for their keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from sapwood.errors import ArgumentTypeError, similar

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_SAME = (
    frozenset(["cut", "where", "filter", "selection", "condition", "predicate", "mask", "query"]),
    frozenset(["expressions", "columns", "branches", "fields", "names", "variables", "exprs"]),
    frozenset(["entry_start", "start", "first", "begin", "entrystart"]),
    frozenset(["entry_stop", "entries", "stop", "last", "end", "max_entries", "num_entries", "entrystop"]),
    frozenset(["step_size", "steps", "chunk_size", "chunksize", "entrysteps"]),
    frozenset(["library", "backend", "outputtype"]),
    frozenset(["aliases", "define", "defines"]),
    frozenset(["filter_name", "filter_field", "filter_branch"]),
    frozenset(["num_rows", "limit", "n"]),
    frozenset(["threads", "workers", "jobs", "cores", "n_jobs", "num_threads", "num_workers", "max_workers"]),
    frozenset(["executor", "client", "cluster", "scheduler"]),
    frozenset(["tree", "treename", "tree_name", "treepath"]),
)
"""Names that different functions and packages give to arguments with the same meaning."""


def unknown_keyword(called: str, name: str, parameters: Iterable[str], hint: str = "") -> ArgumentTypeError:
    """Return the error for a keyword that a function does not have, with the one that is meant if there is one."""
    meant = meant_by(name, parameters)
    hint = f"; did you mean {meant!r}?" if meant else hint
    return ArgumentTypeError(f"{called}() has no argument {name!r}{hint}")


def meant_by(name: str, parameters: Iterable[str], cutoff: float = 0.8) -> str:
    """Return the parameter that an unknown keyword means; an empty string if there is none."""
    known = [one for one in parameters if one != "self"]
    same = [one for names in _SAME if name in names for one in known if one in names]
    return next(iter(same or similar(name, known, 1, cutoff)), "")


def check_keywords(
    called: str, given: Mapping[str, object], known: Iterable[str], hints: Mapping[str, str] | None = None
) -> None:
    """Refuse keywords that a function does not have; `hints` says where some of them belong.

    Raises
    ------
    ArgumentTypeError
        One of them is none of its parameters. The message has the name of the function and the right keyword.
    """
    parameters = list(known)
    for name in given:
        if name not in parameters:
            raise unknown_keyword(called, name, parameters, (hints or {}).get(name, ""))


def names_keywords(called: str, hints: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Let a function refuse keywords that it does not have, under a name, as `check_keywords` does."""

    def decorate(function: F) -> F:
        known = list(inspect.signature(function).parameters)

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            check_keywords(called, keywords, known, hints)
            return function(*arguments, **keywords)

        return call  # pyright: ignore[reportReturnType]

    return decorate


def passes_on(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Show the keywords of other functions, which take the ``**`` of this method, in its signature.

    The method refuses all others under its own name.
    """

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        parameters = {p.name: p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD}
        for other in others:
            for parameter in inspect.signature(other).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    parameters.setdefault(parameter.name, parameter)
        known = parameters.keys() - {"self"}

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if not keywords.keys() <= known:
                check_keywords(f"{type(arguments[0]).__name__}.{function.__name__}", keywords, parameters)
            return function(*arguments, **keywords)

        vars(call)["__signature__"] = own.replace(parameters=list(parameters.values()))
        return call  # pyright: ignore[reportReturnType]

    return decorate


def in_words(function: Callable[..., R], **words: str) -> Callable[..., R]:
    """Return a function that calls some keywords by other names: ``in_words(f, filter_field="filter_branch")``."""
    back = {theirs: ours for ours, theirs in words.items()}

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> R:
        return function(*arguments, **{back.get(name, name): value for name, value in keywords.items()})

    own = inspect.signature(function)
    vars(call)["__signature__"] = own.replace(
        parameters=[p.replace(name=words[p.name]) if p.name in words else p for p in own.parameters.values()]
    )
    for ours, theirs in words.items():
        call.__doc__ = (call.__doc__ or "").replace(ours, theirs)
    return call
