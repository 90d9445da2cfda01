"""Puts a kernel together: header, parameters, bindings, body. Bindings and the buffers of a pass come from one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whet.gpu.program import Kernel, Pass, Span
from whet.msm.webgpu.geometry import PARAMS_WGSL, RECORD_WORDS

# What each buffer holds. Every kernel that touches a buffer sees it through the type given here.
TYPES = {
    "scalars": "array<u32>",
    "matrix": "array<u32>",
    "starts": "array<u32>",
    "handles": "array<u32>",
    "points_x": "array<Fe>",
    "points_y": "array<Fe>",
    "blocks": "array<vec2<u32>>",
    "dense": "array<vec4<u32>>",
    "tally": "array<atomic<u32>>",
    "partials": "array<Pt>",
    "prefixes": "array<Fe>",
    "buckets": "array<Pt>",
    "result": "array<Pt>",
}
# Words of `tally`: what the planner found, then the work counters of the whole run, then one tag per task.
TALLY = {
    "DENSE": 0,
    "ADDITIONS": 1,
    "TASKS": 2,
    "SHARE": 3,
    "EXTRA": 4,
    "LONGEST": 5,
}
COUNTERS = ("single", "accumulated", "doubled", "combined", "reduced", "inversions", "partials", "rounds")
FIRST_COUNTER = 16
TALLY_WORDS = 32
TALLY_WGSL = "\n".join(
    [f"const TALLY_{name} = {place}u;" for name, place in TALLY.items()]
    + [f"const TALLY_TAGS = {TALLY_WORDS}u;"]
    + [f"const COUNT_{name.upper()} = {FIRST_COUNTER + i}u;" for i, name in enumerate(COUNTERS)]
)

Plant = Callable[[str, str], str]


@dataclass(frozen=True)
class Template:
    """A kernel and the buffers that it binds, in order, after the parameters."""

    kernel: Kernel
    buffers: tuple[str, ...]

    def at(self, name: str, record: int, workgroups: tuple[int, int, int]) -> Pass:
        """A pass of it with the parameters at byte `record`."""
        bindings: tuple[str | Span, ...] = (Span("params", record, 4 * RECORD_WORDS), *self.buffers)
        return Pass(name, self.kernel, bindings, workgroups)


def template(
    entry: str, about: str, reads: tuple[str, ...], writes: tuple[str, ...], body: str, *, plant: Plant | None = None
) -> Template:
    """Renders a kernel. `about` becomes the comment on top; `plant` lets a test change the source."""
    lines = [f"// {line}" for line in about.strip().splitlines()]
    lines.append(PARAMS_WGSL)
    if "struct Fe" not in body:
        lines.append("struct Fe { lo: vec4<u32>, hi: vec4<u32> }")
    if "struct Pt" not in body:
        lines.append("struct Pt { x: Fe, y: Fe }")
    for place, name in enumerate((*reads, *writes), start=1):
        access = "read" if name in reads else "read_write"
        lines.append(f"@group(0) @binding({place}) var<storage, {access}> {name}: {TYPES[name]};")
    if "tally" in writes:
        lines.append(TALLY_WGSL)
    source = "\n".join([*lines, body])
    if plant is not None:
        source = plant(entry, source)
    return Template(Kernel(source, entry), (*reads, *writes))
