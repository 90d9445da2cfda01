"""whet.decode.Layer: one transformer decode layer, computed by the cooperative CPU kernel or on WebGPU."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from whet._native import decode as native
from whet.decode.cache import PagedCache
from whet.decode.shapes import MATRIX_ORDER, NORM_ATTENTION, NORM_MLP, Shape
from whet.decode.stored import E4M3_NAN, KV_TYPES, WEIGHT_TYPES, Floats, StoredMatrix, store
from whet.errors import BadInput, Unsupported
from whet.protocol import Sheet

if TYPE_CHECKING:
    from whet.decode.webgpu.layer import WebGpuLayer
    from whet.gpu import Device

ISAS = ("portable", "avx2", "avx512")
NO_FLOATS: Floats = np.zeros(0, np.float32)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a step is computed. Only `wo_split` changes the bits of the answer, because it changes an order of sums.

    wo_split   W_O over K in this many exclusive slots.
    fc1        `shared`: every worker does its rows, then a barrier. `recomputed`: every worker does all rows.
    barrier    `block` or `spin`; spinning needs a core for every worker.
    launch     `fused`: one launch with barriers. `phased`: one launch per phase.
    rows       `claimed`: a worker that has done its rows takes over others'. `fixed`: to each its own, and one worker
               per slot of W_O.
    """

    wo_split: int = 1
    fc1: str = "shared"
    barrier: str = "block"
    launch: str = "fused"
    rows: str = "claimed"

    def __post_init__(self) -> None:
        if isinstance(self.wo_split, bool) or not isinstance(self.wo_split, int) or self.wo_split < 1:
            raise BadInput(f"wo_split is {self.wo_split!r}", cure="give a whole number from 1")
        for name, allowed in (
            ("fc1", ("shared", "recomputed")),
            ("barrier", ("block", "spin")),
            ("launch", ("fused", "phased")),
            ("rows", ("claimed", "fixed")),
        ):
            if getattr(self, name) not in allowed:
                raise BadInput(f"{name} is {getattr(self, name)!r}", cure=f"one of: {', '.join(allowed)}")

    def __str__(self) -> str:
        knobs = ("wo_split", "fc1", "barrier", "launch", "rows")
        return ",".join(f"{name}={getattr(self, name)}" for name in knobs)


class StepResult(NamedTuple):
    """`out` is (batch, hidden); `k` and `v` of the new token (batch, kv_heads, head_dim), if it is projected."""

    out: Floats
    k: Floats
    v: Floats


class Layer:
    """Weights of one layer, packed, and the workers that compute it.

    weights   by their usual names (`self_attn.q_proj.weight`, ...): arrays, rounded to `weight_type`, or StoredMatrix.
    workers   as many as this process may use cores, unless given. The answer does not depend on it.
    device    `cpu`, `webgpu`, `webgpu:<adapter>`, or an open device that the caller closes.
    """

    def __init__(
        self,
        shape: Shape,
        weights: Mapping[str, StoredMatrix | npt.ArrayLike],
        *,
        weight_type: str = "f32",
        workers: int | None = None,
        isa: str | None = None,
        device: str | Device = "cpu",
    ) -> None:
        self.shape = shape
        self.workers = native.hardware_workers() if workers is None else workers
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or not 1 <= self.workers <= 1024:
            raise BadInput(f"workers is {workers!r}", cure="give 1 to 1024")
        self.isa = ISAS[native.best_isa()] if isa is None else isa
        if self.isa not in ISAS:
            raise BadInput(f"there is no instruction set {isa!r}", cure=f"one of: {', '.join(ISAS)}")
        if not native.isa_usable(ISAS.index(self.isa)):
            raise Unsupported(f"this CPU has no {self.isa}", cure="leave isa out: the best one is chosen")
        matrices = {name: _matrix(name, weights, size, weight_type) for name, size in shape.matrices().items()}
        self.norms = {name: _norm(name, weights, shape) for name in (NORM_ATTENTION, NORM_MLP)}
        # What one step streams from memory, apart from the cache.
        self.weight_bytes = sum(matrix.size_bytes for matrix in matrices.values())
        self.gpu = None if device == "cpu" else self._on_gpu(device, matrices)
        if self.gpu is None:
            # Keeps the arrays it reads; 4-bit weights it may copy into another order, so they are not kept here.
            self._native = self._on_cpu(matrices)

    def _on_gpu(self, device: str | Device, matrices: dict[str, StoredMatrix]) -> WebGpuLayer:
        from whet.decode.webgpu.layer import WebGpuLayer

        if isinstance(device, str) and device.partition(":")[0] != "webgpu":
            raise BadInput(f"there is no device {device!r}", cure="one of: cpu, webgpu, webgpu:<adapter>")
        return WebGpuLayer(self.shape, matrices, self.norms, device)

    def _on_cpu(self, matrices: dict[str, StoredMatrix]) -> Any:
        packed = [
            native.PackedMatrix(
                type=WEIGHT_TYPES.index(m.kind),
                rows=m.rows,
                cols=m.cols,
                data=m.data,
                scales=m.scales,
                global_scale=m.global_scale,
            )
            if (m := matrices.get(name)) is not None
            else None
            for name in MATRIX_ORDER
        ]
        return native.Layer(
            shape=self.shape.as_dict(),
            matrices=packed,
            norm_attention=self.norms[NORM_ATTENTION],
            norm_mlp=self.norms[NORM_MLP],
            workers=self.workers,
            isa=ISAS.index(self.isa),
        )

    @classmethod
    def from_safetensors(cls, path: str | Path, index: int, shape: Shape, **options: Any) -> Layer:
        """Reads `model.layers.<index>.*` of a safetensors file."""
        from whet.decode.files import read_layer

        return cls(shape, read_layer(path, index, shape), **options)

    def step(
        self,
        x: npt.NDArray[np.float32],
        cache: PagedCache,
        *,
        cosine: Floats | None = None,
        sine: Floats | None = None,
        gate: Floats | None = None,
        schedule: Schedule | None = None,
        timed: bool = False,
        out: Floats | None = None,
    ) -> StepResult:
        """One token per sequence. The cache is only read: append `k` and `v` to it afterwards.

        cosine, sine   (batch, head_dim / 2): rotary embedding of the new token's position; both or neither.
        gate           (batch, q_heads * head_dim): the attention's output times its sigmoid.
        timed          records regions, for `save_regions`. The bits of the answer are the same.
        """
        shape, schedule = self.shape, schedule or Schedule()
        cache.check(shape)
        batch = cache.batch
        if (cosine is None) != (sine is None):
            raise BadInput("one of cosine and sine is missing", cure="give both or neither")
        half = (batch, shape.head_dim // 2)
        given = {
            "x": _flat("x", x, (batch, shape.hidden)),
            "cosine": NO_FLOATS if cosine is None else _flat("cosine", cosine, half),
            "sine": NO_FLOATS if sine is None else _flat("sine", sine, half),
            "gate": NO_FLOATS if gate is None else _flat("gate", gate, (batch, shape.q_size)),
        }
        out = np.empty((batch, shape.hidden), np.float32) if out is None else out
        own = (batch if shape.own_token else 0, shape.kv_heads, shape.head_dim)
        if self.gpu is not None:
            target = _flat("out", out, (batch, shape.hidden))
            angles = None if cosine is None or sine is None else (cosine, sine)
            target[:], own_k, own_v = self.gpu.step(x, cache, angles, gate, schedule=schedule, timed=timed)
            return StepResult(out, own_k.reshape(own), own_v.reshape(own))
        k, v = np.empty(own, np.float32), np.empty(own, np.float32)
        complaint = self._native.run(
            **given,
            k_cache=_raw(cache.k),
            v_cache=_raw(cache.v),
            kv_type=KV_TYPES.index(cache.kv_type),
            page_size=cache.k.shape[1],
            table=np.ascontiguousarray(cache.table).reshape(-1),
            lengths=np.ascontiguousarray(cache.lengths),
            out=_flat("out", out, (batch, shape.hidden)),
            k_out=k.reshape(-1),
            v_out=v.reshape(-1),
            wo_split=schedule.wo_split,
            fc1_shared=schedule.fc1 == "shared",
            spin=schedule.barrier == "spin",
            fused=schedule.launch == "fused",
            claimed=schedule.rows == "claimed",
            timed=timed,
        )
        if complaint:
            raise BadInput(complaint, cure="correct the cache or the schedule; nothing was computed")
        return StepResult(out, k, v)

    def arrivals(self) -> list[int]:
        """Arrivals at each barrier of the last launch, and last the W_O slots that were done; none on a GPU."""
        if self.gpu is not None:
            return []
        return [int(count) for count in self._native.arrivals()]

    def regions_ns(self) -> dict[str, int]:
        """What a worker spent in each region of the last step, on average; empty unless that step was timed.

        Waits are regions too, so together they are the step. On a GPU see `gpu.passes_ns`.
        """
        if self.gpu is not None:
            return {}
        return {name: total_ns // self.workers for name, total_ns in self._native.region_ticks()}

    def sheet(self, launch: str = "") -> Sheet | None:
        """The regions of the last timed step, worker by worker; None where there are none, or no place to write."""
        if self.gpu is not None:
            return None
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "step.npy"
            if self._native.save_regions(path=str(path), launch=launch):
                return Sheet(path.read_bytes(), path.with_name("step.npy.json").read_bytes())
        return None

    def close(self) -> None:
        """Gives back what the layer holds on a GPU. Safe to call again; a layer on the CPU holds nothing."""
        if self.gpu is not None:
            self.gpu.close()

    def save_regions(self, path: str | Path, launch: str = "") -> None:
        """Writes the regions of the last timed step as PATH and PATH.json, which `whet regions` reads."""
        if self.gpu is not None:
            raise Unsupported(
                "passes of a GPU are not kept as a sheet", cure="use `whet regions capture decode webgpu`"
            )
        if not self._native.save_regions(path=str(path), launch=launch):
            raise BadInput(
                f"no regions to write to {path}", cure="run step(..., timed=True) first; the folder must exist"
            )


def _matrix(
    name: str, weights: Mapping[str, StoredMatrix | npt.ArrayLike], size: tuple[int, int], weight_type: str
) -> StoredMatrix:
    if name not in weights:
        raise BadInput(f"the weight {name} is missing", cure="give every matrix of Shape.matrices()")
    given = weights[name]
    stored = given if isinstance(given, StoredMatrix) else store(weight_type, given)
    if (stored.rows, stored.cols) != size:
        raise BadInput(f"{name} is {stored.rows} x {stored.cols}", cure=f"the shape needs {size[0]} x {size[1]}")
    # Kernels would make NaN of it, as the format says, and every output would be that: better to name the weight.
    if stored.kind == "fp4" and (odd := (stored.scales & E4M3_NAN) == E4M3_NAN).any():
        where = int(np.argmax(odd))
        raise BadInput(f"scale {where} of {name} is NaN", cure="check the file it came from", index=where)
    return stored


def _norm(name: str, weights: Mapping[str, StoredMatrix | npt.ArrayLike], shape: Shape) -> Floats:
    given = weights.get(name)
    if given is None or isinstance(given, StoredMatrix):
        raise BadInput(f"the weight {name} is missing", cure="give it as a vector of floats")
    vector = np.ascontiguousarray(given, np.float32)
    if vector.shape != (shape.hidden,) or not np.isfinite(vector).all():
        raise BadInput(f"{name} has the shape {vector.shape} or is not finite", cure=f"give {shape.hidden} floats")
    return vector


def _flat(name: str, array: Any, shape: tuple[int, ...]) -> Floats:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise BadInput(f"{name} is not a float32 array", cure="convert it with np.asarray(..., np.float32)")
    if array.shape != shape:
        raise BadInput(f"{name} has the shape {array.shape}", cure=f"give {shape}")
    if not array.flags.c_contiguous:
        raise BadInput(f"{name} is not contiguous", cure="use np.ascontiguousarray")
    return array.reshape(-1)


def _raw(cache: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return cache.reshape(-1).view(np.uint8)
