"""Makes RZ files with what HBOOK keeps in them, and reads FZ and RZ files, for tests: nothing of sapwood is used.

Words are numbers below 2**32 in lists or arrays; both byte orders, both formats of cycles, any record length.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

SIX = " ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/()$= ,.#'!:\"_]&@?[><\\^;"


def six(text: str, count: int) -> list[int]:
    """Write text in the 6-bit code, four characters a word."""
    words = []
    for at in range(0, 4 * count, 4):
        codes = [45 if c == " " and i == 0 else SIX.index(c) for i, c in enumerate(text.ljust(4 * count)[at : at + 4])]
        words.append(sum(code << 6 * i for i, code in enumerate(codes)))
    return words


class Writer:
    """Words of one byte order (``">"`` or ``"<"``)."""

    def __init__(self, order: str = ">") -> None:
        self.order = order

    def text(self, text: str | bytes, words: int | None = None) -> list[int]:
        raw = text.encode("latin-1") if isinstance(text, str) else text
        count = -(-len(raw) // 4) if words is None else words
        return np.frombuffer(raw.ljust(4 * count), f"{self.order}u4").tolist()

    def float(self, *values: float) -> list[int]:
        return np.asarray(values, np.float32).view(np.uint32).tolist()

    def double(self, *values: float) -> list[int]:
        return np.frombuffer(np.asarray(values, f"{self.order}f8").tobytes(), f"{self.order}u4").tolist()

    def structure(self, banks: Sequence[dict[str, Any]], entry: int) -> list[int]:
        """Write banks as RZOUT does; links, next and up are places in the list, or None."""
        first, at, origins = 5001, 0, []
        for bank in banks:
            bank.setdefault("io", [0x0001_0000])
            origins.append(first + at + len(bank["io"]) + len(bank.get("links", ())))
            at += 9 + len(bank["io"]) + len(bank.get("links", ())) + len(bank["data"])
        address = lambda place: 0 if place is None else origins[place] if place >= 0 else 4  # noqa: E731
        words: list[int] = []
        for bank in banks:
            links = bank.get("links", ())
            extra = len(bank["io"]) - 1
            words += [(bank["io"][0] & 0xFFFF0000) | (12 + extra + len(links)), *bank["io"][1:]]
            words += [address(link) for link in reversed(links)]
            words += [address(bank.get("next")), address(bank.get("up")), 0]
            words += [
                bank.get("id", 0) & 0xFFFFFFFF,
                *self.text(bank["name"], 1),
                len(links),
                bank.get("ns", len(links)),
            ]
            words += [len(bank["data"]), bank.get("status", 0) | extra << 18, *bank["data"]]
        return [2, len(words), origins[entry], first, first + len(words), *words]

    def rz(
        self,
        objects: Sequence[tuple[tuple[int, ...], Any, bool]],
        record: int = 1024,
        *,
        wide: bool = False,
        width: int = 2,
        gap: bool = False,
        scattered: bool = False,
        tags: Sequence[str] = ("HBOOK-ID", "VARIABLE"),
        directories: Sequence[tuple[str, int]] = (),
    ) -> bytes:
        """Write a file of one directory with objects (key, words, hidden), one cycle each unless a key comes again.

        With `gap` the second record of an object does not follow the first, with `scattered` the further records of the
        directory lie in the opposite order. It lists `directories`, each by its name and its first record, but does not
        write them.
        """
        size = 7 if wide else 4
        body: list[np.ndarray[Any, Any]] = []
        records = 1  # of the directory
        while True:
            keys: dict[tuple[int, ...], int] = {}
            cycles: list[list[int]] = []
            place, body, at = records + 2, [], 0
            for key, content, hidden in objects:
                words = np.asarray(content, np.uint32)
                here = min(len(words), record - at)
                first, word, rest = place, at + 1, len(words) - here
                body.append(words[:here])
                at += here
                second = 0
                if rest or at == record:
                    if at < record:
                        body.append(np.zeros(record - at, np.uint32))
                    place += 1
                    if rest and gap:
                        body.append(np.full(record, 0xDEADBEEF, np.uint32))
                        place += 1
                    second = place if rest else 0
                    body.append(words[here:])
                    place, at = place + rest // record, rest % record
                before = keys.get(key, 0)
                number = 1 if not before else (cycles[before - 1][3] >> 20) + 1
                about = 8 if hidden else 0
                if wide:
                    cycles.append([before, about, first, word | number << 20, len(words), second, key[0] & 0xFFFFFFFF])
                else:
                    cycles.append([before | second << 16, about, word | first << 16, len(words) | number << 20])
                keys[key] = len(cycles)
            bitmap = place // 32 + 2
            total = (
                32
                + 1
                + 2 * width
                + 1
                + records
                + 3
                + bitmap
                + 7 * len(directories)
                + len(keys) * (1 + width)
                + len(cycles) * size
            )
            if -(-total // record) <= records:
                break
            records *= 2
        further = range(3, records + 2)
        listed = [2, *(reversed(further) if scattered else further)]
        directory = self.directory(
            listed, record, keys, cycles, bitmap, wide=wide, tags=tags[:width], directories=directories
        )
        pages = np.asarray(directory, np.uint32).reshape(records, record)
        pages = pages[np.argsort(listed)]
        content = np.concatenate([np.zeros(record, np.uint32), pages.reshape(-1), *body])
        content = np.concatenate([content, np.zeros(-len(content) % record, np.uint32)])
        return content.astype(f"{self.order}u4").tobytes()

    def directory(
        self,
        records: Sequence[int],
        record: int,
        keys: dict[tuple[int, ...], int],
        cycles: Sequence[list[int]],
        bitmap: int = 0,
        *,
        wide: bool = False,
        tags: Sequence[str] = ("HBOOK-ID", "VARIABLE"),
        directories: Sequence[tuple[str, int]] = (),
        name: str = "TESTS",
        parent: int = 0,
    ) -> list[int]:
        """Write the words of a directory that lies in these records; keys have the number of their newest cycle.

        Without words of a bitmap it is not the top one.
        """
        width, size = len(tags), 7 if wide else 4
        directory = six(name, 4) + [0] * 28 + [sum(2 << 3 * i for i in range(width))]
        for tag in tags:
            directory += six(tag, 2)
        ld = len(directory) + 1
        directory += [len(records), *records]
        lb = len(directory) + 1
        directory += [bitmap, record, 0, *[0xFFFFFFFF] * bitmap] if bitmap else []
        ls = len(directory) + 1
        directory += [word for inner, first in directories for word in [*six(inner, 4), len(inner), first, 0]]
        lk = len(directory) + 1
        lc = len(records) * record - len(cycles) * size + 1
        where = lambda cycle: lc + (cycle - 1) * size if cycle else 0  # noqa: E731
        for key, newest in keys.items():
            directory += [where(newest), *(word & 0xFFFFFFFF for word in key[:width])]
        lf = len(directory) + 1
        directory += [0] * (lc - 1 - len(directory))
        for cycle in cycles:
            before = cycle[0] if wide else cycle[0] & 0xFFFF
            cycle[0] = where(before) if wide else (cycle[0] & ~0xFFFF) | where(before)
            directory += cycle
        exchange = 1 << 11 if self.order == ">" else 0
        values = {
            5: parent, 9: len(name) | exchange, 16: int(wide), 23: len(directories), 24: ld, 25: lb, 26: ls, 27: lk,
            28: lf, 29: lc, 30: len(records) * record, 31: len(keys), 32: width,
        }  # fmt: skip
        for word, value in values.items():
            directory[word - 1] = value
        return directory

    def axes(self, x: tuple[int, float, float]) -> list[int]:
        bins, low, high = x
        return [bins, *self.float(low, high, bins / (high - low))]

    def one(self, number: int, title: str, x: tuple[int, float, float], contents: Sequence[float]) -> list[int]:
        """Write a histogram of one dimension, flow included."""
        header = [1, 0, *self.axes(x), *self.float(0, 0, 0), *self.text(title)]
        return self.structure(
            [
                {
                    "name": "HCO1",
                    "data": [32, len(contents), *self.float(0, 0), *self.double(0, 0), *self.float(*contents)],
                },
                {"name": "HID1", "id": number, "links": [0, None], "data": header, "next": -1},
            ],
            1,
        )

    def two(
        self,
        number: int,
        title: str,
        x: tuple[int, float, float],
        y: tuple[int, float, float],
        cells: np.ndarray[Any, Any],
        *,
        bits: int = 32,
        squares: np.ndarray[Any, Any] | None = None,
        labels: Sequence[str] = (),
        projection: Sequence[float] | None = None,
    ) -> list[int]:
        """Write a histogram of two dimensions; cells are [i, j] with flow bins."""
        flat = cells[:, ::-1].T.reshape(-1)  # rows from the top
        if bits == 32:
            words = self.float(*flat)
        else:
            each = 32 // bits
            padded = np.concatenate([flat, np.zeros(-len(flat) % each)]).astype(np.int64).reshape(-1, each)
            words = [sum(int(v) << (each - 1 - i) * bits for i, v in enumerate(row)) for row in padded]
        header = [2, 0, *self.axes(x), *self.axes(y), *self.float(1), *self.text(title)]
        banks: list[dict[str, Any]] = [{"name": "HCO2", "data": [bits, int(cells.sum()), *words]}]
        links: list[int | None] = [0, *[None] * 8]
        if squares is not None:
            banks[0]["next"] = len(banks)
            banks.append({"name": "HI2E", "data": self.float(*squares.T.reshape(-1))})
        if projection is not None:
            links[1] = len(banks)
            data = [32, 1, *self.float(0, 0), *self.double(0, 0), *self.float(*projection)]
            banks.append({"name": "HPRX", "data": data})
        if labels:
            links[7] = len(banks)
            texts = [part for label in ("UNDERFLOW", *labels, "OVERFLOW") for part in self.text(label, 4)]
            banks.append({"name": "HLCX", "data": [16, len(labels), *texts]})
        banks.append({"name": "HID2", "id": number, "links": links, "data": header})
        return self.structure(banks, len(banks) - 1)

    def row_wise(
        self, number: int, title: str, tags: Sequence[str], rows: np.ndarray[Any, Any], buffer: int, *, width: int = 2
    ) -> list[tuple[tuple[int, ...], Any, bool]]:
        """Write a row-wise ntuple on disk: its buffers and its header."""
        columns = len(tags)
        each = buffer // columns
        full = max(-(-len(rows) // each) - 1, 0)
        out: list[tuple[tuple[int, ...], Any, bool]] = []
        pad = np.zeros(buffer - each * columns, np.float32)
        for extension in range(1, full + 1):
            part = np.concatenate([rows[(extension - 1) * each : extension * each].reshape(-1), pad])
            bank = {"name": "HCON", "data": self.float(*part)}
            key = (number, extension) if width > 1 else (10000 * extension + number,)
            out.append((key, self.structure([bank], 0), True))
        rest = rows[full * each :].reshape(-1)
        last = np.concatenate([rest, np.zeros(buffer - len(rest), np.float32)])
        names = [word for tag in tags for word in self.text(tag, 2)]
        words = self.text(title)
        tags_at = 12 + 20
        header = [8, columns, len(rows), buffer, number, full, 1, len(words), tags_at + len(names), tags_at, 8]
        header += self.text("//LUN1", 20) + names + words
        banks: list[dict[str, Any]] = [
            {"name": "HCON", "data": self.float(*last)},
            {"name": "HIDN", "id": number, "links": [0, None, None], "ns": 2, "data": header},
        ]
        out.append(((number, 0)[:width], self.structure(banks, 1), False))
        return out

    def column_wise(
        self,
        number: int,
        title: str,
        blocks: Sequence[tuple[str, int, Sequence[dict[str, Any]]]],
        buffer: int = 1009,
        *,
        rows: int | None = None,
        lose_last: bool = False,
    ) -> list[tuple[tuple[int, ...], Any, bool]]:
        """Write a column-wise ntuple on disk: blocks (name, rows, columns).

        A column has name, kind (R I U L C), bytes, bits, dims, values (flat), and index (its place in the block) or
        counts (of an index column). With `lose_last` the last buffer of each column is missing and no count of rows is
        known, as after a crash.
        """
        out: list[tuple[tuple[int, ...], Any, bool]] = []
        names: list[int] = []
        integers: list[int] = []
        reals: list[int] = []
        banks: list[dict[str, Any]] = []
        place = 0
        for _, _, columns in blocks:
            table: list[int] = []
            for column in columns:
                place += 1
                kind, size = column["kind"], column.get("bytes", 4)
                bits = column.get("bits", {"L": 1}.get(kind, 8 * size))
                buffers = self._buffers(column, kind, size, bits, buffer)
                kept = buffers[:-1] if lose_last else buffers
                for index, words in enumerate(kept):
                    bank = {"name": "HCON", "data": words}
                    out.append(((number, 10000 * (index + 1) + place), self.structure([bank], 0), True))
                dims = [-d & 0xFFFFFFFF for d in column.get("dims", ())]
                dims += [12 * column["index"] + 1] if "index" in column else []
                at = len(integers) + 1
                integers += dims
                limits = 0
                if "range" in column:
                    store = reals if kind == "R" else integers
                    limits = len(store) + 1
                    store += self.float(*column["range"]) if kind == "R" else [v & 0xFFFFFFFF for v in column["range"]]
                name = column["name"]
                word = len(names) + 1
                names += self.text(name)
                code = {"R": 1, "I": 2, "U": 3, "L": 4, "C": 5}[kind]
                about = (bits & 127) | size << 7 | code << 13 | len(dims) << 17 | ("counts" in column) << 27
                table += [about, len(name), word, limits, 1 if lose_last else max(len(buffers), 1), place]
                table += [0, 0, 0, 0, at if dims else 0, 0]
            banks.append({"name": "HNAM", "data": table})
        start = len(banks)
        for index, (name, count, columns) in enumerate(blocks):
            data = [1, len(columns), 0xFFFFFFFF if lose_last else count, 0, 0, 0, 0, *self.text(name, 2)]
            following = start + index + 1 if index + 1 < len(blocks) else None
            banks.append({"name": "HBLK", "links": [index], "data": data, "next": following})
        extra = len(banks)
        for name, data in (("HCHA", names), ("HINT", integers or [0]), ("HREA", reals or [0])):
            banks.append({"name": name, "data": data})
        least = min(count for _, count, _ in blocks)
        words = self.text(title)
        header = [8, place, 0xFFFFFFFF if lose_last else least if rows is None else rows, buffer, 1, 1, 1, len(words)]
        header += [34, len(blocks), 0, number, 8, *self.text("//LUN1", 20), *words]
        links = [start, extra, extra + 1, extra + 2, *[None] * 8]
        banks.append({"name": "HIDT", "id": number, "links": links, "ns": 6, "data": header})
        out.append(((number, 0), self.structure(banks, len(banks) - 1), False))
        return out

    def _buffers(self, column: dict[str, Any], kind: str, size: int, bits: int, buffer: int) -> list[Any]:
        """Pack the values of a column into buffers."""
        room = buffer - 1
        if "counts" in column:
            sums = np.concatenate([[0], np.cumsum(column["counts"])]).astype(np.uint32)
            return [
                np.concatenate(
                    [
                        sums[at : at + 1],
                        sums[at + 1 : at + 1 + room],
                        np.zeros(max(at + room + 1 - len(sums), 0), np.uint32),
                    ]
                )
                for at in range(0, max(len(sums) - 1, 1), room)
            ]
        values = column["values"]
        if kind == "C":
            raw = b"".join(text.encode("latin-1").ljust(size) for text in values)
            words = np.frombuffer(raw, ">u4").astype(np.uint32)
            each, per = size // 4, 1
        elif bits == 64:
            pairs = np.asarray(values).view(np.uint64)
            high, low = (pairs >> np.uint64(32)).astype(np.uint32), pairs.astype(np.uint32)
            words = np.stack([high, low] if kind == "R" else [low, high], axis=1).reshape(-1)
            each, per = 2, 1
        elif bits == 32:
            words, each, per = np.ascontiguousarray(values).view(np.uint32), 1, 1
        else:
            packed = np.asarray(values)
            if kind == "R":
                low, high = (np.float32(limit) for limit in column["range"])
                packed = np.rint((packed - low) * (2**bits - 1) / (high - low))
            elif kind == "I":
                packed = np.abs(packed) | np.where(packed < 0, 1 << bits - 1, 0)
            each, per = 1, 32 // bits
            packed = np.concatenate([packed, np.zeros(-len(packed) % per)]).astype(np.uint64).reshape(-1, per)
            words = (packed << (np.arange(per, dtype=np.uint64) * np.uint64(bits))).sum(axis=1).astype(np.uint32)
        step = room // each * each
        out = []
        for at in range(0, max(len(words), 1), step):
            part = words[at : at + step]
            out.append(np.concatenate([np.zeros(1, np.uint32), part, np.zeros(room - len(part), np.uint32)]))
        return out


def read_fz(raw: bytes) -> list[tuple[int, list[int]]]:
    """Return the logical records (type, words) of an FZ file in exchange mode without Fortran's lengths."""
    words = np.frombuffer(raw, ">u4").tolist()
    assert words[:4] == [0x0123CDEF, 0x80708070, 0x4321ABCD, 0x80618061]
    length = words[4] & 0xFFFFFF
    assert len(words) % length == 0 and length % 30 == 0
    stream: list[int] = []
    starts: set[int] = set()
    for number, at in enumerate(range(0, len(words), length)):
        record = words[at : at + length]
        assert record[:4] == words[:4] and record[4] & 0xFFFFFF == length and record[7] == 0
        assert record[5] == (0 if record[4] >> 29 else number)
        if record[6]:
            starts.add(len(stream) + record[6] - 8)
        stream += record[8:]
    out, at, seen = [], 0, set()
    while at < len(stream):
        seen.add(at)
        count = stream[at]
        if count == 0:
            at += 1
            continue
        kind = stream[at + 1]
        if kind == 5:
            at += 1 + count
        else:
            out.append((kind, stream[at + 2 : at + 2 + count]))
            at += 2 + count
    assert starts <= seen
    return out


MAGIC = [0x0123CDEF, 0x80708070, 0x4321ABCD, 0x80618061]


def steering(length: int, number: int, first: int, fast: int, content: Sequence[int], flags: int = 0) -> list[int]:
    """Return a steering record of an FZ file, padded."""
    free = length - 8 - len(content)
    padding = [free - 1, 5, *[0] * (free - 2)] if free > 1 else [0] * free
    return [*MAGIC, flags | length, number, first, fast, *content, *padding]


def with_fast_records(records: Sequence[tuple[int, Sequence[int]]], length: int) -> bytes:
    """Return an FZ file whose logical records (type, words) go on in fast records, which have no header."""
    out: list[int] = []
    for number, (kind, words) in enumerate(records):
        content = [len(words), kind, *words]
        first, rest = content[: length - 8], content[length - 8 :]
        fast = -(-len(rest) // length)
        out += steering(length, number, 8, fast, first) + rest + [0] * (fast * length - len(rest))
    return np.array(out, ">u4").tobytes()


ALFA = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/()$= ,.#'!:\"_]&@?[><\\^;%`"


def alfa(raw: bytes) -> bytes:
    """Write an exchange file with records of 900 words, all steering ones, as text."""
    lines = []
    for at in range(0, len(raw), 3600):
        words = np.frombuffer(raw[at : at + 3600], ">u4").tolist()[4:]
        text, upper, lower, place = "", 0, 0, 0

        def put(word: int) -> str:
            nonlocal upper, lower
            upper, lower = upper + (word >> 16), lower + (word & 0xFFFF)
            return code(word)

        def code(word: int) -> str:
            if word < 10:
                return str(word)
            if word >= 0xFFFFFFE0:
                return "(" + ALFA[word & 31]
            omitted = next((s for s in (4, 3, 2, 1) if not word & ((1 << 5 * s) - 1)), 0)
            value = (word & 0x3FFFFFFF) >> 5 * omitted
            if not word >> 25:
                return "U" + "".join(ALFA[word >> 5 * i & 31] for i in (4, 3, 2, 1, 0))
            return ALFA[5 * (word >> 30) + omitted] + "".join(
                ALFA[value >> 5 * i & 31] for i in range(5 - omitted, -1, -1)
            )

        while place < len(words):
            word, times = words[place], 1
            text += put(word)
            while place + times < len(words) and words[place + times] == word:
                times += 1
            if times > 3:
                text += "=" + put(times - 2)
                place += times
            else:
                place += 1
        text += "<" + code(upper & 0xFFFFFFFF) + code(lower & 0xFFFFFFFF)
        first, rest = text[:77], [text[i : i + 79] for i in range(77, len(text), 79)]
        lines.append((">" if rest else "<") + ">1" + first)
        lines += [("<" if i == len(rest) - 1 else " ") + part for i, part in enumerate(rest)]
    return "\n".join([*lines, ""]).encode()


def framed(raw: bytes, record: int) -> bytes:
    """Put Fortran's lengths around the records of an exchange file."""
    size = struct.pack("<I", 4 * record)
    return b"".join(size + raw[at : at + 4 * record] + size for at in range(0, len(raw), 4 * record))


def read_structure(words: Sequence[int], table: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return banks by their addresses."""
    banks: dict[int, dict[str, Any]] = {}
    (first, end), at = table, 0
    assert end - first == len(words)
    while at < len(words):
        extra = (words[at] & 0xFFFF) - 12
        base = at + 1 + extra
        links, _, data, status = words[base + 5 : base + 9]
        assert (status >> 18 & 15) + links == extra
        banks[first + base] = {
            "name": struct.pack(">I", words[base + 4]).decode(), "id": words[base + 3], "io": words[at] >> 16,
            "links": [words[base - 1 - link] for link in range(links)], "next": words[base], "up": words[base + 1],
            "origin": words[base + 2], "data": words[base + 9 : base + 9 + data],
        }  # fmt: skip
        at = base + 9 + data
    return banks


def read_rz(raw: bytes, record: int) -> dict[tuple[int, ...], list[int]]:
    """Return the words of the newest cycle of each key of the top directory of an exchange file with new cycles."""
    words = np.frombuffer(raw, ">u4").tolist()
    assert len(words) % record == 0 and not any(words[:record])

    def word(k: int) -> int:
        return words[record + k - 1]

    records = [word(word(24) + 1 + i) for i in range(word(word(24)))]
    assert records[0] == 2
    whole = [w for r in records for w in words[(r - 1) * record : r * record]]
    d = lambda k: whole[k - 1]  # noqa: E731
    assert d(16) == 1 and d(30) == len(whole) and d(d(25) + 1) == record
    bitmap = whole[d(25) + 2 : d(25) + 2 + d(d(25))]
    used = sum(bin(w).count("1") for w in bitmap)
    assert used == len(words) // record == d(13)
    out = {}
    for at in range(d(31)):
        start = d(27) + at * (1 + d(32))
        cycle = whole[d(start) - 1 : d(start) + 6]
        first, second, count = (cycle[2] - 1) * record + (cycle[3] & 0xFFFFF) - 1, cycle[5], cycle[4]
        here = record - ((cycle[3] & 0xFFFFF) - 1)
        part = words[first : first + min(here, count)]
        if count > here:
            part += words[(second - 1) * record : (second - 1) * record + count - here]
        assert len(part) == count and cycle[6] == d(start + 1)
        out[tuple(whole[start : start + d(32)])] = part
    return out
