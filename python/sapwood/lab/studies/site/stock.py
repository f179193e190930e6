"""The files of `sapwood lab site`, given or generated, in all variants."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import sapwood
from sapwood.compression import parse_codec
from sapwood.errors import ArgumentError
from sapwood.lab.advice.layout import tree_paths
from sapwood.lab.advice.rewriting import Layout, rewrite, write_part
from sapwood.lab.children import job
from sapwood.lab.studies import samples
from sapwood.lab.studies.site.cases import (
    ALONE,
    AS_IS,
    COMPRESSED,
)
from sapwood.show.units import bytes_text
from sapwood.train.data.dataset import Dataset

_ROOM = 0.9  # fraction of the free space that files may take


class Stock:
    """The files of all variants, made at first use; each job has its own files."""

    def __init__(
        self, roots: Sequence[Path], given: Mapping[str, Sequence[str]], tree: str | None, branches: list[str],
        each: int, jobs: int, tell: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.disks = len(roots)
        self._roots, self._each, self._jobs = list(roots), each, jobs
        self._given = {data: list(paths) for data, paths in given.items() if paths}
        self._tell = tell
        self._made: dict[tuple[str, str], list[list[str]]] = {}
        self._known: dict[str, dict[str, float]] = {}
        self._branches = branches
        self.data = list(self._given) or list(samples.KINDS)
        self.tree, self.flat = samples.TREE, True
        if self._given:
            first = self._given[self.data[0]][0]
            (where,) = Dataset.of(first, tree).sources
            with sapwood.open({where.path: None}) as file:
                paths = tree_paths(file, where)
                if len(paths) == 1:
                    self.flat = file[paths[0]].keys() == file[paths[0]].keys(recursive=False)
            if len(paths) != 1:
                raise ArgumentError(f"{first} does not have exactly one tree; name one with --tree: {', '.join(paths)}")
            self.tree = paths[0]

    def far(self, data: str) -> bool:
        """Return whether these files are on remote storage."""
        return any(map(job.far, self._given.get(data, ())))

    def files(self, data: str, variant: str) -> list[list[str]]:
        """Return the files of each job, in a variant."""
        variant = variant if variant.startswith(("merged", "disks", ALONE, COMPRESSED)) else AS_IS
        key = data, variant
        if key not in self._made:
            self._made[key] = list(self._make(data, variant))
        return self._made[key]

    def few(self, data: str) -> list[str]:
        """Return the branches of the simple task."""
        if self._branches:
            return self._branches
        with sapwood.open({self.files(data, AS_IS)[0][0]: self.tree}) as tree:
            return sorted(tree.keys())[-3:]

    def facts(self, data: str, variant: str, jobs: int | None = None) -> dict[str, float]:
        """Return facts of the files of this number of jobs; by default, of all jobs.

        The facts are: files a job; means a file of bytes, events, stored bytes of all and of few branches; and the
        smallest and the largest size.
        """
        lists = self.files(data, variant)[:jobs]
        about = [self._about(data, variant, path) for files in lists for path in files]
        sizes = [one["file_bytes"] for one in about]
        means = {name: sum(one[name] for one in about) / len(about) for name in about[0]}
        return {"files": len(lists[0]), **means, "least_bytes": min(sizes), "most_bytes": max(sizes)}

    def _about(self, data: str, variant: str, path: str) -> dict[str, float]:
        if not self._given:  # generated files are copies of one file
            path = self.files(data, variant)[0][0]
        if path not in self._known:
            with sapwood.open({path: self.tree_of(variant)}) as tree:
                few = float(sum(tree[name].compressed_bytes for name in self.few(data)))
                stored, events = float(tree.compressed_bytes), float(tree.num_entries)
            size = float(job.size_of(path) if job.far(path) else Path(path).stat().st_size)
            self._known[path] = {"file_bytes": size, "events": events, "stored": stored, "few": few}
        return self._known[path]

    def _make(self, data: str, variant: str) -> Iterator[list[str]]:
        word, _, number = variant.partition(" ")
        many = int(number) if word == "merged" else 1
        codec = variant.removeprefix(COMPRESSED) if variant.startswith(COMPRESSED) else None
        spread = self._roots[: int(number)] if word == "disks" else self._roots[:1]
        mine = self._given.get(data, [])
        if mine and variant == AS_IS:
            for place in range(self._jobs):
                yield mine[place * self._each : (place + 1) * self._each]
            return
        self._tell(f"making files: {data}, {variant}")
        folder = variant.replace(" ", "-").replace(":", "-")
        master = self._roots[0] / f"{data}-{folder}.root"
        if self._given:
            given = (path for files in self.files(data, AS_IS) for path in files)
            needed = sum(self._about(data, AS_IS, path)["file_bytes"] for path in given)
        else:
            samples.make(data, master, files=many, codec=codec or samples.CODEC, alone=variant == ALONE)
            needed = self._jobs * max(1, self._each // many) * master.stat().st_size
        self._check_room(spread, needed, f"{data}, {variant}")
        for place in range(self._jobs):
            made: list[str] = []
            own = mine[place * self._each : (place + 1) * self._each]
            for part in range(max(1, self._each // many)):
                where = spread[(place + part) % len(spread)] / f"{data}-{folder}-{place}"
                where.mkdir(exist_ok=True)
                path = where / f"{part}.root"
                if not self._given:
                    shutil.copyfile(master, path)
                elif variant == ALONE:
                    with sapwood.open({own[part]: self.tree}) as tree:
                        write_part(tree, path, Layout(), 0, tree.num_entries)
                elif word == "disks":
                    shutil.copyfile(own[part], path)
                else:
                    layout = Layout() if codec is None else Layout(compression=parse_codec(codec))
                    rewrite(own[part * many : (part + 1) * many], path, layout, tree=self.tree, verify=False)
                made.append(str(path))
            yield made
        master.unlink(missing_ok=True)

    @staticmethod
    def _check_room(folders: Sequence[Path], needed: float, what: str) -> None:
        """Check that the files leave free space on the storage."""
        for folder in folders:
            free = shutil.disk_usage(folder).free
            if needed / len(folders) > _ROOM * free:
                raise ArgumentError(
                    f"{folder.parent} has {bytes_text(free)} left, and the files of {what} take {bytes_text(needed)}: "
                    "choose another folder, fewer --jobs or --files-per-job, or fewer variants (--merge, "
                    "--compression)"
                )

    def tree_of(self, variant: str) -> str:
        """Return the tree's path in the files of a variant."""
        return "T" if self._given and variant == ALONE else self.tree
