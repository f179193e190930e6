"""Damaged RNTuples: an error with its place, or values; never a crash, a hang or memory without bounds.

Where an envelope is changed, its checksum is computed again, so that the damage gets past it.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood.tools.checking import check

pytest.importorskip("xxhash", reason="needs xxhash, to write right checksums (pip install xxhash)")
from crafted_ntuple import digest, envelopes

PLAIN = Path(__file__).parent.parent / "golden" / "ntuple" / "plain.root"
EDGES = [0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000, 1 << 62, (1 << 63) - 1, 1 << 63]


def read_all(data: bytes, tmp_path: Path) -> Any:
    """Read each field on its own; those that cannot be read are errors of sapwood."""
    path = tmp_path / "damaged.root"
    path.write_bytes(data)
    with sapwood.open(path) as file:
        ntuple = file["types"]
        found: dict[str, Any] = {}
        for field in ntuple:
            try:
                found[field.name] = field.array().to_list()
            except sapwood.SapwoodError as error:
                assert "damaged.root" in str(error)
        return found


def sealed(data: bytearray, where: dict[int, list[tuple[int, int]]]) -> bytes:
    """Compute checksums again: that of the header, which footer and page lists repeat, and theirs."""
    (start, end) = where[1][0]
    data[end - 8 : end] = header = digest(bytes(data[start : end - 8]))
    for kind, at in ((2, 16), (3, 8)):
        for start, end in where[kind]:
            data[start + at : start + at + 8] = header
            data[end - 8 : end] = digest(bytes(data[start : end - 8]))
    return bytes(data)


@pytest.fixture(scope="module")
def plain() -> bytes:
    return PLAIN.read_bytes()


@pytest.fixture(scope="module")
def good(plain: bytes, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return read_all(plain, tmp_path_factory.mktemp("good"))


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let the process have 2 GiB more than it has."""
    if sys.platform != "linux":
        yield
        return
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_sealing_changes_nothing_of_a_good_file(plain: bytes) -> None:
    where = envelopes(plain)
    assert {kind: len(found) for kind, found in where.items()} == {1: 1, 2: 1, 3: 2}
    assert sealed(bytearray(plain), where) == plain


def test_a_flipped_byte_never_changes_values(plain: bytes, good: Any, tmp_path: Path) -> None:
    chance = random.Random(1)
    for at in chance.sample(range(100, len(plain)), 200):
        bad = bytearray(plain)
        bad[at] ^= 0x55
        try:
            found = read_all(bytes(bad), tmp_path)
        except sapwood.SapwoodError:
            continue
        assert {name: values for name, values in good.items() if name in found} == found, f"byte {at}"


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.usefixtures("little_memory")
def test_envelopes_with_any_number_in_any_place_are_survived(plain: bytes, tmp_path: Path, kind: int) -> None:
    where = envelopes(plain)
    chance = random.Random(kind)
    for _ in range(400):
        start, end = chance.choice(where[kind])
        at, size = chance.randrange(start + 8, end - 8), chance.choice([1, 2, 4, 8])
        bad = bytearray(plain)
        number = chance.choice([*EDGES, chance.getrandbits(8)]) % (1 << 8 * size)
        bad[at : at + size] = number.to_bytes(size, "little")
        try:
            read_all(sealed(bad[: len(plain)], where), tmp_path)
        except sapwood.SapwoodError as error:
            assert "damaged.root" in str(error)


def test_files_that_end_too_early_are_errors(plain: bytes, tmp_path: Path) -> None:
    last = max(end for found in envelopes(plain).values() for _, end in found)
    for length in range(120, last, 499):
        with pytest.raises((sapwood.SapwoodError, sapwood.SapwoodWarning)):
            read_all(plain[:length], tmp_path)


def test_an_unknown_feature_flag_is_refused(plain: bytes, tmp_path: Path) -> None:
    where = envelopes(plain)
    for kind in (1, 2):
        for flag, refused in ((1, False), (2, True), (1 << 40, True)):
            bad = bytearray(plain)
            at = where[kind][0][0] + 8
            bad[at : at + 8] = flag.to_bytes(8, "little")
            if refused:
                with pytest.raises(sapwood.UnsupportedError, match="feature flag"):
                    read_all(sealed(bad, where), tmp_path)
            else:
                assert read_all(sealed(bad, where), tmp_path)


def test_an_unknown_column_type_spoils_its_own_field_alone(plain: bytes, good: Any, tmp_path: Path) -> None:
    where = envelopes(plain)
    start, end = where[1][0]
    # The column of `d` alone is of type real64, which has 64 bits.
    with sapwood.open(PLAIN) as file:
        field = file["types"]["d"].field_id
    at = plain.index(b"\x0d\x00\x40\x00" + field.to_bytes(4, "little"), start, end)
    bad = bytearray(plain)
    bad[at] = 0x1F
    found = read_all(sealed(bad, where), tmp_path)
    assert found == {name: values for name, values in good.items() if name != "d"}
    with sapwood.open(tmp_path / "damaged.root") as file:
        assert "0x1f is unknown" in str(file["types"]["d"].reason)


def test_an_unknown_role_spoils_its_own_field_alone(plain: bytes, good: Any, tmp_path: Path) -> None:
    where = envelopes(plain)
    bad = bytearray(plain)
    at = plain.index(b"\x01\x00\x00\x00d\x06\x00\x00\x00double") - 4
    assert bad[at : at + 2] == b"\x00\x00"
    bad[at] = 9
    found = read_all(sealed(bad, where), tmp_path)
    assert found == {name: values for name, values in good.items() if name != "d"}


def test_a_locator_of_an_object_store_is_named(plain: bytes, tmp_path: Path) -> None:
    where = envelopes(plain)
    start, end = where[3][0]
    with sapwood.open(PLAIN) as file:
        _, _, _, offset, length, _, _ = file["types"].native.plan([file["types"]["d"].number], 0, 1)[0][0]
    locator = (length - 8).to_bytes(4, "little") + offset.to_bytes(8, "little")
    at = plain.index(locator, start, end)
    bad = bytearray(plain)
    bad[at : at + 4] = (-(12 | 2 << 24)).to_bytes(4, "little", signed=True)
    found = read_all(sealed(bad, where), tmp_path)
    assert "d" not in found
    assert len(found) == 25
    with sapwood.open(tmp_path / "damaged.root") as file, pytest.raises(sapwood.UnsupportedError, match="object store"):
        file["types"]["d"].array()


def planted(plain: bytes) -> Iterator[tuple[str, str, bytes]]:
    """Yield a name, the code of the finding that is expected, and the damaged file."""
    where = envelopes(plain)
    chosen = random.Random(3)

    def flipped(at: int) -> bytes:
        return plain[:at] + bytes([plain[at] ^ 0x10]) + plain[at + 1 :]

    for kind, code in ((1, "ntuple"), (2, "ntuple"), (3, "ntuple-page-list")):
        start, end = where[kind][0]
        yield from ((f"envelope {kind}", code, flipped(chosen.randrange(start, end))) for _ in range(8))
    with sapwood.open(PLAIN) as file:
        ntuple = file["types"]
        fields = [field.number for field in ntuple]
        pages = [page for field in fields for page in ntuple.native.plan([field], 0, 1)[0]]
        seek = file.key("types").fSeekKey
    yield from ((f"anchor byte {at}", "ntuple", flipped(seek + at)) for at in (62, 75, 90, 110))
    for place, page in enumerate(pages[:12]):
        offset, length = page[3], page[4]
        yield f"page {place}", "ntuple-checksum", flipped(offset + length // 2)
        yield f"checksum {place}", "ntuple-checksum", flipped(offset + length - 3)
        locator = (length - 8).to_bytes(4, "little") + offset.to_bytes(8, "little")
        start, end = next(one for one in where[3] if locator in plain[one[0] : one[1]])
        at = plain.index(locator, start, end)

        def put(at: int, number: int, size: int) -> bytes:
            bad = bytearray(plain)
            bad[at : at + size] = number.to_bytes(size, "little", signed=number < 0)
            return sealed(bad, where)

        yield f"offset {place}", "ntuple-page-place", put(at + 4, len(plain) - 4, 8)
        yield f"size {place}", "ntuple-page-place", put(at, length + 400, 4)
        yield f"place in the header {place}", "ntuple-page-place", put(at + 4, 0, 8)
        yield f"elements {place}", "ntuple-", put(at - 4, -9, 4)


def test_check_finds_planted_faults_of_rntuples(plain: bytes, tmp_path: Path) -> None:
    assert list(check(str(PLAIN), deep=True)) == []
    missed: list[tuple[str, set[str]]] = []
    count = 0
    for name, code, data in planted(plain):
        path = tmp_path / "bad.root"
        path.write_bytes(data)
        count += 1
        found = {one.code for one in check(str(path), deep=True)}
        if not any(one.startswith(code) for one in found):
            missed.append((name, found))
    assert missed == []
    assert count == 100


@pytest.mark.alone
def test_unreadable_fields_of_wide_tables_are_found_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "wide.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("t", {f"a_long_name_{number}": np.arange(3) for number in range(4000)})
    threads = sapwood.num_threads()
    sapwood.set_num_threads(1)  # waking threads for each field takes more time on a busy machine
    try:
        with sapwood.open(path) as file:
            began = time.process_time()
            assert file.unreadable() == {}
            # It takes half a second; comparing all fields for each of them took 50 seconds.
            assert time.process_time() - began < 8
    finally:
        sapwood.set_num_threads(threads)
