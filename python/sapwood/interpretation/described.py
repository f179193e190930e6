"""Classes as a file describes them."""

from __future__ import annotations

from sapwood.containers.types import CppClass
from sapwood.interpretation.objects import AsStridedObjects
from sapwood.schema import StreamerInfo, Streamers


class DescribedClass(CppClass):
    """A version of a C++ class as a file describes it."""

    def __init__(self, streamers: Streamers, info: StreamerInfo) -> None:
        super().__init__(info.name, info.class_version)
        self._streamers = streamers
        self._info = info

    @property
    def class_streamer(self) -> StreamerInfo:
        """What the file says of the class."""
        return self._info

    @property
    def member_names(self) -> list[str]:
        """The names of the members of this class alone."""
        return [element.name for element in self._info.members]

    @property
    def base_names_versions(self) -> list[tuple[str, int]]:
        """The direct base classes and their versions; -1 for one that has none of its own."""
        return [(base.name, base.member("fBaseVersion")) for base in self._info.bases]

    def strided_interpretation(self, *_: object, header: bool = False) -> AsStridedObjects:
        """Return what objects of the class are read as; arguments without a name, which uproot has, are ignored.

        Parameters
        ----------
        header
            Whether the version header of the class is there.

        Raises
        ------
        UnsupportedError
            A member is no number.
        """
        members = self._streamers.strided_members(self.classname, self._info.class_version, header)
        return AsStridedObjects(CppClass(self.classname, self.class_version), members)
