"""One size and number of threads: every library loaded, then profile after profile, gated and interleaved."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from install import HOME
from peer import Peer
from whet._native.curve import write_points
from whet._native.field import fr

from whet.msm import Engine, inputs
from whet.msm.oracle import known_multiples

LOAD_PATIENCE_S = 60.0
GROWS_FROM = 2**10
LONG_CALL_MS = 2_000.0  # a call that takes longer is not repeated
POINTS_SEED, SCALARS_SEED = 1, 2
OURS_PER_ROUND = 3  # ours is short, so that it gets more chances to be undisturbed
TURN_MS = 20.0  # short calls are made in a row until they have lasted about as long
MOST_CALLS = 2_000

Times = tuple[float, float]  # least CPU and wall milliseconds
Row = dict[str, Any]


def machine() -> str:
    """The processor's own name for itself, and how many threads it has here."""
    about = Path("/proc/cpuinfo").read_text()
    name = next(
        (line.partition(": ")[2] for line in about.splitlines() if line.startswith("model name")), "this machine"
    )
    return f"{name} ({about.count('processor')} logical cores)"


def made_points(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms, and points in Montgomery form; kept between runs, because 2^20 of them take half a minute."""
    logs = inputs.logs("random", n, POINTS_SEED)
    logs[0] = inputs.to_limbs([1])[0]  # one library insists on the generator in the first place
    kept = HOME / "inputs" / f"points-{n}.npy"
    if kept.exists():
        return logs, np.load(kept)
    points = inputs.points_from_logs(logs)
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.save(kept, points)
    return logs, points


def too_slow(rows: list[Row], n: int, threads: int, patience_s: float, name: str) -> str | None:
    """Judged by the largest smaller size, as if time grew with the number of points, which it does from 2^10 on."""
    known = [row for row in rows if row["threads"] == threads and row["n"] < n]
    largest = max((row["n"] for row in known), default=0)
    if largest < GROWS_FROM:
        return None
    at_largest = [row for row in known if row["n"] == largest]
    slowest_s = max((row["ms"][name][1] / 1e3 for row in at_largest if name in row["ms"]), default=0.0)
    if slowest_s * n / largest > patience_s:
        return f"over {patience_s:.0f} s to be expected: {slowest_s:.1f} s for 2^{largest.bit_length() - 1}"
    load_s = max((row["load_ms"].get(name, 0.0) / 1e3 for row in at_largest), default=0.0)
    if load_s * n / largest > LOAD_PATIENCE_S:
        return (
            f"over {LOAD_PATIENCE_S:.0f} s to be expected for loading: {load_s:.0f} s for 2^{largest.bit_length() - 1}"
        )
    if any(row["notes"].get(name, "").startswith("over") for row in at_largest):
        return f"over {patience_s:.0f} s to be expected"
    return None


@dataclass
class Bench:
    """`too_slow(peer)` says why a library is left out of this size, or nothing."""

    n: int
    threads: int
    rounds: int
    patience_s: float
    too_slow: Callable[[str], str | None]
    peers: dict[str, Peer] = field(default_factory=dict)
    load_ms: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        logs, montgomery = made_points(self.n)
        self._logs, plain = inputs.to_ints(logs), write_points(montgomery)
        self._points = {
            "points": self._write("points", plain),
            "points_montgomery": self._write("points_montgomery", montgomery),
        }
        start = time.perf_counter()
        self._engine = Engine(plain, check=True, threads=self.threads)
        self.load_ms["whet"] = 1e3 * (time.perf_counter() - start)

    def load(self, names: list[str]) -> None:
        for name in names:
            if why := self.too_slow(name):
                self.absent[name] = why
                continue
            peer = Peer(name, self.threads)
            answer = peer.ask(self._points, load=self.threads, patience_s=LOAD_PATIENCE_S)
            if "error" in answer:
                self.absent[name] = f"cannot load: {answer['error']}"
                peer.close()
                continue
            self.peers[name] = peer
            self.load_ms[name] = answer["wall_ms"]

    def measure(self, profile: str) -> Row:
        """Every library must give the oracle's answer in every round; one that does not has no time."""
        scalars = fr.reduce(inputs.scalars(profile, self.n, SCALARS_SEED))
        files = {
            "scalars": self._write("scalars", scalars),
            "scalars_montgomery": self._write("scalars_montgomery", fr.to_montgomery(scalars)),
        }
        want = known_multiples(self._logs, inputs.to_ints(scalars))
        best: dict[str, Times] = {}
        live, notes = dict(self.peers), dict(self.absent)
        for _ in range(self.rounds):
            for _ in range(OURS_PER_ROUND):
                calls = _calls(best.get("whet"))
                cpu, start = time.process_time(), time.perf_counter()
                answers = [self._engine.compute(scalars) for _ in range(calls)]
                cpu_ms, wall_ms = 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - start)
                _keep(best, "whet", cpu_ms / calls, wall_ms / calls)
                if wrong := next((got for got in answers if got != want), None):
                    raise SystemExit(f"whet is wrong at n = {self.n}, {profile}: {wrong} instead of {want}")
            for name, peer in list(live.items()):
                answer = peer.ask(files, patience_s=self.patience_s, calls=_calls(best.get(name)))
                if "error" in answer or (int(answer["x"], 0), int(answer["y"], 0)) != (want.x, want.y):
                    notes[name] = answer.get("error", "refused by the gate: another answer")
                    del live[name]
                    best.pop(name, None)
                    if notes[name].startswith("over"):
                        self.absent[name] = f"{notes[name]} for {profile} scalars"
                        del self.peers[name]
                    continue
                _keep(best, name, answer["cpu_ms"], answer["wall_ms"])
                if answer["wall_ms"] > LONG_CALL_MS:
                    del live[name]
        sizes = {"n": self.n, "threads": self.threads, "profile": profile}
        where = {"machine": machine(), "backend": self._engine.backend}
        return {**sizes, **where, "ms": best, "notes": notes, "load_ms": self.load_ms}

    def _write(self, name: str, array: np.ndarray) -> str:
        path = Path(self._folder.name) / name
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        return str(path)

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()
        self._folder.cleanup()


def _calls(known: Times | None) -> int:
    """How many calls fill a turn; one where nothing is known yet."""
    return 1 if known is None else max(1, min(MOST_CALLS, int(TURN_MS / known[1])))


def _keep(best: dict[str, Times], name: str, cpu_ms: float, wall_ms: float) -> None:
    old = best.get(name, (1e99, 1e99))
    best[name] = (min(old[0], cpu_ms), min(old[1], wall_ms))
