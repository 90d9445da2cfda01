"""whet.decode against numpy, PyTorch (eager and compiled) and onnxruntime on the same layer, in one run, as ratios.

    python benchmarks/decode_peers                     f32, bf16, int8 and 4-bit weights, 8B-like shape; minutes
    python benchmarks/decode_peers --weights int8      one of them

Peers live in build/decode-peers, one process each, timed inside it. Every answer, ours too, is held against the float64
oracle on the weights and inputs that are timed: to a relative distance of 1e-5 where activations are float32, 2e-2
where a peer rounds them to bfloat16 or 8 bits. Peers have a contiguous cache, ours has pages. Rounds go through all in
turn, with a pause in which a peer's spinning threads fall asleep. 4-bit formats differ (ours: 4-bit floats with a scale
per 16 columns; theirs: 4-bit integers with a scale per 32), so each is held against its own weights.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from bench_decode import made
from install import PYTHON, install

from whet.decode import SHAPES, Schedule, Shape, StoredMatrix, store
from whet.decode.cases import Trial
from whet.decode.oracle import decoded, kv_values, reference, tokens_of
from whet.decode.shapes import MATRIX_ORDER
from whet.decode.stored import WEIGHT_TYPES, to_bf16

SHORT = dict(zip(MATRIX_ORDER, ("q", "k", "v", "o", "gate", "up", "down"), strict=True))
OFFERS = {
    "f32": ("numpy", "torch", "torch.compile", "onnxruntime"),
    "bf16": ("torch", "torch.compile"),
    "int8": ("torch", "torch.compile", "onnxruntime"),
    "fp4": ("torch", "torch.compile", "onnxruntime"),
}
GROUP = 32
ROUNDED = 2e-2
PAUSE_S = 0.25  # threads of OpenBLAS, OpenMP and onnxruntime spin for up to 0.2 s after their work


class Peer:
    """A process that holds the layer and steps on request."""

    def __init__(self, name: str, kind: str, folder: Path) -> None:
        self.name = name
        command = [PYTHON, Path(__file__).with_name("peer_layer.py"), name, kind, folder]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def step_ns(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.answer())

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def to_int4(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes -7 to 7 and a scale, already a bfloat16, per GROUP columns."""
    blocks = dense.reshape(len(dense), -1, GROUP)
    scale = kv_values(to_bf16(np.abs(blocks).max(axis=2) / 7), "bf16")
    codes = np.clip(np.rint(blocks / scale[:, :, None]), -8, 7).astype(np.int8)
    return codes.reshape(dense.shape), scale


def peer_weights(kind: str, name: str, matrix: StoredMatrix, folder: Path) -> StoredMatrix:
    """Writes the matrix in the peer's form; returns what it stands for, as the oracle reads it."""
    raw = matrix.data.reshape(matrix.rows, -1)
    if kind == "f32":
        np.save(folder / f"in.{name}.npy", raw.view(np.float32))
        return matrix
    if kind == "bf16":
        np.save(folder / f"in.{name}.npy", raw.view(np.uint16))
        return matrix
    if kind == "int8":
        # A scale that is a bfloat16 stays the same number for all of them.
        scale = kv_values(to_bf16(matrix.scales.view(np.float32)), "bf16")
        np.save(folder / f"in.{name}.npy", raw.view(np.int8))
        np.save(folder / f"in.{name}.scale.npy", scale)
        return StoredMatrix("int8", matrix.rows, matrix.cols, matrix.data, scale.view(np.uint8))
    codes, scale = to_int4((decoded(matrix).values * np.float32(matrix.global_scale))[:, : matrix.cols])
    np.save(folder / f"in.{name}.npy", codes)
    np.save(folder / f"in.{name}.scale.npy", scale)
    return store("f32", codes * np.repeat(scale, GROUP, axis=1))


def distance(got: np.ndarray, want: np.ndarray) -> float:
    if not np.isfinite(got).all():
        return float("inf")
    return float(np.linalg.norm(got.reshape(-1) - want.reshape(-1)) / np.linalg.norm(want))


def prepare(trial: Trial, shape: Shape, kind: str, folder: Path) -> np.ndarray:
    """Writes everything a peer needs; returns the oracle's answer for it."""
    theirs = {name: peer_weights(kind, SHORT[name], m, folder) for name, m in trial.matrices.items()}
    k, v = tokens_of(trial.cache, 0)
    for name, past in (("past_k", k), ("past_v", v)):
        np.save(folder / f"in.{name}.npy", np.ascontiguousarray(past.transpose(1, 0, 2)))
    np.save(folder / "in.x.npy", trial.x.reshape(-1))
    (folder / "sizes.json").write_text(json.dumps({**shape.as_dict(), "group": GROUP}))
    return reference(shape, theirs, trial.norms, trial.x, trial.cache)


def compare(shape: Shape, kind: str, length: int, seconds: float, versions: dict[str, str]) -> None:
    trial = made(shape, kind, length=length)
    layer = trial.layer()
    schedule = Schedule()
    ours = distance(trial.run(layer, schedule).out, reference(shape, trial.matrices, trial.norms, trial.x, trial.cache))
    if not ours < 1e-5:
        raise SystemExit(f"whet is off by {ours:.1e}; nothing is timed")
    print(f"\n{kind} weights, {length} tokens; whet is {ours:.1e} from float64")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        want = prepare(trial, shape, kind, folder)
        peers = []
        for offer in OFFERS[kind]:
            if offer.split(".")[0] not in versions:
                print(f"  {offer}: not installed")
                continue
            peer = Peer(offer, kind, folder)
            if (said := peer.answer()) != "ready":
                print(f"  {offer}: {said or 'ended without a word'}")
                peer.close()
                continue
            off = distance(np.load(folder / f"out.{offer}.npy"), want)
            if not off < (1e-5 if kind == "f32" else ROUNDED):
                print(f"  {offer}: off by {off:.1e}, not timed")
                peer.close()
                continue
            print(f"  {offer}: {off:.1e} from float64 on its weights")
            peers.append(peer)
    show(race(lambda: trial.run(layer, schedule), peers, seconds))
    for peer in peers:
        peer.close()


def race(step: Callable[[], object], peers: list[Peer], seconds: float) -> dict[str, list[int]]:
    """Rounds in which everybody steps once; who begins moves on from round to round."""

    def ours() -> int:
        start = time.perf_counter_ns()
        step()
        return time.perf_counter_ns() - start

    runs: list[tuple[str, Callable[[], int]]] = [("whet", ours), *((peer.name, peer.step_ns) for peer in peers)]
    taken: dict[str, list[int]] = {name: [] for name, _ in runs}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, run in runs:
            time.sleep(PAUSE_S)
            taken[name].append(run())
        runs.append(runs.pop(0))
    return taken


def show(taken: dict[str, list[int]]) -> None:
    ours = np.array(taken["whet"])
    print(f"  {len(ours)} rounds; ratio > 1: whet is faster")
    for name, times in taken.items():
        each = np.array(times) / ours
        low, middle, high = np.percentile(each, [25, 50, 75])
        print(
            f"  {name:>14}: shortest {min(times) / 1e6:8.2f}, median {np.median(times) / 1e6:8.2f} ms;"
            f" ratio of shortest {min(times) / ours.min():5.2f}, of medians {np.median(times) / np.median(ours):5.2f},"
            f" within rounds {middle:5.2f} ({low:.2f} to {high:.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", choices=WEIGHT_TYPES, action="append")
    parser.add_argument("--shape", choices=("llama-8b", "27b"), default="llama-8b")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=25.0, help="of timing, for each kind of weight")
    given = parser.parse_args()
    versions = install()
    print(f"{given.shape}; " + ", ".join(f"{peer} {version}" for peer, version in versions.items()))
    for kind in given.weights or WEIGHT_TYPES:
        compare(SHAPES[given.shape], kind, given.length, given.seconds, versions)


if __name__ == "__main__":
    main()
