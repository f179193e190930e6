"""Compression settings: a codec and a level, as ROOT keeps them in one number, ``algorithm * 100 + level``.

`compress` and `decompress` do what ROOT does with bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sapwood.errors import ArgumentError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


class Compression:
    """A codec with its level; `ZLIB`, `LZMA`, `LZ4` and `ZSTD` are the codecs.

    Parameters
    ----------
    level
        0 (stored as it is) to 9; higher is smaller and slower.
    """

    algorithm: ClassVar[int] = 0
    """ROOT's number of the codec (`ROOT::RCompressionSetting::EAlgorithm`)."""

    def __init__(self, level: int) -> None:
        if not 0 <= level <= 99:
            raise ArgumentError(f"a compression level is a number from 0 to 99, not {level!r}")
        self.level: int = level

    @property
    def code(self) -> int:
        """The number that ROOT stores (`fCompress`)."""
        return self.algorithm * 100 + self.level

    @property
    def code_pair(self) -> tuple[int, int]:
        """ROOT's number of the codec, and the level."""
        return self.algorithm, self.level

    @property
    def name(self) -> str:
        """The name of the codec."""
        return type(self).__name__

    @staticmethod
    def from_code(code: int) -> Compression | None:
        """Return the setting of a stored number; None if it means "not compressed".

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


def compress(data: Foreign, compression: Compression | None) -> Foreign:
    """Compress bytes into ROOT's blocks.

    Parameters
    ----------
    data
        Bytes, or any other contiguous buffer.
    compression
        Codec and level.

    Returns
    -------
    bytes
        The blocks, each with its header. `data` itself if the blocks would not be smaller, if the level is 0, or
        without a codec: then ROOT stores the bytes uncompressed.
    """
    from sapwood import _native

    packed = None if compression is None else _native.compress(_bytes_of(data), code_of(compression))
    return data if packed is None else packed.tobytes()


def decompress(
    chunk: Foreign,
    cursor: Foreign,
    context: object,
    compressed_bytes: int,
    uncompressed_bytes: int,
    block_info: list[tuple[str, int, int]] | None = None,
) -> Foreign:
    """Decompress ROOT's blocks.

    Parameters
    ----------
    chunk
        A `sapwood.source.chunk.Chunk` that contains the blocks.
    cursor
        A `sapwood.Cursor` at the first block; it is moved to the end of the last one.
    context
        Has no effect.
    compressed_bytes, uncompressed_bytes
        Total size of the blocks with their headers, and of their uncompressed content.
    block_info
        A list that gets codec, compressed and uncompressed size of each block, as its header states them.

    Returns
    -------
    Chunk
        The bytes.

    Raises
    ------
    CorruptError
        The blocks are damaged, or hold another number of bytes.
    """
    import numpy as np

    from sapwood import _native

    packed = np.ascontiguousarray(cursor.bytes(chunk, compressed_bytes, context))
    found = _native.decompress(packed, uncompressed_bytes)
    at = 0
    while block_info is not None and at < len(packed):
        head = packed[at : at + _HEADER].tobytes()
        stored, size = int.from_bytes(head[3:6], "little"), int.from_bytes(head[6:9], "little")
        at += _HEADER + stored
        codec = _LETTERS[head[:2]]
        block_info.append((codec, stored - 8 * (codec == "LZ4"), size))  # the checksum of LZ4 is not counted
    return type(chunk).wrap(chunk.source, found)


def _bytes_of(data: Foreign) -> Foreign:
    """Return a buffer as a one-dimensional array of bytes."""
    import numpy as np

    return np.frombuffer(memoryview(data).cast("B"), np.uint8)


# Before each block: two letters, a version, compressed and uncompressed size in three bytes each, little-endian.
_HEADER = 9
_LETTERS = {b"ZL": "ZLIB", b"CS": "ZLIB", b"XZ": "LZMA", b"L4": "LZ4", b"ZS": "ZSTD"}


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
        raise ArgumentError(f"a codec must be none, {', '.join(_CODECS)}, with a level such as zstd:5, not {text!r}")
    return _CODECS[name](int(level)) if level else _CODECS[name](5 if name == "zstd" else 4)
