"""A made-up cooperative launch: what a kernel would write, simulated event by event, with the truth beside it.

Shares no code with whet.regions. Times are nanoseconds; every tick is rounded down to the clock's step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

BASE = 93_000_000_000
STEP = 32


@dataclass
class Launch:
    """Events of one launch: (worker, region) -> list of (entry, exit), in the order in which they happened."""

    slices: int = 8
    tiles: int = 8
    seqs: int = 1
    wo_split: int = 1
    kv_heads: int = 4
    trips: int = 34
    wo_ns: int = 1_400_000
    fc1_ns: int = 60_000
    fc2_ns: int = 12_000
    seed: int = 7
    step: int = STEP
    events: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    last_arriver: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        self.random = random.Random(self.seed)
        for seq in range(self.seqs):
            self._sequence(seq)

    @property
    def workers(self):
        return self.slices * self.tiles * self.seqs

    @property
    def grid(self):
        return {"slice_ctas": self.slices, "num_k_tiles": self.tiles, "num_seqs": self.seqs}

    def worker(self, bx, by, bz):
        return bz * self.slices * self.tiles + by * self.slices + bx

    def tick(self, time):
        return int(time) // self.step * self.step

    def _run(self, worker, region, start, length):
        end = start + max(1, int(length))
        self.events.setdefault((worker, region), []).append((self.tick(start), self.tick(end)))
        return end

    def _jitter(self, length):
        return length * (1 + 0.02 * self.random.random())

    def _sequence(self, bz):
        clock = {}
        places = [(bx, by) for by in range(self.tiles) for bx in range(self.slices)]
        for bx, by in places:
            worker = self.worker(bx, by, bz)
            now = self._run(worker, 13, BASE + self.random.randrange(700), 900)
            if bx == 0 and by == 0:
                now = self._run(worker, 0, now, 12_000)
            if bx == 0 and by < 4:
                now = self._run(worker, 1, now, self._jitter(90_000))
            clock[worker] = now
        producers = [self.worker(0, by, bz) for by in range(min(4, self.tiles))]
        attention = max(self.events[w, 1][-1][1] for w in producers)
        finished = {}
        for bx, by in places:
            worker = self.worker(bx, by, bz)
            if bx < min(self.wo_split, self.slices) and by < min(self.kv_heads, self.tiles):
                if bx > 0:
                    leave = max(attention + 320, clock[worker] + 320)
                    self._run(worker, 11, clock[worker], leave - clock[worker])
                    clock[worker] = leave
                now = self._run(worker, 2, clock[worker], self._jitter(self.wo_ns / self.wo_split))
                clock[worker] = finished[worker] = self._run(worker, 3, now, 40)
        elected = max(finished, key=lambda w: finished[w])
        clock[elected] = self._run(elected, 12, clock[elected], 70_000)
        self.last_arriver[bz] = max(clock, key=lambda w: clock[w])
        release = max(clock.values()) + 500
        for worker, arrival in clock.items():
            self._run(worker, 4, arrival, release - arrival)
            clock[worker] = release + self.random.randrange(3) * 32
        for bx, by in places:
            worker = self.worker(bx, by, bz)
            now = self._run(worker, 5, clock[worker], 1_900)
            now = self._run(worker, 6, now, 110)
            for _ in range(self.trips):
                now = self._run(worker, 7, now, self._jitter(self.fc1_ns))
                now = self._run(worker, 8, now, 560)
                now = self._run(worker, 9, now, self._jitter(self.fc2_ns))
            now = self._run(worker, 19, now, 700)
            if bx == by:
                self._run(worker, 15, now + 64, 2_000)
                now = self._run(worker, 10, now, 2_600)
            else:
                now = self._run(worker, 10, now, 200)
            self._run(worker, 14, now, 150)

    @property
    def span(self):
        every = [event for events in self.events.values() for event in events]
        return max(e for _, e in every) - min(s for s, _ in every)

    def total(self, worker, region):
        return sum(end - start for start, end in self.events.get((worker, region), []))

    def legacy(self, regions):
        """The (workers, regions, 2) buffer of a kernel with that many regions: each trip overwrites the one before."""
        buffer = np.zeros((self.workers, regions, 2), dtype=np.int64)
        for (worker, region), events in self.events.items():
            if region < regions:
                buffer[worker, region] = events[-1]
        if regions == 20:
            for worker in range(self.workers):
                for total, part in ((16, 7), (17, 8), (18, 9)):
                    buffer[worker, total, 1] = self.total(worker, part)
        return buffer

    def cells(self, dtype, regions=20):
        """The richer layout: every loop region summed over its trips. Slots 16 to 18 are not used."""
        cells = np.zeros((self.workers, regions), dtype=dtype)
        for (worker, region), events in self.events.items():
            cells[worker, region] = (events[0][0], events[-1][1], self.total(worker, region), len(events), 1)
        return cells


RICH_SCHEMA = """
name = "rich"
axes = [{ name = "bx", size = "slice_ctas" }, { name = "by", size = "num_k_tiles" }, { name = "bz", size = "num_seqs" }]
[parameters]
wo_split = 1
num_kv_heads = 4
trips = 34
"""

_WO = "bx < min(wo_split, slice_ctas) and by < min(num_kv_heads, num_k_tiles)"
_ROWS = [
    ("norm", "work", 'active = "bx == 0 and by == 0"'),
    ("attention", "work", 'active = "bx == 0 and by < min(4, num_k_tiles)"'),
    ("wo_gemv", "work", f'active = "{_WO}"\ntags = ["k_reducible"]\nlabel = "W_O"'),
    ("wo_post", "work", f'active = "{_WO}"'),
    ("barrier", "wait", 'scope = ["bz"]'),
    ("load_x", "work", ""),
    ("reset", "work", ""),
    ("fc1", "work", 'per = "trip"\ntrips = "trips"\ntags = ["k_reducible"]\nlabel = "FC1"'),
    ("quant", "work", 'per = "trip"\ntrips = "trips"'),
    ("fc2", "work", 'per = "trip"\ntrips = "trips"\ntags = ["k_reducible"]\nlabel = "FC2"'),
    ("arrival", "work", ""),
    ("attention_wait", "wait", f'active = "bx > 0 and {_WO}"\nscope = ["bz"]\nreleased_by = 1'),
    ("gather", "work", "elected = true"),
    ("prologue", "boundary", ""),
    ("epilogue", "boundary", ""),
    ("elected_gather", "work", "elected = true\nparent = 10"),
    ("unused_16", "work", "elected = true"),
    ("unused_17", "work", "elected = true"),
    ("unused_18", "work", "elected = true"),
    ("after_loop", "work", ""),
]


def rich_schema_text(rows=None):
    """A schema for `Launch.cells`; `rows` replaces some of them by index."""
    text = RICH_SCHEMA
    for index, (name, role, more) in enumerate(_ROWS):
        name, role, more = (rows or {}).get(index, (name, role, more))  # noqa: PLW2901
        text += f'[[region]]\nid = {index}\nname = "{name}"\nrole = "{role}"\n{more}\n'
    return text
