"""How far a heap grows that tensors come from and go back to.

The processes of jobs keep the memory of freed tensors (`cemlib.environment`), so that a hole
between two tensors that live on is resident, too, and a job's peak is more than what lives.

This is the GNU allocator as far as it matters for large blocks: the smallest hole that is large
enough, neighbouring holes become one, and an aligned block needs some bytes more than it holds, so
that it does not fit into the hole of an equal one.
"""

from bisect import bisect_left, insort

ALIGNMENT = 64  # of torch's tensors on the CPU
OVERHEAD = 32  # smallest block of the allocator


class Heap:
    """Blocks at addresses from 0 on.

    Attributes:
        top: bytes up to the end of the highest block that there ever was.
        live: bytes that are in use now.
        most: bytes that were in use at most.
    """

    def __init__(self) -> None:
        self.top = self.live = self.most = 0
        self._sizes: dict[int, int] = {}  # of blocks in use, by address
        self._starts: dict[int, int] = {}  # sizes of holes, by address
        self._ends: dict[int, int] = {}  # addresses of holes, by the address behind them
        self._holes: list[tuple[int, int]] = []  # size and address, in order

    def take_apart(self, size: int) -> tuple[int, int]:
        """A block and, right behind it, the smallest one: addresses of both."""
        address = self.take(size + OVERHEAD)
        self._sizes[address] -= OVERHEAD
        behind = address + self._sizes[address]
        self._sizes[behind] = OVERHEAD
        self.live -= OVERHEAD
        return address, behind

    def take(self, size: int) -> int:
        """Put a block of so many bytes somewhere; returns its address."""
        wanted = size + OVERHEAD
        place = bisect_left(self._holes, (wanted + ALIGNMENT, -1))
        if place < len(self._holes):
            hole, address = self._holes[place]
            self._fill(address, hole)
            self._dig(address + wanted, hole - wanted)
        else:
            address = self._below_top()
            self.top = max(self.top, address + wanted)
        self._sizes[address] = wanted
        self.live += size
        self.most = max(self.most, self.live)
        return address

    def give_back(self, address: int) -> None:
        """Free the block at an address, and join it with the holes beside it."""
        size = self._sizes.pop(address)
        self.live -= size - OVERHEAD
        behind = address + size
        if behind in self._starts:
            more = self._starts[behind]
            self._fill(behind, more)
            size += more
        if address in self._ends:
            before = self._ends[address]
            more = self._starts[before]
            self._fill(before, more)
            address, size = before, size + more
        self._dig(address, size)

    def _below_top(self) -> int:
        """Where a block begins that makes the heap grow: in the last hole, if that is the end."""
        if self.top not in self._ends:
            return self.top
        address = self._ends[self.top]
        self._fill(address, self._starts[address])
        return address

    def _dig(self, address: int, size: int) -> None:
        self._starts[address], self._ends[address + size] = size, address
        insort(self._holes, (size, address))

    def _fill(self, address: int, size: int) -> None:
        del self._starts[address], self._ends[address + size]
        self._holes.pop(bisect_left(self._holes, (size, address)))
