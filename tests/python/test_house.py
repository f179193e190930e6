"""The order of dependencies of `support/house.py`: held by the sources, and what breaks it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import house
import pytest


def test_dependencies_go_one_way_and_neutral_rooms_name_no_format() -> None:
    assert house.wrong_imports() == []
    assert house.circles() == []
    assert house.wrong_uses() == []
    assert house.foreign_words() == []
    assert house.shared_names() == []


Sources = Callable[[str, dict[str, str]], None]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    """Return a function that writes the sources to look at, by their paths in a folder."""

    def write(folder: str, texts: dict[str, str]) -> None:
        for name, text in texts.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(house, "ROOT", tmp_path)
        monkeypatch.setattr(house, "PACKAGE", tmp_path / "python/sapwood")
        monkeypatch.setattr(house, "CRATE", tmp_path / "crates/root/src")

    return write


def test_imports_upwards_and_circles_are_found(sources: Sources) -> None:
    sources(
        "python/sapwood",
        {
            "table/a.py": "def f():\n    from sapwood.files import b",
            "files/b.py": "if TYPE_CHECKING:\n    import sapwood.table.a",
            "show/safe.py": "from sapwood.errors import E",
            "attic/c.py": "",
        },
    )
    assert house.wrong_imports() == [
        "python/sapwood/attic/c.py: the room 'attic' has no place in ROOMS",
        "python/sapwood/show/safe.py:1: show.safe may not import sapwood.errors",
        "python/sapwood/table/a.py:2: table may not import sapwood.files.b",
    ]
    assert house.circles() == ["import circle: sapwood.files.b, sapwood.table.a"]


def test_uses_of_rust_modules_upwards_and_foreign_words_are_found(sources: Sources) -> None:
    sources(
        "crates/root/src",
        {
            "wire/a.rs": "use crate::{\n    error::{Error, Result},\n    tree::Record,\n};",
            "compress/a.rs": "// crate::tree\nuse crate::array::Number;",
            "array/a.rs": "fn f() { crate::compress::f() }\n#[cfg(test)]\nmod tests { use crate::tree; }",
            "table/a.rs": "/// A basket.",
            "streamer/special.rs": '"TBasket" => Self::basket,',
            "file/a.rs": "// A branch.\n#[cfg(test)]\n// A leaf.",
        },
    )
    assert house.wrong_uses() == [
        "crates/root/src/wire/a.rs:1: wire may not use tree",
        "circle of modules: array, compress",
    ]
    assert house.foreign_words() == [
        "crates/root/src/file/a.rs:1: the word 'branch' is of one format",
        "crates/root/src/table/a.rs:1: the word 'basket' is of one format",
    ]


def test_types_that_share_a_common_name_are_found(sources: Sources) -> None:
    sources(
        "",
        {
            "crates/a.rs": "pub struct Job {\n}\nstruct PageJob;\nmod tests {\n    struct Job;\n}",
            "crates/b.rs": "pub(super) enum Job {}\nstruct Reader;",
            "python/sapwood/a.py": "class Job:\n    pass\nclass Plan(Base):\n    pass",
            "python/sapwood/b.py": "class Plan:\n    pass",
        },
    )
    assert house.shared_names() == [
        "several types Job: crates/a.rs, crates/b.rs",
        "several types Plan: python/sapwood/a.py, python/sapwood/b.py",
    ]
