"""Compression settings: a codec and a level, as ROOT keeps them in one number, ``algorithm * 100 + level``."""

from __future__ import annotations

from typing import ClassVar

from sapwood.errors import ArgumentError


class Compression:
    """A codec with its level; `ZLIB`, `LZMA`, `LZ4` and `ZSTD` are the codecs.

    Parameters
    ----------
    level
        0 (stored as it is) to 9; higher is smaller and slower.
    """

    algorithm: ClassVar[int] = 0
    """The number that ROOT gives the codec (`ROOT::RCompressionSetting::EAlgorithm`)."""

    def __init__(self, level: int) -> None:
        if not 0 <= level <= 99:
            raise ArgumentError(f"a compression level is a number from 0 to 99, not {level!r}")
        self.level: int = level

    @property
    def code(self) -> int:
        """The number that ROOT stores (`fCompress`)."""
        return self.algorithm * 100 + self.level

    @staticmethod
    def from_code(code: int) -> Compression | None:
        """Return the setting of a stored number, None where it means "not compressed".

        Codec 0 (numbers below 100, as ROOT 5 wrote them) and codec 3 (`kOldCompressionAlgo`) are zlib.

        Raises
        ------
        ArgumentError
            No codec has that number.
        """
        algorithm, level = divmod(code, 100)
        if level == 0:
            return None
        codec = {0: ZLIB, 1: ZLIB, 2: LZMA, 3: ZLIB, 4: LZ4, 5: ZSTD}.get(algorithm)
        if codec is None:
            raise ArgumentError(f"no codec has the number {algorithm} (compression setting {code})")
        return codec(level)

    @staticmethod
    def from_code_pair(algorithm: int, level: int) -> Compression | None:
        """Return the setting of ROOT's number of a codec and a level: as `from_code`."""
        return Compression.from_code(algorithm * 100 + level)

    def __repr__(self) -> str:
        """Write it as code."""
        return f"{type(self).__name__}({self.level})"

    def __eq__(self, other: object) -> bool:
        """Compare codec and level."""
        return type(self) is type(other) and isinstance(other, Compression) and self.level == other.level

    def __hash__(self) -> int:
        """Agree with `__eq__`."""
        return hash(self.code)


class ZLIB(Compression):
    """zlib (deflate)."""

    algorithm = 1


class LZMA(Compression):
    """LZMA (xz)."""

    algorithm = 2


class LZ4(Compression):
    """LZ4."""

    algorithm = 4


class ZSTD(Compression):
    """Zstandard."""

    algorithm = 5


def code_of(compression: Compression | None) -> int:
    """Return ROOT's number of a setting; None means no compression.

    Raises
    ------
    TypeError
        It is not a compression.
    """
    if compression is None:
        return 0
    if not isinstance(compression, Compression):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"compression is None or a codec with its level, like sapwood.ZSTD(5), not {compression!r}")
    return compression.code


_CODECS = {codec.__name__.lower(): codec for codec in (ZSTD, LZ4, ZLIB, LZMA)}


def codec_text(compression: Compression | None) -> str:
    """Write a codec and its level: ``zstd:5``, ``none``."""
    return "none" if compression is None else f"{type(compression).__name__.lower()}:{compression.level}"


def parse_codec(text: str) -> Compression | None:
    """Read ``zstd:5``, ``lz4`` (level 4), ``none``.

    Raises
    ------
    ArgumentError
        It is not a codec with a level.
    """
    name, _, level = text.lower().partition(":")
    if name == "none":
        return None
    if name not in _CODECS or not (level or "4").isdigit() or int(level or "4") > 9:
        raise ArgumentError(f"a codec is none, {', '.join(_CODECS)}, with a level such as zstd:5, not {text!r}")
    return _CODECS[name](int(level)) if level else _CODECS[name](5 if name == "zstd" else 4)
