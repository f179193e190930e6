"""The content of a file: its keys, its trees and their branches.

Works on the native classes alone, so that a listing does not wait for NumPy and Awkward to be imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood import _native
from sapwood.errors import NotFoundError, SapwoodError, one_line, warn_of_lost_keys
from sapwood.files.kinds import DIRECTORIES, TABLES, enter, native_table
from sapwood.show.safe import safe_line
from sapwood.show.text import layout
from sapwood.show.units import bytes_text, count_text, noun
from sapwood.storage.locate import is_url
from sapwood.storage.sources import source_of

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_OF_FILES = (".txt", ".json", ".yaml", ".yml")
_ALGORITHMS = {0: "none", 1: "zlib", 2: "lzma", 3: "zlib (old)", 4: "lz4", 5: "zstd"}


def list_file(
    where: str,
    *,
    recursive: bool = False,
    branches: bool = False,
    named: bool = True,
    check: bool = False,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """List a file, or a directory, tree or branch in it.

    Parameters
    ----------
    where
        ``file`` or ``file:path/inside``. A branch is listed with the branches in it.
    recursive
        Go into directories.
    branches
        List the branches of the trees.
    named
        List the branches of a tree that `where` names.
    check
        Decode the first entry of every branch, and the longest of its first basket, to find those whose data cannot
        be decoded.
    options
        For a remote file (see `sapwood.open`).

    Returns
    -------
    dict[str, Any]
        The file's own data and its ``keys``, ready for JSON; sizes are in bytes. A key that can be listed but not read
        has an ``error``. ``recovered`` is true if the list of keys was lost and the keys were found by searching the
        file.

    Raises
    ------
    NotFoundError
        If there is no such file or path.
    SapwoodError
        If the file cannot be read.
    """
    path, inside = split(where)
    listing = list_inside(
        path, inside, recursive=recursive, branches=branches, named=named, check=check, options=options
    )
    del listing["number_of_keys"]
    return listing | {"file": where}


def list_inside(
    path: str,
    inside: str,
    *,
    recursive: bool = False,
    branches: bool = False,
    named: bool = False,
    check: bool = False,
    part: tuple[int, int | None] = (0, None),
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """List a file, or a directory or tree in it, as `list_file` does.

    `part` is the range of the keys to describe; ``number_of_keys`` in the listing counts all of them. `named` lists the
    branches of a tree that the path names.
    """
    source = source_of(path, options or {} if is_url(path) else {})
    file: Foreign = source.open()
    if isinstance(file, _native.FzFile):
        return _listed(path, file) | {"records": _records(file), "number_of_keys": 0}
    top = file.directory()
    found = list(_keys(path, top, "", inside.split("/") if inside else [], set(), recursive=recursive))
    if inside and not found:
        raise NotFoundError(f"{path} has no {inside}")
    return _listed(path, file) | {
        "recovered": top.recovered,
        "number_of_keys": len(found),
        "keys": [
            _described(one, f"in file {path}", branches=branches or (named and one.named), check=check)
            for one in found[slice(*part)]
        ],
    }


def _listed(where: str, file: Foreign) -> dict[str, Any]:
    """Return the lines of a listing about the file itself."""
    version = file.version
    return {
        "file": where,
        "format": "ROOT" if isinstance(file, _native.File) else "ZEBRA",
        "root_version": f"{version // 10000}.{version // 100 % 100:02}.{version % 100:02}" if version else None,
        "compression": compression_text(file.compression),
        "size": file.size,
        "uuid": str(file.uuid),
        "recovered": False,
        "keys": [],
    }


def _records(file: Foreign) -> dict[str, int]:
    """Count the records of an FZ file by kind."""
    counts: dict[str, int] = {}
    reader = file.reader()
    while (kind := reader.skip()) is not None:
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def files_of(where: str, options: Mapping[str, Any] | None = None) -> list[str]:
    """Return the files that a word means: those of a folder and below, of a pattern, a list or a description; itself.

    Raises
    ------
    ArgumentError
        There is none.
    """
    path, _ = split(where)
    pattern = not Path(path).exists() and any(mark in path for mark in ("*?[" if "://" not in path else "*"))
    if not (where.startswith("@") or Path(path).is_dir() or Path(path).suffix in _OF_FILES or pattern):
        return [where]
    from sapwood.train.data.dataset import Dataset

    return list(dict.fromkeys(str(source) for source in Dataset.of(where, options=options).sources))


def split(where: str) -> tuple[str, str]:
    """Split ``file:path/inside``; the second part may be empty."""
    from sapwood.storage.locate import split_path

    if Path(where).exists():
        return where, ""
    path, inside = split_path(where)
    return path, inside or ""


def compression_text(setting: int) -> str:
    """Return the name of a compression setting (`fCompress`: algorithm times 100 plus level)."""
    algorithm, level = divmod(setting, 100)
    if level == 0:
        return "none"
    return f"{_ALGORITHMS.get(algorithm or 1, f'algorithm {algorithm}')} {level}"


class _Found(NamedTuple):
    """A key, its directory and its path; of a table perhaps the path of the only branch that is listed.

    `named`: whether a path names the key itself.
    """

    directory: Foreign
    key: Foreign
    name: str
    branch: Sequence[str] = ()
    named: bool = False


def _keys(
    file: str, directory: Foreign, prefix: str, inside: Sequence[str], seen: set[int], *, recursive: bool
) -> Iterator[_Found]:
    """Walk through a directory, or down a path inside it. `seen` has the byte offsets of the directories so far."""
    if directory.recovered:
        warn_of_lost_keys(len(directory.keys), f"/{prefix}", file)
    for key in directory.keys:
        is_directory = key.classname in DIRECTORIES
        if inside:
            if inside[0] not in (key.name, f"{key.name};{key.cycle}"):
                continue
            if is_directory:
                below = directory.subdirectory(key)
                yield from _keys(file, below, f"{prefix}{key.name}/", inside[1:], seen, recursive=recursive)
                continue
            if len(inside) > 1:
                if key.classname in TABLES:
                    yield _Found(directory, key, f"{prefix}{key.name}", inside[1:])
                continue
        yield _Found(directory, key, f"{prefix}{key.name}", named=bool(inside))
        if recursive and is_directory:
            enter(f"{prefix}{key.name}", key.seek, seen, f"\nin file {file}")
            yield from _keys(file, directory.subdirectory(key), f"{prefix}{key.name}/", (), seen, recursive=True)


def _described(one: _Found, where: str, *, branches: bool, check: bool) -> dict[str, Any]:
    directory, key, name, wanted, _ = one
    found: dict[str, Any] = {
        "name": name,
        "cycle": key.cycle,
        "class": key.classname,
        "title": key.title,
        "written": date_text(key.datetime),
        "bytes": key.total_bytes - key.key_bytes,
        "uncompressed_bytes": key.object_bytes,
    }
    if key.classname not in TABLES:
        return found
    try:
        table = native_table(directory, key)
    except SapwoodError as error:
        return found | {"error": one_line(error)}
    fields = table.branches if isinstance(table, _native.Tree) else table.fields
    top = [field for field in fields if field.parent is None] if isinstance(table, _native.NTuple) else fields
    found |= {
        "entries": table.num_entries,
        "tree_bytes": sum(field.compressed_bytes for field in top),
        "tree_uncompressed_bytes": sum(field.total_bytes for field in top),
    }
    if not found["tree_bytes"] and found["tree_uncompressed_bytes"]:  # all baskets are in the tree's record
        found |= {"tree_bytes": found["bytes"], "tree_uncompressed_bytes": found["uncompressed_bytes"]}
    if wanted:
        fields = _below(fields, wanted)
        if not fields:
            raise NotFoundError(f"{name} has no branch {'/'.join(wanted)}: sapwood ls --tree lists all\n{where}")
        found["branch"] = "/".join(wanted)
    if branches or wanted:
        found["branches"] = list(_branches(table, fields, check=check))
    return found


def _below(fields: Sequence[Foreign], wanted: Sequence[str]) -> list[Foreign]:
    """Return the branch with a path or a name, and the branches in it."""
    paths: dict[int, str] = {}
    for branch in fields:
        above = "" if branch.parent is None else f"{paths[branch.parent]}/"
        paths[branch.index] = f"{above}{branch.name}"
    # The names of branches may contain slashes; the parts of fields are separated by dots.
    path = "/".join(wanted)
    ways = (
        lambda one: paths[one.index] == path,
        lambda one: paths[one.index].replace("/", ".") == path.replace("/", "."),
        lambda one: one.name == path,
    )
    top = next((one for way in ways for one in fields if way(one)), None)
    inside: set[int] = set() if top is None else {top.index}
    for branch in fields:
        if branch.parent in inside:
            inside.add(branch.index)
    return [branch for branch in fields if branch.index in inside]


def _branches(table: Foreign, fields: Sequence[Foreign], *, check: bool) -> Iterator[dict[str, Any]]:
    depths: dict[int, int] = {}
    for branch in fields:
        reason = branch.reason
        if check and reason is None and branch.has_data:
            reason = _undecodable(table, branch)
        left_out = branch.left_out if reason is None else []
        depths[branch.index] = depths.get(branch.parent, -1) + 1
        yield {
            "name": branch.name,
            "depth": depths[branch.index],
            "type": branch.typename,
            "title": branch.title,
            "entries": branch.entries,
            "baskets": branch.num_baskets if isinstance(branch, _native.Branch) else branch.num_pages,
            "bytes": branch.compressed_bytes,
            "uncompressed_bytes": branch.total_bytes,
            "compression": compression_text(branch.compression) if isinstance(branch, _native.Branch) else None,
            "readable": reason is None,
            "reason": reason,
            "left_out": left_out,
            "doubts": branch.doubts if reason is None else [],
        }


def _undecodable(tree: Foreign, branch: Foreign) -> str | None:
    try:
        _native.read([(tree, [branch.index], 0, min(1, branch.entries))])
        # The first entry is often empty.
        longest = branch.longest_entry()
        if longest:
            _native.read([(tree, [branch.index], longest, longest + 1)])
    except SapwoodError as error:
        return one_line(error)
    return None


def date_text(packed: int) -> str:
    """Unpack a date (`fDatime`: year since 1995, month, day, hour, minute, second in 6, 4, 5, 5, 6, 6 bits)."""
    return (
        f"{1995 + (packed >> 26)}-{packed >> 22 & 15:02}-{packed >> 17 & 31:02} "
        f"{packed >> 12 & 31:02}:{packed >> 6 & 63:02}:{packed & 63:02}"
    )


def keys_text(listing: dict[str, Any], *, long: bool = False) -> str:
    """Lay out the keys of a listing as lines of text."""
    rows: list[list[str]] = []
    for key in listing["keys"]:
        entries = f"{count_text(key['entries'])} {noun(key['entries'], 'entry')}" if "entries" in key else ""
        if "error" in key:
            entries = f"cannot be read: {key['error']}"
        row = [f"{key['name']};{key['cycle']}", key["class"], entries]
        if long:
            row[2:2] = [*_sizes(key), key["written"]]
        rows.append([*row, key["title"] if long or key["title"] != key["name"].rpartition("/")[2] else ""])
    head = ""
    if long:
        made_by = " ".join(filter(None, (listing["format"], listing["root_version"])))
        head = (
            f"{made_by}, {bytes_text(listing['size'])}, compression {listing['compression']}, UUID {listing['uuid']}\n"
        )
        rows.insert(0, ["key", "class", "bytes", "uncompressed", "factor", "written", "", "title"])
    if "records" in listing:
        rows = [[kind, count_text(count)] for kind, count in listing["records"].items()]
        return head + layout([["record", "number"], *rows], right=(1,))
    return head + layout(rows, right=(2, 3, 4) if long else ())


def _sizes(described: dict[str, Any]) -> list[str]:
    """Return stored bytes, bytes before compression, and their ratio. Baskets in the tree's record have no own size."""
    compressed = described.get("tree_bytes", described["bytes"])
    full = described.get("tree_uncompressed_bytes", described["uncompressed_bytes"])
    if full and not compressed:
        return ["in the tree", bytes_text(full), "–"]
    return [bytes_text(compressed), bytes_text(full), f"{full / compressed:.2f}" if compressed else "–"]


def branches_text(listing: dict[str, Any]) -> str:
    """Return the branches of all trees of a listing as lines of text, with the reason if one cannot be read."""
    parts: list[str] = []
    for key in listing["keys"]:
        if "error" in key:
            parts.append(f"{safe_line(key['name'])};{key['cycle']}: cannot be read: {safe_line(key['error'])}\n")
        if "branches" not in key:
            continue
        rows = [["branch", "type", "baskets", "bytes", "uncompressed", "factor", ""]]
        for branch in key["branches"]:
            reason = "" if branch["readable"] else f"cannot be read: {branch['reason']}"
            if branch["left_out"]:
                reason = f"is read without {'; '.join(branch['left_out'])}"
            elif branch["doubts"]:
                reason = f"is read in part: {'; '.join(branch['doubts'])}"
            name = "  " * branch["depth"] + branch["name"]
            rows.append([name, branch["type"], count_text(branch["baskets"]), *_sizes(branch), reason])
        compressed, full, factor = _sizes(key)
        count, most = len(key["branches"]), key["entries"]
        branches = f"{count} branch{'' if count == 1 else 'es'}"
        head = f"{safe_line(key['name'])};{key['cycle']}: {count_text(most)} {noun(most, 'entry')}"
        if "branch" not in key:
            head += f", {branches}, {compressed} of {full} (factor {factor})"
        parts.append(f"{head}\n" + layout(rows, right=(2, 3, 4, 5)))
    return "\n".join(parts) if parts else "no trees\n"
