"""whet.decode as the gate and the trial see it: cases, variants, oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from whet.decode.cache import PagedCache
from whet.decode.cases import angles, random_cache, random_trial, random_weights
from whet.decode.layer import Layer, Schedule
from whet.decode.oracle import LEAST_HIDDEN, reference, within_ulp
from whet.decode.shapes import MAX_BATCH, NORM_ATTENTION, NORM_MLP, SHAPES, Shape
from whet.decode.stored import KV_TYPES, WEIGHT_TYPES, StoredMatrix
from whet.decode.webgpu.geometry import Geometry, copies_of
from whet.decode.webgpu.memory import memory_map
from whet.errors import BadInput, Unsupported
from whet.protocol import (
    Array,
    Arrays,
    Case,
    Engine,
    HardCase,
    Knob,
    MemoryRow,
    Output,
    PortableProgram,
    Timing,
    Tolerance,
    Variant,
    VariantSpec,
    Work,
)

BY_HIDDEN = {shape.hidden: shape for shape in SHAPES.values()}
# Of one number as it is stored, scales aside.
BITS = {"f32": 32, "bf16": 16, "int8": 8, "fp4": 4, "e4m3": 8}
NORMS = (NORM_ATTENTION, NORM_MLP)
MAX_LENGTH = 2**20
# A hard case spells its shape out.
SHAPE_SIZES = ("hidden", "intermediate", "q_heads", "kv_heads", "head_dim", "own_token")
KNOBS = (
    Knob("wo_split", 1, minimum=1, maximum=1024, help="W_O over K in this many slots"),
    Knob("fc1", "shared", choices=("shared", "recomputed"), help="gate/up once for all, or once per worker"),
    Knob("barrier", "block", choices=("block", "spin"), help="how a worker waits for the others"),
    Knob("rows", "claimed", choices=("claimed", "fixed"), help="take over others' rows, or to each its own"),
    Knob("workers", 0, minimum=0, maximum=1024, help="0 is one per core"),
    Knob("timing", False, help="record regions inside the kernel"),
)
# What a verdict sums: products whose rows are sums over K.
REGION_TAGS = {name: ("k_reducible",) for name in ("project", "wo", "fc1", "fc2")}
WAITS = frozenset(("wait_project", "wait_attend", "wait_wo", "wait_fc1"))
GPU_KNOBS = (*KNOBS[:2], Knob("timing", True, help="ask the device for the time of every pass"))


@dataclass(frozen=True)
class State:
    """A layer, and the cache of the trial: on a GPU it stays there from step to step."""

    layer: Layer
    cache: PagedCache


class DecodeEngine(Engine):
    """One step of one layer. Weights and cache stay for a whole trial, hidden states are new in every repeat.

    The profile is `<weights>-<kv>`, such as `int8-bf16`. The size `hidden` names the shape: 64, 4096 or 5120.
    """

    name = "decode"
    tolerance = Tolerance(relative=1e-5, absolute=2e-5)
    devices = ("cpu", "webgpu")

    def cases(self) -> Sequence[Case]:
        lengths = (0, 1, 15, 16, 17, 63, 64, 65)
        small = [_case(batch, length, 16, "f32-f32") for batch, length in enumerate(lengths, 1)]
        return small + [_case(3, 37, 5, profile) for profile in self.profiles()[1:]]

    def profiles(self) -> Sequence[str]:
        return [f"{weights}-{kv}" for weights in WEIGHT_TYPES for kv in KV_TYPES]

    def variants(self) -> Sequence[VariantSpec]:
        on_cpu = [
            VariantSpec("phased", "one launch per phase", KNOBS),
            VariantSpec("fused", "one cooperative launch with barriers", KNOBS),
        ]
        on_gpu = [VariantSpec("webgpu", "one dispatch per dependency, on a GPU", GPU_KNOBS)]
        return on_cpu + (on_gpu if find_spec("wgpu") else [])

    def device_of(self, variant: Variant, device: str) -> str:
        """The variant `webgpu` takes the best adapter where the device is `cpu`, so that both can be compared."""
        return "webgpu" if variant.name == "webgpu" and device == "cpu" else device

    def outputs(self, case: Case) -> Mapping[str, Output]:
        return {"out": Output((case.sizes["batch"], _shape(case).hidden), np.float32)}

    def fixed(self, case: Case, seed: int) -> dict[str, Array]:
        shape, rng = _shape(case), np.random.default_rng(seed)
        weights, kv = case.profile.split("-")
        sizes = case.sizes
        matrices, norms = random_weights(shape, weights, rng)
        # Ragged: each sequence is one token shorter than the one before it, as far as that goes.
        lengths = [max(0, sizes["length"] - b) for b in range(sizes["batch"])]
        cache = random_cache(shape, lengths, sizes["page"], kv, rng)
        cosine, sine = angles(lengths, shape.head_dim)
        return {**_arrays(matrices, norms, cache), "cosine": cosine, "sine": sine}

    def prepare(self, case: Case, seed: int) -> dict[str, Array]:
        size = (case.sizes["batch"], _shape(case).hidden)
        return {"x": np.random.default_rng(seed).standard_normal(size, np.float32)}

    def setup(self, variant: Variant, case: Case, fixed: Arrays, device: str) -> State:
        weights: dict[str, StoredMatrix | Array] = {**_matrices(case, fixed), **_norms(fixed)}
        cache = _cache(fixed)
        if variant.name != "webgpu":
            if device != "cpu":
                raise Unsupported(f"{variant.name} does not run on {device}", cure="use the variant webgpu")
            return State(Layer(_shape(case), weights, workers=int(variant.knobs.get("workers", 0)) or None), cache)
        state = State(Layer(_shape(case), weights, device=self.device_of(variant, device)), cache)
        assert state.layer.gpu is not None
        state.layer.gpu.hold(cache)
        # Kernels are compiled when they first run.
        outputs = {"out": np.empty((cache.batch, _shape(case).hidden), np.float32)}
        self.run(variant, state, {**fixed, **self.prepare(case, 0)}, outputs)
        return state

    def portable(self, variant: Variant, case: Case, fixed: Arrays) -> PortableProgram:
        if variant.name != "webgpu":
            return super().portable(variant, case, fixed)
        from whet.decode.webgpu.portable import portable_of

        cache, rotary = _cache(fixed), (fixed["cosine"], fixed["sine"])
        return portable_of(
            _shape(case), _matrices(case, fixed), _norms(fixed), cache=cache, angles=rotary, schedule=_schedule(variant)
        )

    def run(self, variant: Variant, state: State, inputs: Arrays, outputs: Arrays) -> None:
        knobs, schedule = variant.knobs, _schedule(variant)
        state.layer.step(
            inputs["x"],
            state.cache if inputs["k"] is state.cache.k else _cache(inputs),
            cosine=inputs.get("cosine"),
            sine=inputs.get("sine"),
            gate=inputs.get("gate"),
            schedule=schedule,
            timed=bool(knobs.get("timing", variant.name == "webgpu")),
            out=outputs["out"],
        )

    def timing(self, state: State) -> Timing | None:
        """Passes of the last step, where the device has timestamps; a stage of several passes is one region.

        On the CPU, regions of the kernel where the knob `timing` is on.
        """
        gpu = state.layer.gpu
        if gpu is None:
            spent = state.layer.regions_ns()
            return Timing(regions_ns=spent, tags=REGION_TAGS, waits=WAITS, sheet=state.layer.sheet()) if spent else None
        if gpu.span_ns is None:
            return None
        regions: dict[str, int] = {}
        for name, taken_ns in gpu.passes_ns:
            regions[name] = regions.get(name, 0) + (taken_ns or 0)
        return Timing(gpu.span_ns, regions, REGION_TAGS)

    def work(self, case: Case) -> Work:
        """Every weight and the whole cache are read once, and each number takes part in a product and a sum."""
        shape, (weights, kv), sizes = _shape(case), case.profile.split("-"), case.sizes
        count = sum(rows * columns for rows, columns in shape.matrices().values())
        tokens = sum(max(0, sizes["length"] - b) for b in range(sizes["batch"]))
        ends = 2 * sizes["batch"] * shape.hidden * 4
        moved = count * BITS[weights] // 8 + 2 * tokens * shape.kv_size * BITS[kv] // 8 + ends
        return Work(moved, 2 * count * sizes["batch"] + 4 * tokens * shape.q_size)

    def memory_map(self, case: Case, variant: Variant) -> Sequence[MemoryRow]:
        """Of the GPU's memory alone."""
        if variant.name != "webgpu":
            return ()
        shape, (weights, kv) = _shape(case), case.profile.split("-")
        sizes, knobs = case.sizes, variant.knobs
        schedule = Schedule(wo_split=int(knobs.get("wo_split", 1)), fc1=str(knobs.get("fc1", "shared")))
        width = max(1, -(-sizes["length"] // sizes["page"]))
        geometry = Geometry(
            batch=sizes["batch"],
            page_size=sizes["page"],
            pages=width * sizes["batch"],
            table_width=width,
            kv_type=kv,
            rotary=True,
            wo_split=schedule.wo_split,
            fc1_copies=copies_of(schedule.fc1),
        )
        kinds = dict.fromkeys(shape.matrices(), weights)
        return memory_map(shape, kinds, geometry, timed=bool(knobs.get("timing", True)))

    def close(self, state: State) -> None:
        state.layer.close()

    def hard_cases(self, seed: int, numbers: range) -> Iterator[HardCase]:
        """Random shapes, layouts and types around page borders, with junk where nothing may be read."""
        for number in numbers:
            trial = random_trial(seed * 1_000_000 + number, least_hidden=LEAST_HIDDEN)
            shape, cache = trial.shape, trial.cache
            kind = next(iter(trial.matrices.values())).kind
            sizes = {name: int(getattr(shape, name)) for name in SHAPE_SIZES}
            sizes |= {"batch": cache.batch, "length": int(cache.lengths.max()), "page": cache.k.shape[1]}
            fixed = _arrays(trial.matrices, trial.norms, cache)
            given = {"x": trial.x, "cosine": trial.cosine, "sine": trial.sine, "gate": trial.gate}
            inputs = {**fixed, **{name: array for name, array in given.items() if array is not None}}
            want = reference(shape, trial.matrices, trial.norms, **trial.inputs())
            case = Case(sizes=sizes, profile=f"{kind}-{cache.kv_type}")
            answer = {"out": want.astype(np.float32)}
            yield HardCase(case.profile, number, case, fixed, inputs, answer, within_ulp(want))

    def oracle(self, case: Case, fixed_seed: int, seed: int, inputs: Arrays) -> dict[str, Array]:
        matrices, norms = _matrices(case, inputs), _norms(inputs)
        answer = reference(
            _shape(case), matrices, norms, inputs["x"], _cache(inputs), cosine=inputs["cosine"], sine=inputs["sine"]
        )
        return {"out": answer.astype(np.float32)}


def _arrays(matrices: Mapping[str, StoredMatrix], norms: Mapping[str, Array], cache: PagedCache) -> dict[str, Array]:
    arrays: dict[str, Array] = {"k": cache.k, "v": cache.v, "table": cache.table, "lengths": cache.lengths, **norms}
    for name, matrix in matrices.items():
        arrays |= {f"{name}.data": matrix.data, f"{name}.scales": matrix.scales}
        arrays[f"{name}.global"] = np.array([matrix.global_scale], np.float64)
    return arrays


def _case(batch: int, length: int, page: int, profile: str) -> Case:
    return Case(sizes={"batch": batch, "length": length, "page": page, "hidden": 64}, profile=profile)


def _shape(case: Case) -> Shape:
    sizes = case.sizes
    if set(sizes) == {"batch", "length", "page", *SHAPE_SIZES}:
        given: dict[str, Any] = {name: sizes[name] for name in SHAPE_SIZES}
        return Shape(**{**given, "own_token": bool(sizes["own_token"])})
    if set(sizes) != {"batch", "length", "page", "hidden"}:
        raise BadInput(f"decode has no case with {case}", cure="give batch, length, page and hidden")
    if sizes["hidden"] not in BY_HIDDEN:
        known = ", ".join(f"{shape.hidden} ({name})" for name, shape in SHAPES.items())
        raise BadInput(f"decode has no shape with hidden={sizes['hidden']}", cure=f"one of: {known}")
    if not 1 <= sizes["batch"] <= MAX_BATCH or not sizes["page"] >= 1 or not 0 <= sizes["length"] <= MAX_LENGTH:
        raise BadInput(f"decode has no case with {case}", cure=f"batch 1 to {MAX_BATCH}, page from 1, length from 0")
    return BY_HIDDEN[sizes["hidden"]]


def _schedule(variant: Variant) -> Schedule:
    knobs = variant.knobs
    return Schedule(
        wo_split=int(knobs.get("wo_split", 1)),
        fc1=str(knobs.get("fc1", "shared")),
        barrier=str(knobs.get("barrier", "block")),
        launch="phased" if variant.name == "phased" else "fused",
        rows=str(knobs.get("rows", "claimed")),
    )


def _matrices(case: Case, arrays: Arrays) -> dict[str, StoredMatrix]:
    kind = case.profile.split("-")[0]
    return {
        name: StoredMatrix(
            kind, *size, arrays[f"{name}.data"], arrays[f"{name}.scales"], float(arrays[f"{name}.global"][0])
        )
        for name, size in _shape(case).matrices().items()
    }


def _norms(arrays: Arrays) -> dict[str, Array]:
    return {name: arrays[name] for name in NORMS}


def _cache(arrays: Arrays) -> PagedCache:
    kv_type = {np.dtype(np.float32): "f32", np.dtype(np.uint16): "bf16", np.dtype(np.uint8): "e4m3"}[arrays["k"].dtype]
    return PagedCache(kv_type, arrays["k"], arrays["v"], arrays["table"], arrays["lengths"])
