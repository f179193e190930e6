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
        """The streamer info of the class."""
        return self._info

    @property
    def member_names(self) -> list[str]:
        """The names of the members of the class itself."""
        return [element.name for element in self._info.members]

    @property
    def base_names_versions(self) -> list[tuple[str, int]]:
        """The direct base classes and their versions; -1 for a base without its own version."""
        return [(base.name, base.member("fBaseVersion")) for base in self._info.bases]

    def strided_interpretation(self, *_: object, header: bool = False) -> AsStridedObjects:
        """Return the interpretation of objects of the class. Positional arguments of uproot are ignored.

        Parameters
        ----------
        header
            Whether the data include the version header of the class.

        Raises
        ------
        UnsupportedError
            A member is not a number.
        """
        members = self._streamers.strided_members(self.classname, self._info.class_version, header)
        return AsStridedObjects(CppClass(self.classname, self.class_version), members)
