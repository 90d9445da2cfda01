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
LONG_CALL_MS = 2_000.0  # a call that takes longer is not repeated
POINTS_SEED, SCALARS_SEED = 1, 2
OURS_PER_ROUND = 3  # ours is short, so that it gets more chances to be undisturbed

Times = tuple[float, float]  # least CPU and wall milliseconds
Row = dict[str, Any]


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
            peer = Peer(name)
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
                cpu, start = time.process_time(), time.perf_counter()
                got = self._engine.compute(scalars)
                _keep(best, "whet", 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - start))
                if got != want:
                    raise SystemExit(f"whet is wrong at n = {self.n}, {profile}: {got} instead of {want}")
            for name, peer in list(live.items()):
                answer = peer.ask(files, patience_s=self.patience_s)
                if "error" in answer or (int(answer["x"]), int(answer["y"])) != (want.x, want.y):
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
        return {**sizes, "ms": best, "notes": notes, "load_ms": self.load_ms}

    def _write(self, name: str, array: np.ndarray) -> str:
        path = Path(self._folder.name) / name
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        return str(path)

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()
        self._folder.cleanup()


def _keep(best: dict[str, Times], name: str, cpu_ms: float, wall_ms: float) -> None:
    old = best.get(name, (1e99, 1e99))
    best[name] = (min(old[0], cpu_ms), min(old[1], wall_ms))
