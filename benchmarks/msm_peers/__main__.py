"""whet.msm against the libraries that can be installed by name, in one run: gated, interleaved, as ratios.

    python benchmarks/msm_peers            sizes 2^10, 2^12, 2^14; random, 0/1 and 32-bit scalars; about two minutes
    python benchmarks/msm_peers --full     2^10 to 2^20, one and two threads, every profile

Each library runs in a process of its own and is timed inside it, process CPU time and wall time, so that neither the
pipe nor a busy machine counts. Repetitions go round all libraries in turn. A library whose answer differs from ours on
a case is not timed on it. Reading points into a library's own form is timed as "load".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from whet._native.curve import write_points
from whet._native.field import fr

from whet.msm import Engine, inputs

sys.path.insert(0, str(Path(__file__).parent))
from install import NODE_HOME, NPM, PYTHON, install

HERE = Path(__file__).parent
LARGEST = {"noble": 2**11, "zksnake": 2**17, "ffjavascript": 2**20, "barretenberg": 2**18, "frx": 2**18}
PROFILES_FULL = ("random", "bits01", "bits32", "equal", "A", "B", "C", "D", "E")


class Peer:
    """A library behind a pipe."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name in NPM:
            command = ["node", "--max-old-space-size=8192", str(HERE / "peer_node.mjs"), name, str(NODE_HOME)]
        else:
            command = [str(PYTHON), str(HERE / "peer_python.py"), name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, files: dict[str, str], load: int | None = None) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        request: dict[str, Any] = {"files": files} if load is None else {"files": files, "load": load}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            while line := self._process.stdout.readline():
                if line.startswith("{"):
                    return json.loads(line)  # type: ignore[no-any-return]
        except BrokenPipeError:
            pass
        return {"error": f"the process ended with {self._process.poll()}"}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def write(folder: Path, name: str, array: np.ndarray) -> str:
    path = folder / name
    path.write_bytes(np.ascontiguousarray(array).tobytes())
    return str(path)


@dataclass
class Bench:
    """All libraries loaded with the points of one size."""

    n: int
    threads: int
    rounds: int
    folder: Path
    peers: dict[str, Peer] = field(default_factory=dict)
    load_ms: dict[str, float] = field(default_factory=dict)

    def load(self, names: list[str]) -> None:
        logs = inputs.logs("random", self.n, 1)
        logs[0] = inputs.to_limbs([1])[0]  # one library insists on the generator in the first place
        montgomery = inputs.points_from_logs(logs)
        plain = write_points(montgomery)
        files = {
            "points": write(self.folder, "points", plain),
            "points_montgomery": write(self.folder, "points_montgomery", montgomery),
        }
        start = time.perf_counter()
        self.engine = Engine(plain, check=True, threads=self.threads)
        self.load_ms["whet"] = 1e3 * (time.perf_counter() - start)
        for name in names:
            if self.n > LARGEST.get(name, self.n):
                continue
            self.peers[name] = Peer(name)
            answer = self.peers[name].ask(files, load=self.threads)
            if "error" in answer:
                print(f"   {name}: cannot load: {answer['error']}")
                self.peers.pop(name).close()
                continue
            self.load_ms[name] = answer["wall_ms"]

    def measure(self, profile: str) -> dict[str, Any]:
        scalars = fr.reduce(inputs.scalars(profile, self.n, 2))
        files = {
            "scalars": write(self.folder, "scalars", scalars),
            "scalars_montgomery": write(self.folder, "scalars_montgomery", fr.to_montgomery(scalars)),
        }
        want = self.engine.compute(scalars)
        best: dict[str, tuple[float, float]] = {}

        def keep(name: str, cpu_ms: float, wall_ms: float) -> None:
            old = best.get(name, (1e99, 1e99))
            best[name] = (min(old[0], cpu_ms), min(old[1], wall_ms))

        live, notes = dict(self.peers), {}
        for _ in range(self.rounds):
            for _ in range(3):
                cpu, start = time.process_time(), time.perf_counter()
                self.engine.compute(scalars)
                keep("whet", 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - start))
            for name, peer in list(live.items()):
                answer = peer.ask(files)
                if "error" in answer or (int(answer["x"]), int(answer["y"])) != (want.x, want.y):
                    notes[name] = answer.get("error", "refused by the gate: another answer")
                    del live[name]
                    best.pop(name, None)
                    continue
                keep(name, answer["cpu_ms"], answer["wall_ms"])
        self.show(profile, best, notes)
        sizes = {"n": self.n, "threads": self.threads, "profile": profile}
        return {**sizes, "best_cpu_wall_ms": best, "notes": notes, "load_ms": self.load_ms}

    def show(self, profile: str, best: dict[str, tuple[float, float]], notes: dict[str, str]) -> None:
        print(f"\n2^{self.n.bit_length() - 1} points, {self.threads} thread(s), {profile} scalars")
        print(f"   {'':14}{'CPU ms':>10}{'wall ms':>10}{'CPU ratio':>10}{'load ms':>10}")
        for name, (cpu_ms, wall_ms) in sorted(best.items(), key=lambda item: item[1][0]):
            ratio = cpu_ms / best["whet"][0]
            print(f"   {name:14}{cpu_ms:10.2f}{wall_ms:10.2f}{ratio:9.1f}x{self.load_ms[name]:10.1f}")
        for name, note in notes.items():
            print(f"   {name:14}{note}")

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--sizes", help="such as 10,12,14: powers of two")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    trouble = install()
    for name, why in trouble.items():
        if why:
            print(f"{name}: not installed here: {why}")
    names = [name for name, why in trouble.items() if not why]
    exponents = [10, 12, 14, 16, 18, 20] if options.full else [10, 12, 14]
    if options.sizes:
        exponents = [int(part) for part in options.sizes.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for exponent in exponents:
            for threads in (1, 2) if options.full else (1,):
                profiles = list(PROFILES_FULL if options.full else ("random", "bits01", "bits32"))
                bench = Bench(2**exponent, threads, 3 if exponent <= 14 else 2, Path(folder))
                try:
                    bench.load(names)
                    rows += [bench.measure(profile) for profile in profiles]
                finally:
                    bench.close()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
