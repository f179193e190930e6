"""The classes that a file describes, and those that an object in it needs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from sapwood.errors import SapwoodError, SapwoodWarning, UnsupportedError
from sapwood.files.directory import ReadOnlyDirectory
from sapwood.files.file import ReadOnlyFile
from sapwood.files.kinds import TREES, root_native
from sapwood.files.tree import TTree
from sapwood.schema.streamers import Streamers, class_names, classes_of, containers
from sapwood.storage.locate import split_path


def _held_by(directory: ReadOnlyDirectory) -> Iterator[str]:
    """Yield the types of the keys of a file and of the branches of its trees."""
    for where, classname in directory.iterclassnames():
        yield classname
        if classname in TREES:
            # Skip a key that cannot be read; the others still count.
            with contextlib.suppress(SapwoodError):
                yield from (branch.cpp_class for branch in directory[where].branches)


def open_streamers(path: str) -> Streamers:
    """Read the classes that a file describes; with the path of an object after a colon, those that the object needs.

    Parameters
    ----------
    path
        The file, as `sapwood.open` takes it.

    Raises
    ------
    SapwoodError
        The file, or the object in it, cannot be read.
    """
    place, inside = split_path(path)
    # Unreadable parts have classes, too.
    with ReadOnlyFile(place) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        directory = file.root_directory
        _ = root_native(directory)
        if inside is None:
            return Streamers(file.streamers.infos(), containers(_held_by(directory)))
        classname = directory.classname_of(inside)
        classes, held = {(name, -1) for name in class_names(classname)}, [classname]
        try:
            found = directory[inside]
        except UnsupportedError:
            found = None
        if isinstance(found, ReadOnlyDirectory):
            return Streamers(file.streamers.infos(), containers(_held_by(found)))
        if isinstance(found, TTree):
            held = [branch.cpp_class for branch in found.branches]
            branches = list(found.itervalues(recursive=True))
            classes |= {(branch.classname, -1) for branch in branches}
            types = [typename for branch in branches for typename in (branch.cpp_class, branch.typename)]
            classes |= {(name, -1) for name in file.streamers.reachable(types)}
        elif found is not None:
            classes |= classes_of(found)
        else:
            classes |= {(name, -1) for name in file.streamers.reachable(held)}
        return file.streamers.needed(sorted(classes), containers(held))
