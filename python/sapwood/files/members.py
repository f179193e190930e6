"""Trees and branches as C++ objects with members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.objects.model import Model
    from sapwood.schema import StreamerElement, StreamerInfo


class HasMembers:
    """A C++ object with its own Python class. Its members are read on first access."""

    @property
    def model(self) -> Model:
        """The object with all its members (`Model`). For a tree, its record is read again."""
        raise NotImplementedError

    @property
    def class_version(self) -> int:
        """The version of the class with which the object was written."""
        return self.model.class_version

    @property
    def instance_version(self) -> int:
        """The version of the class with which the object was written."""
        return self.class_version

    @property
    def num_bytes(self) -> int:
        """The size of the object, in bytes, as stored but uncompressed."""
        return self.model.num_bytes

    @property
    def concrete(self) -> Self:
        """The object that this one is a part of: itself."""
        return self

    @property
    def bases(self) -> list[Model]:
        """The parts that the direct base classes contribute, in C++'s order."""
        return self.model.bases

    @property
    def members(self) -> dict[str, Any]:
        """The members of the class itself, by name."""
        return self.model.members

    @property
    def all_members(self) -> dict[str, Any]:
        """The members of the class and of all its bases, by name."""
        return self.model.all_members

    @property
    def member_names(self) -> list[str]:
        """The names of the members of the class itself."""
        return self.model.member_names

    def has_member(self, name: str, all: bool = True) -> bool:  # noqa: A002
        """Return whether the class or (with `all`) a base has a member of that name."""
        return self.model.has_member(name, all)

    def member(self, name: str, all: bool = True, none_if_missing: bool = False) -> Any:  # noqa: A002
        """Return the value of a member; parameters and errors as in `Model.member`."""
        return self.model.member(name, all, none_if_missing)

    def base(self, *cls: type | str) -> list[Model]:
        """List the parts of the given base classes; parameters as in `Model.base`."""
        return self.model.base(*cls)

    def is_instance(self, *cls: type | str) -> bool:
        """Return whether the object is of, or derives from, one of the classes (Python classes or C++ names)."""
        types = tuple(c for c in cls if not isinstance(c, str))
        return isinstance(self, types) or self.model.is_instance(*cls)

    def tojson(self) -> Any:
        """Return its members as `Model.tojson` does."""
        return self.model.tojson()


def described_by(branch: Model) -> StreamerInfo | StreamerElement | None:
    """Return the streamer info of the class, or of the class member, in a branch; None for plain leaves."""
    classname: str | None = branch.member("fClassName", none_if_missing=True)
    if not classname or branch.parent is None:
        return None
    streamers = branch.parent.file.streamers
    versions = streamers.get(classname, {})
    # A `TBranchObject` has none of these.
    checksum, version, number = (
        branch.member(name, none_if_missing=True) for name in ("fCheckSum", "fClassVersion", "fID")
    )
    info = next((one for one in versions.values() if one.checksum == checksum), versions.get(version))
    info = info or streamers.named(classname)
    if info is None or number is None or number < 0:
        return info
    return info.elements[number] if number < len(info.elements) else None
