"""The exceptions of sapwood. Every message names the place: file, object path, byte offset."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.show.safe import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Self


# Secrets of a URL: the value after a name of this kind, or a password. The `&` may be that of an HTML page.
# Patterns of modules that `import sapwood` loads are text: compiling them would be a good part of that time.
_SECRET = (
    r"(?i)([?&;#](?:amp;)?(?:authz|auth|authorization|sig|cap\.(?:sym|msg)|x-(?:amz|goog)-[a-z-]+"
    r"|[\w.-]*(?:token|signature|secret|password|passwd|pwd|credential|jwt|(?:api|access|secret|private)[_-]?key))=)"
    r"(?:bearer(?:%20|[ +]))?[^\s&\"'<>]*?(?=[:,;.)\]}]*(?:[\s&\"'<>]|$))"
)
# The user and the password before the server; quotes in an HTML page are entities. URLs that were treated as local
# paths have one slash. A password may have a slash that should have been encoded, unless a port number is before it.
_USER = (
    r"(?:(?<=\w://)|(?<=\w:/)(?!/))"
    r"((?:[^\s/?#\"<>]|&#x27;|&quot;)+|[^\s/?#\"<>:@\[\]]+:(?!\d*(?:[/?#\s]|$))[^\s?#\"<>]+)@"
)
# Headers of a request that a server may repeat.
_HEADER = r"\b((?:Bearer|Basic|Negotiate)(?: |%20)+)[\w.~+/=-]{16,}"


HIDDEN = "***"
"""The text that replaces a secret."""


def without_secrets(text: str) -> str:
    """Return a text without the tokens, signatures and passwords in its URLs, to be shown or passed on."""
    if "=" in text:
        text = re.sub(_SECRET, rf"\1{HIDDEN}", text)
    if ":/" in text:
        text = re.sub(_USER, _without_password, text)
    return re.sub(_HEADER, rf"\1{HIDDEN}", text)


def _without_password(match: re.Match[str]) -> str:
    """Return the user of a URL without its password. A name alone is one, or a token, for web servers."""
    user, colon, password = match[1].partition(":")
    web = re.search(r"(?i)(?:http|dav)s?://?$", match.string[: match.start()][-8:])
    if web and not password:
        return f"{HIDDEN}{colon}@"
    return f"{user}:{HIDDEN}@" if colon else match[0]


def secrets_in(text: str) -> dict[str, str]:
    """Return the parts of a text that have secrets, as `without_secrets` finds them, with the parts to show instead."""
    found = {match[0][1:]: f"{match[1][1:]}{HIDDEN}" for match in re.finditer(_SECRET, text)}
    users = {match[0]: _without_password(match) for match in re.finditer(_USER, text)}
    return {**found, **{user: shown for user, shown in users.items() if user != shown}}


class Discreet:
    """A data class whose `repr` has no secrets of URLs."""

    def __repr__(self) -> str:
        """Return the class and its fields."""
        from dataclasses import fields

        shown: Any = fields(self)  # pyright: ignore[reportArgumentType]
        text = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in shown if one.repr)
        return without_secrets(f"{type(self).__qualname__}({text})")


def hidden(value: Any) -> Any:
    """Return a structure of dictionaries and lists without the secrets of URLs in its texts."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        pairs: Any = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return {hidden(key): hidden(item) for key, item in pairs}
    if isinstance(value, (list, tuple)):
        items: Any = value
        return [hidden(item) for item in items] if isinstance(value, list) else tuple(hidden(item) for item in items)
    return value


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line; the name of its class if it has none."""
    return " ".join(_text(error).split()) or type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; without a text, its class."""
    return _text(error).partition("\n")[0] or type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - classes of other packages make their own texts
        return ""


def is_failure(error: BaseException) -> bool:
    """Return whether an exception of another package is an error, unlike an interrupt: also a cancelled request."""
    return isinstance(error, Exception) or type(error).__name__ == "CancelledError"


def _shown(message: Iterable[object]) -> Iterable[object]:
    return (safe_text(without_secrets(one)) if isinstance(one, str) else one for one in message)


class SapwoodError(Exception):
    """Base class of all errors that sapwood raises."""

    def __init__(self, *message: object) -> None:
        super().__init__(*_shown(message))


class CorruptError(SapwoodError, ValueError):
    """The bytes of a file contradict the format."""


class CutOffError(CorruptError, OSError):
    """The file is empty, or ends before its header or its list of keys."""


class UnsupportedError(SapwoodError, NotImplementedError):
    """The bytes may be right, but this version cannot read or write them; the message says what and why."""

    column: int | None = None
    """Index of the failing column among those read together."""


class UnsupportedTypeError(UnsupportedError, TypeError):
    """No branch or field holds values of this type: dates, complex numbers, ..."""


class LimitError(SapwoodError):
    """A stated limit on memory, depth or size would be exceeded."""


class ArgumentError(SapwoodError, ValueError):
    """The caller's arguments do not fit together."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a type that is not accepted."""


def check_kind(name: str, value: object, kind: type | tuple[type, ...], words: str) -> None:
    """Refuse an argument that is not of a type in `kind`, which `words` describe.

    Raises
    ------
    ArgumentTypeError
        The argument has another type.
    """
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"{name} is {words}, not {value!r}")


def check_text(name: str, text: object) -> None:
    """Refuse an argument that is not a string, or that has lone surrogates.

    Raises
    ------
    ArgumentError
        It is no valid text.
    """
    check_kind(name, text, str, "a string")
    encoded(str(text), name)


def encoded(text: str, name: str) -> bytes:
    """Return a text as UTF-8.

    Raises
    ------
    ArgumentError
        It has lone surrogates.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{name}: {text!r} is not valid Unicode: {error.reason}") from None


class MissingPackageError(ArgumentError, ModuleNotFoundError):
    """The request needs a Python package that is not installed; the message says how to install it."""


class ExpressionError(ArgumentError, SyntaxError):
    """The text of an expression cannot be parsed."""

    def __str__(self) -> str:
        """Return the message as it is (SyntaxError would leave it out)."""
        return str(self.args[0]) if self.args else ""


class NotFoundError(SapwoodError, KeyError):
    """No key, tree or branch has that name."""

    key: str | None = None
    """The missing name, if it was looked up in a directory or tree."""
    because: str = ""
    """The reason why it is missing."""
    keys: Sequence[str] | None = None
    """The names that exist."""
    file_path: str | None = None
    object_path: str | None = None

    def __str__(self) -> str:
        """Return the message as it is (KeyError would quote it)."""
        return str(self.args[0]) if self.args else ""


class NoMatchError(NotFoundError, ValueError):
    """No object passes the filters."""


class _Incident(NamedTuple):
    """A failed or incomplete request to storage."""

    time: int
    """Time of the request, in nanoseconds since 1970."""
    offset: int
    """Offset of the first requested byte."""
    length: int
    """Number of requested bytes."""
    attempt: int
    """Number of the attempt, from 1."""
    again: bool
    """Whether it was sent again."""
    reason: str
    """Description of the problem."""


class Incident(_Incident):
    """A failed or incomplete request to storage; secrets of URLs are removed from its `reason`."""

    __slots__ = ()

    def __new__(cls, time: int, offset: int, length: int, attempt: int, again: bool, reason: str) -> Self:
        """Copy a line of the native ledger."""
        return super().__new__(cls, time, offset, length, attempt, again, without_secrets(reason))


class StorageError(SapwoodError, OSError):
    """The storage could not deliver or take the bytes."""

    ledger: Sequence[Incident] = ()
    """The requests for the file that did not go well, as its `ledger()` lists them; of an `open` that failed, too."""


class ChangedFileError(StorageError):
    """The file was written to while it was read. Open it again to read its present content."""


class MissingFileError(StorageError, FileNotFoundError):
    """No file has that name, or none matches the pattern."""


def storage_error(name: str, error: OSError, hint: str = "") -> StorageError:
    """Make the `StorageError` of a file for what the system or its storage says, which may name itself."""
    if isinstance(error, StorageError):
        return error
    kind = MissingFileError if isinstance(error, FileNotFoundError) else StorageError
    named = kind is MissingFileError or str(error).startswith(f"{name}: ")
    failed = kind(str(error) if named else f"{name}: {error}{hint}")
    failed.ledger = getattr(error, "ledger", ())
    # It is shown, too, as the cause.
    error.args = tuple(_shown(error.args))
    return failed


class SapwoodWarning(UserWarning):
    """Something was left out or done differently from the request; the message says what, and how often."""

    def __init__(self, *message: object) -> None:
        super().__init__(*_shown(message))


def warn_of_lost_keys(found: int, directory: str, file: str) -> None:
    """Warn that the list of keys of a directory was lost, and how many were found by going through the records."""
    import warnings

    warnings.warn(
        f"the list of keys of {directory} was lost (the file was not closed, or cut off): "
        f"{found} keys were found by going through its records\nin file {file}",
        SapwoodWarning,
        stacklevel=stacklevel(),
    )


def warn_of_executors(*executors: object) -> None:
    """Warn that executors are not used. uproot's `TrivialExecutor`, which has no threads, is accepted silently."""
    for executor in executors:
        if executor is not None and all(base.__name__ != "TrivialExecutor" for base in type(executor).__mro__):
            import warnings

            warnings.warn(
                f"the {type(executor).__name__} is not used: sapwood decompresses and decodes on its own threads; "
                "sapwood.set_num_threads sets their number",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )


def stacklevel() -> int:
    """Find how far up the stack the caller of sapwood is, so that a warning points at his line."""
    import sys

    depth, frame = 0, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sapwood":
        depth, frame = depth + 1, frame.f_back
    return depth + 1


def similar(name: str, names: Iterable[str], count: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the names that are most like one that is missing, in any case, to suggest them: `count` at most."""
    from difflib import get_close_matches

    known: dict[str, list[str]] = {}
    for one in names:
        known.setdefault(one.lower(), []).append(one)
    found = get_close_matches(name.lower(), known, count, cutoff)
    return [one for lower in found for one in known[lower]][:count]


_FEW = 10
"""Maximum number of names that an error lists if none is similar."""


def near_it(name: str, names: Iterable[str], listing: str = "") -> str:
    """Return the hint of an error about a missing name: similar names, or all if they are few, and how to list all.

    Parameters
    ----------
    name
        The missing name.
    names
        The names that exist.
    listing
        The call that lists them, such as ``keys()``.
    """
    known = list(dict.fromkeys(names))
    near = similar(name, known)
    if near:
        found = f"; near it: {', '.join(near)}"
    elif len(known) <= _FEW:
        return f"; there {'is' if len(known) == 1 else 'are'}: {', '.join(known) or 'none'}"
    else:
        found = ""
    return f"{found}; {listing} lists all" if listing and len(known) > len(near) else found


def suggestion(name: str, names: Iterable[str], count: int = 3) -> str:
    """Return ``" (there is a, b)"`` with the names that are most like one that is missing; nothing without any."""
    near = similar(name, names, count)
    return f" (there is {', '.join(near)})" if near else ""


def no_form(reason: str) -> UnsupportedError:
    """Make the error for a type without an Awkward form; it is also uproot's `CannotBeAwkward` if that is imported."""
    theirs = getattr(sys.modules.get("uproot.interpretation.objects"), "CannotBeAwkward", None)
    kind = UnsupportedError if theirs is None else type("UnsupportedError", (UnsupportedError, theirs), {})
    return kind(reason)
