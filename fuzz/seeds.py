"""Make the seeds: small files of every codec and shape, and the objects inside them without their keys.

seeds.py [OUT] writes OUT/TARGET/NAME (OUT is `seeds` beside this script). Files given by SAPWOOD_CORPUS, when they are
small, join in for a long run (SAPWOOD_FUZZ_CORPUS=1).
"""

from __future__ import annotations

import lzma
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import uproot


def write(folder: Path, compression: Any) -> bytes:
    """Write a file with flat, fixed and jagged branches and a directory."""
    path = folder / "seed.root"
    with uproot.recreate(path, compression=compression) as file:
        file.mktree("t", {"i": "int32", "x": (np.float64, (2, 3)), "b": "bool", "v": "var * float32"})
        counts = np.arange(20) % 4
        jagged = np.split(np.arange(counts.sum(), dtype=np.float32), np.cumsum(counts)[:-1])
        columns = {"i": np.arange(20, dtype=np.int32), "x": np.ones((20, 2, 3)), "b": np.arange(20) % 2 == 0}
        file["t"].extend({**columns, "v": jagged})
        file.mktree("d/e/u", {"s": "int16"})
        file["d/e/u"].extend({"s": np.arange(5, dtype=np.int16)})
    return path.read_bytes()


def objects(data: bytes) -> dict[str, list[bytes]]:
    """Return the uncompressed objects of a file's records by class: fNbytes, fVersion, fObjlen, fKeylen, fClassName."""
    found: dict[str, list[bytes]] = {}
    (at,) = struct.unpack(">i", data[8:12])
    while at + 18 < len(data):
        total, version, size, _, header = struct.unpack(">ihiih", data[at : at + 16])
        if total <= 0:
            at += max(-total, 1)
            continue
        name = at + (34 if version > 1000 else 26)
        length = data[name]
        if size == total - header:
            classname = data[name + 1 : name + 1 + length].decode("latin-1")
            found.setdefault(classname, []).append(data[at + header : at + total])
        at += total
    return found


def block(tag: bytes, method: int, packed: bytes, size: int) -> bytes:
    """Put the nine bytes before a compressed block."""
    return tag + bytes([method]) + len(packed).to_bytes(3, "little") + size.to_bytes(3, "little") + packed


def ntuple(path: Path) -> bytes:
    """Write a file with an RNTuple of all kinds of fields, in small pages, with an attribute set."""
    import awkward as ak

    import sapwood

    count = 24
    numbers = range(count)
    lists = ak.Array([[k / 2 for k in range(i % 4)] for i in numbers])
    columns: dict[str, Any] = {
        "i": np.arange(count, dtype=np.int32),
        "b": np.arange(count) % 3 == 0,
        "row": np.ones((count, 2, 2), np.float32),
        "text": [f"t{i}" for i in numbers],
        "lists": lists,
        "nested": ak.Array([[[k] * (i % 3) for k in range(i % 2)] for i in numbers]),
        "hits": ak.zip({"x": lists, "y": lists}),
        "option": ak.Array([None if i % 3 else i for i in numbers]),
        "union": ak.Array([i if i % 2 else f"u{i}" for i in numbers]),
        "half": np.ones(count, np.float16),
    }
    with sapwood.recreate(path, compression=None) as file:
        table = file.mkrntuple("n", columns, page_size=128, cluster_entries=9, projections={"nhits": "hits"})
        quality = table.add_attribute_set("quality", {"good": "bool", "note": "string"})
        quality.extend({"good": [True, False], "note": ["a", ""]}, [(0, 9), (9, count)])
    return path.read_bytes()


def zebra() -> dict[str, bytes]:
    """Make FZ and RZ files, with histograms and ntuples."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from zebra_files import Writer, alfa

    from sapwood import _native

    made: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, record in (("fz", 900), ("rz", 128)):
            path = Path(folder, kind)
            writer = _native.ZebraWriter(path, kind, record, "EVNT", [("TRAK", ("F", 2), "I", 3, "TRKS")])
            offsets, words = np.arange(5, dtype=np.int64) * 2, np.arange(24, dtype=np.uint32)
            writer.write(0, 4, np.arange(8, dtype=np.uint32), [(offsets, words)])
            writer.close()
            made[kind] = path.read_bytes()
    made["alfa"] = alfa(made["fz"])
    for order in "<>":
        writer = Writer(order)
        counts, rows = np.arange(9) % 3, np.ones((9, 2), np.float32)
        columns = [
            {"name": "N", "kind": "I", "range": (0, 3), "counts": counts},
            {"name": "X", "kind": "R", "index": 0, "values": np.ones(counts.sum(), np.float32)},
            {"name": "P", "kind": "I", "bits": 5, "range": (-9, 9), "values": np.arange(9)},
            {"name": "C", "kind": "C", "bytes": 8, "values": ["text"] * 9},
        ]
        objects = writer.column_wise(10, "column-wise", [("B", 9, columns)], 10)
        objects += writer.row_wise(20, "row-wise", ["A", "B"], rows, 8)
        objects.append(((30, 0), writer.two(30, "two", (2, 0, 1), (2, 0, 1), np.ones((4, 4)), labels=["a"]), False))
        objects.append(((40, 0), writer.one(40, "one", (2, 0, 1), [0, 1, 2, 3]), False))
        made[f"hbook{order == '>'}"] = writer.rz(objects, 128, wide=order == "<")
    return made


def main() -> None:
    """Write all seeds."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "seeds")
    seeds: dict[str, dict[str, bytes]] = {"file": {}, "streamer_info": {}, "tree": {}, "codecs": {}, "zebra": zebra()}
    choices = np.random.default_rng(3)
    seeds["expression"] = {str(number): choices.integers(0, 256, 400, np.uint8).tobytes() for number in range(24)}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("none", "zlib", "lzma", "lz4", "zstd"):
            seeds["file"][name] = write(Path(folder), None if name == "none" else getattr(uproot, name.upper())(1))
        golden = Path(__file__).parents[1] / "tests" / "golden" / "ntuple" / "plain.root"
        seeds["ntuple"] = {"ours": ntuple(Path(folder, "ntuple.root")), "root": golden.read_bytes()}
    inside = objects(seeds["file"]["none"])
    for number, payload in enumerate(inside["TTree"]):
        seeds["tree"][str(number)] = payload
    for number, payload in enumerate(inside["TList"]):
        seeds["streamer_info"][str(number)] = payload
    text = b"0123456789abcdef" * 40
    head = (len(text) // 16).to_bytes(2, "big")
    seeds["codecs"]["zlib"] = head + block(b"ZL", 8, zlib.compress(text), len(text))
    seeds["codecs"]["lzma"] = head + block(b"XZ", 0, lzma.compress(text), len(text))
    deflated = zlib.compressobj(wbits=-15)
    raw = deflated.compress(text) + deflated.flush()
    seeds["codecs"]["old"] = head + block(b"CS", 8, raw, len(text))
    seeds["codecs"]["stored"] = head + text
    for name in ("lz4", "zstd"):
        data = seeds["file"][name]
        at = data.index({"lz4": b"L4", "zstd": b"ZS"}[name])
        size = int.from_bytes(data[at + 6 : at + 9], "little")
        end = at + 9 + int.from_bytes(data[at + 3 : at + 6], "little")
        seeds["codecs"][name] = (size // 16).to_bytes(2, "big") + data[at:end]
    # The first byte of an update says how to update; the other targets take their inputs as choices.
    seeds["update"] = {name: bytes([13 * number]) + data for number, (name, data) in enumerate(seeds["file"].items())}
    seeds["update"]["ntuple"] = b"\x06" + seeds["ntuple"]["ours"]
    for target, length, count in (("objects", 48, 8), ("http", 600, 8), ("xrootd", 900, 8)):
        made = choices.integers(0, 256, (count, length), np.uint8)
        # Zeros are what a correct server does, and a byte that is not changed.
        made[choices.random(made.shape) < 0.7] = 0
        seeds[target] = {str(number): row.tobytes() for number, row in enumerate(made)}
    corpus = os.environ.get("SAPWOOD_CORPUS")
    if corpus and os.environ.get("SAPWOOD_FUZZ_CORPUS"):
        for path in sorted(Path(corpus, "files").glob("*.root")):
            if path.stat().st_size < 50_000:
                seeds["file"][path.stem] = path.read_bytes()
    for target, inputs in seeds.items():
        (out / target).mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (out / target / name).write_bytes(data)
    print(", ".join(f"{target} {len(inputs)}" for target, inputs in seeds.items()), "seeds")


if __name__ == "__main__":
    main()
