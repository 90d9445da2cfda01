"""Writes web/test/golden.json: what the planner makes of some hundred requests, for the port in web/ to equal.

    python tools/write_web_golden.py [--check]

Each plan, memory map and upload is kept as a SHA-256 of its canonical JSON or bytes; a few plans are kept whole, so
that a difference can be read. With --check nothing is written: it fails if the file is not what this tree makes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from whet.errors import DeviceOutOfMemory
from whet.gpu.program import Clear, Copy, Kernel, Pass, Span, Step, Write
from whet.gpu.schedule import Pace
from whet.msm.inputs import points_from_logs, to_limbs
from whet.msm.oracle import known_multiples
from whet.msm.point import Point, R
from whet.msm.webgpu.finish import kept_points, upload_scalars
from whet.msm.webgpu.knobs import SPECS, Choice
from whet.msm.webgpu.memory import memory_map
from whet.msm.webgpu.pieces import place
from whet.msm.webgpu.plan import Plan, build
from whet.msm.webgpu.request import Request
from whet.protocol import choose_variant

TARGET = Path(__file__).parents[1] / "web" / "test" / "golden.json"
SIZES = (1, 2, 3, 31, 64, 100, 257, 1000, 1024, 4097, 16384, 65536, 100003, 1 << 18, 1 << 20)
VARIANTS = (
    "walker",
    "gpu_plain",
    "coop:g=8",
    "coop:g=64",
    "pairs",
    "walker:slots=4,threads=16384",
    "walker:slots=16,scratch=device",
    "walker:tpb=96,slots=2",
    "walker:glv=true",
    "walker:points=compressed",
    "pairs:slots=4,g=2,tpb=128",
    "coop:glv=true,c=9",
)
SHARES = (0.7, 0.45, 0.25)  # of what a request takes without a budget
WHOLE = (0, 5, 40)


def requests() -> Iterator[dict[str, Any]]:
    """Every size with every variant; then batches, vectors, parts of the points and budgets with some of them."""
    for n in SIZES:
        for variant in VARIANTS:
            yield {"n": n, "variant": variant}
    for number, n in enumerate(SIZES):
        variant = VARIANTS[number % len(VARIANTS)]
        for batches in (2, 3, 5, 64):
            yield {"n": n, "variant": _with(variant, f"batches={batches}")}
        for vectors in (2, 5, 70):
            yield {"n": n, "variant": variant, "vectors": vectors}
        yield {"n": n, "variant": variant, "resident": n + 1000, "offset": 777}
        yield {"n": n, "variant": _with("walker", "points=compressed"), "resident": n + 50, "offset": 3}
        for other in ("walker", variant):
            total = sum(row.size_bytes for row in memory_map(n, _choice(other)))
            for share in SHARES:
                yield {"n": n, "variant": other, "memoryBudget": int(share * total)}
    yield {"n": 1, "variant": "gpu_plain", "vectors": 1100}
    yield {"n": 1 << 20, "variant": "walker", "memoryBudget": 100_000_000}


def digest_of(asked: dict[str, Any]) -> tuple[str, Any]:
    """What the planner makes of a request, as a digest and whole; or the name of its refusal."""
    try:
        plan = _built(asked)
    except DeviceOutOfMemory as error:
        return type(error).__name__, None
    whole = described(plan)
    return _sha256(json.dumps(whole, separators=(",", ":")).encode()), whole


def described(plan: Plan) -> dict[str, Any]:
    geometry, program = plan.geometry, plan.program
    kernels: dict[Kernel, int] = {}
    for step in program.steps:
        if isinstance(step, Pass):
            kernels.setdefault(step.kernel, len(kernels))
    request = plan.request
    rows = memory_map(
        request.n,
        request.choice,
        memory_budget=request.memory_budget,
        resident=request.resident,
        vectors=request.vectors,
    )
    return {
        "geometry": [geometry.window_bits, geometry.batch_count, geometry.batch_windows, geometry.max_tasks],
        "sliced": geometry.sliced,
        "map": [[row.name, row.size_bytes, row.lifetime] for row in rows],
        "buffers": list(program.buffers.items()),
        "uploads": list(program.uploads.items()),
        "params": _sha256(program.constants["params"].tobytes()),
        "kernels": [[kernel.entry, _sha256(kernel.source.encode())] for kernel in kernels],
        "steps": [_step(step, kernels) for step in program.steps],
    }


def _step(step: Step, kernels: dict[Kernel, int]) -> list[Any]:
    match step:
        case Write(upload, buffer, size, upload_offset, buffer_offset):
            return ["write", upload, buffer, size, upload_offset, buffer_offset]
        case Clear(buffer, offset, size):
            return ["clear", buffer, offset, size]
        case Copy(source, target, size, source_offset, target_offset):
            return ["copy", source, target, size, source_offset, target_offset]
        case Pass(name, kernel, bindings, workgroups, _, cost_ns):
            spans = [one if isinstance(one, Span) else Span(one) for one in bindings]
            bound = [[span.buffer, span.offset_bytes, span.size_bytes] for span in spans]
            return ["pass", name, kernels[kernel], bound, list(workgroups or ()), round(cost_ns)]


def placements() -> Iterator[dict[str, Any]]:
    for n in (100, 600, 5000, 1 << 16, 1 << 20):
        for points in ("auto", "pieces", "compressed", "resident"):
            total = sum(row.size_bytes for row in memory_map(n))
            for budget in (None, total // 2, total // 4, total // 9):
                asked = {"n": n, "points": points, "memoryBudget": budget}
                try:
                    found = place(Request(n, Choice(points=points), n, memory_budget=budget))
                except DeviceOutOfMemory as error:
                    yield {**asked, "placed": type(error).__name__}
                else:
                    yield {**asked, "placed": [found.points, found.pieces, found.piece.n, found.piece.resident]}


def paces() -> Iterator[dict[str, Any]]:
    """The sizes of submissions on a device that takes three times the model, but its first submission ten times."""
    for asked in (
        {"n": 16384, "variant": "walker"},
        {"n": 1000, "variant": "pairs"},
        {"n": 1 << 20, "variant": "coop"},
    ):
        for limit_ns in (500e6, 20e6, 1e6):
            pace = Pace(limit_ns)
            made = []
            for submission in pace.submissions(_built(asked).program.steps):
                pace.observe(submission, submission.cost_ns * (3 if made else 10))
                made.append([len(submission.writes), len(submission.commands)])
            yield {**asked, "limitNs": limit_ns, "submissions": made}


def uploads() -> Iterator[dict[str, Any]]:
    """Points with logarithm i + 1, every seventh infinity; scalars from SHA-256, with edges among them."""
    edges = [0, 1, R - 1, R, R + 1, 2**256 - 1, (R - 1) // 2, 1 << 128, 2 * R, 5 * R + 3]
    for n in (1, 2, 33, 100, 300):
        logs = [0 if i % 7 == 3 else i + 1 for i in range(n)]
        points = points_from_logs(to_limbs(logs))
        hashed = [int.from_bytes(hashlib.sha256(i.to_bytes(4, "little")).digest(), "little") for i in range(n)]
        values = [edges[i // 3 % len(edges)] if i % 3 == 0 else value for i, value in enumerate(hashed)]
        for variant in ("walker", "walker:glv=true", "walker:points=compressed", "walker:glv=true,c=12"):
            choice = _choice(variant)
            kept = kept_points(points, glv=choice.glv, compressed=choice.compressed)
            geometry = build(n, choice).geometry
            planes = upload_scalars(to_limbs(values), geometry=geometry)
            yield {
                "n": n,
                "variant": variant,
                "points": {name: _sha256(np.ascontiguousarray(words).tobytes()) for name, words in kept.items()},
                "planes": _sha256(np.ascontiguousarray(planes).tobytes()),
                "sum": _hex(known_multiples(logs, values)),
            }


def golden() -> dict[str, Any]:
    asked = list(requests())
    made = [digest_of(one) for one in asked]
    return {
        "plans": [[one, digest] for one, (digest, _) in zip(asked, made, strict=True)],
        "whole": [[asked[number], made[number][1]] for number in WHOLE],
        "placements": list(placements()),
        "paces": list(paces()),
        "uploads": list(uploads()),
    }


def _built(asked: dict[str, Any]) -> Plan:
    return build(
        asked["n"],
        _choice(asked["variant"]),
        memory_budget=asked.get("memoryBudget"),
        resident=asked.get("resident"),
        offset=asked.get("offset", 0),
        vectors=asked.get("vectors", 1),
    )


def _choice(text: str) -> Choice:
    variant = choose_variant("msm", list(SPECS.values()), text)
    return Choice.of(variant.name, variant.knobs)


def _with(variant: str, knob: str) -> str:
    return f"{variant},{knob}" if ":" in variant else f"{variant}:{knob}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hex(point: Point) -> list[str]:
    return [hex(point.x), hex(point.y)]


def text_of(made: dict[str, Any]) -> str:
    """A line per entry, so that a change can be read in a diff."""
    parts = [
        f"{json.dumps(key)}: [\n" + ",\n".join(json.dumps(one) for one in rows) + "\n]" for key, rows in made.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> int:
    text = text_of(golden())
    if arguments == ["--check"]:
        same = TARGET.exists() and TARGET.read_text() == text
        print(f"{TARGET.name}: {'as this tree makes it' if same else 'stale: run tools/write_web_golden.py'}")
        return int(not same)
    TARGET.write_text(text)
    print(f"{TARGET.name}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
