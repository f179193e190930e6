"""Baskets of files that ROOT wrote, those inside the tree's record among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import uproot as uproot_module

import sapwood

pytestmark = [pytest.mark.corpus, pytest.mark.timeout(60)]
uproot: Any = uproot_module


@pytest.mark.parametrize(
    ("name", "branch", "embedded"),
    [
        ("uproot-issue327.root", "DstTree/fTracks.fCharge", 1),
        ("uproot-mc10events.root", "Events/Muon.q", 0),
        ("sample-6.14.00-uncompressed.root", "sample/Ai4", 0),
        ("sample-5.23.02-zlib.root", "sample/ai8", 0),
    ],
)
def test_baskets_have_the_bytes_that_uproot_finds(corpus: Path, name: str, branch: str, embedded: int) -> None:
    with sapwood.open(corpus / "files" / name) as mine, uproot.open(corpus / "files" / name) as theirs:
        a, b = mine[branch], theirs[branch]
        assert a.num_baskets == b.num_baskets
        assert len(a.embedded_baskets) == len(b.embedded_baskets) == embedded
        for number in range(a.num_baskets):
            one, other = a.basket(number), b.basket(number)
            assert one.is_embedded == other.is_embedded
            assert one.data.tolist() == other.data.tolist()
            if other.byte_offsets is None:
                assert one.byte_offsets is None
            else:
                assert one.byte_offsets.tolist() == other.byte_offsets.tolist()
        if embedded:
            assert a.embedded_baskets[0].key is None
            with pytest.raises(sapwood.UnsupportedError, match="no key"):
                a.basket_key(0)
