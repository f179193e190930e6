"""Signatures of functions that pass keywords on, and of functions with other names for their keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def passes_on(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Show the keywords of other functions, which take the ``**`` of this one, in its signature."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        parameters = {p.name: p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD}
        for other in others:
            for parameter in inspect.signature(other).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    parameters.setdefault(parameter.name, parameter)
        vars(function)["__signature__"] = own.replace(parameters=list(parameters.values()))
        return function

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
