"""Reading branches that were not named beforehand: those that were used in the first entries are fetched ahead.

Only storage far away gains by it. Where branches are read one by one over a range of entries, and then over the range
behind it, all that were used so far are announced for that range and as many entries again as were read, up to the end
of a cluster: so what is fetched in vain is no more than what was used. In another file with a tree of the same name,
the branches of the file before are expected from the first read on. A branch that was not expected is a miss
(`misses` of the counters) and fetched by itself.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sapwood import _native
    from sapwood.files.tree import TBranch, TTree

_CARRIED = 32 << 20

_last: dict[str, dict[int, str]] = {}
"""By the name of the tree, the branches used where such a tree was read last; of at most `_KEPT` trees."""
_KEPT = 100
_LOCK = threading.Lock()


class _Window(NamedTuple):
    """Entries of which the expected branches were announced."""

    start: int
    stop: int
    carry: _native.Carry


class Learned:
    """Which branches of a tree are used, and how far they were read."""

    def __init__(self, tree: TTree) -> None:
        self._tree = tree.native
        self._clusters = tree.clusters
        self._entries = tree.num_entries
        self._name = tree.object_path
        self._used: dict[int, str] = {}
        self._ends: set[int] = set()
        self._first = 0
        self._window: _Window | None = None

    def carry_for(self, branch: TBranch, start: int, stop: int) -> _native.Carry | None:
        """Note that a branch is read; give what its reading goes on with if it was announced, or others were."""
        with _LOCK:
            expected = set(self._used)
            begins = not self._ends
            if begins:
                self._first = start
                names = set(_last.pop(self._name, {}).values())
                expected = {b.native_index for b in branch.tree.descendants() if not b.is_group and _path(b) in names}
                _last[self._name] = self._used
                while len(_last) > _KEPT:
                    del _last[next(iter(_last))]
            self._used[branch.native_index] = _path(branch)
            goes_on = start in self._ends
            self._ends.add(stop)
            window = self._window
            if window is not None and window.start <= start and stop <= window.stop:
                return window.carry
            expected.add(branch.native_index)
            if not (begins or goes_on) or len(expected) < 2:
                return None
            self._ends = {stop}
            self._window = self._announced(sorted(expected), start, self._until(start, stop) if goes_on else stop)
            return None if self._window is None else self._window.carry

    def give_up(self) -> None:
        """Let go of what was announced, of which some could not be fetched: who reads it next has it asked for anew."""
        with _LOCK:
            self._window = None

    def _until(self, start: int, stop: int) -> int:
        """Say how far to read ahead: as many entries again as were read, and to the end of that cluster."""
        far = min(self._entries, max(stop, start + (start - self._first)))
        place = bisect_left(self._clusters, far)
        return max(stop, self._clusters[place] if place < len(self._clusters) else far)

    def _announced(self, branches: list[int], start: int, stop: int) -> _Window | None:
        from sapwood import _native

        # What was announced before is let go first: nobody waits for its memory.
        self._window = None
        carry = _native.Carry(_CARRIED)
        carry.announce(self._tree, branches, start, stop)
        return _Window(start, stop, carry) if carry.announced else None


def _path(branch: TBranch) -> str:
    return branch.path_in(branch.tree)
