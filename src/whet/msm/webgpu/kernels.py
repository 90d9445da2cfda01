"""The kernels of a variant, put together from wgsl/. A kernel's bindings, in order, are the buffers of its pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from whet.gpu.assembler import Assembled
from whet.gpu.program import Kernel, Pass, Span
from whet.msm.webgpu.geometry import BLOCK_BUCKETS, CHUNK_COLUMNS, COMBINE_RADIX, RECORD_WORDS, REDUCE_PAIRS
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.layout import SLOT_WORDS, WGSL

WORKGROUP = 64  # threads of accumulate_plain, combine, store, reduce and gather
ROOTS_WORKGROUP = 128
# The file of each pass, which is also its entry point.
SORT = {"count": "count", "columns": "columns", "starts": "starts_of_buckets", "scatter": "scatter"}
PLAN = {"classify": "classify", "totals": "totals", "list": "list_dense"}
COMBINE = {"combine": "combine", "store": "store"}
DECOMPRESS = {"decompress": "decompress"}
REDUCE = {"reduce": "reduce", "gather": "gather"}
ACCUMULATE = {
    "gpu_plain": {"accumulate": "accumulate_plain"},
    "walker": {"accumulate": "accumulate_walker"},
    "coop": {"accumulate": "accumulate_coop"},
    "pairs": {"begin": "begin_pairs", "invert": "invert_pairs", "accumulate": "accumulate_pairs"},
}

Plant = Callable[[str, str], str]


@dataclass(frozen=True)
class Template:
    """A kernel and the buffers that it binds, in order, after the parameters."""

    kernel: Kernel
    buffers: tuple[str, ...]

    def at(self, name: str, record: int, workgroups: tuple[int, int, int]) -> Pass:
        """A pass of it with the parameters at byte `record`."""
        bound: tuple[str | Span, ...] = (Span("params", record, 4 * RECORD_WORDS), *self.buffers)
        return Pass(name, self.kernel, bound, workgroups)


Templates = Mapping[str, Template]


@lru_cache(maxsize=64)
def templates(choice: Choice, wide: bool) -> Templates:
    """Rendered once per variant: the sources do not depend on the size."""
    return render(choice, wide, None)


def render(choice: Choice, wide: bool, plant: Plant | None) -> Templates:
    """Every kernel of a variant, by the name of its pass. `plant` may change each source before it is used."""
    made = {}
    for name, file in files(choice).items():
        whole = assembled(file, choice, wide=wide)
        source = plant(file, whole.source) if plant else whole.source
        made[name] = Template(Kernel(source, file, lines=whole.lines), whole.bindings[1:])
    return made


def files(choice: Choice) -> dict[str, str]:
    """The file of each pass of a variant."""
    accumulate = ACCUMULATE[choice.accumulator]
    roots = DECOMPRESS if choice.compressed else {}
    return roots | SORT | (PLAN | accumulate | COMBINE if choice.planned else accumulate) | REDUCE


def assembled(file: str, choice: Choice, *, wide: bool) -> Assembled:
    """One kernel as a variant needs it."""
    return WGSL.assemble(
        file,
        multiply="wide" if wide else "portable",
        tpb=choice.tpb,
        slots=choice.slots,
        scratch=choice.scratch,
        g=choice.g,
        sharing="alone" if choice.g == 1 else "by_scan" if choice.g == choice.tpb else "by_group",
        slot_words=SLOT_WORDS,
        workgroup=WORKGROUP,
        roots=ROOTS_WORKGROUP,
        chunk_columns=CHUNK_COLUMNS,
        block_buckets=BLOCK_BUCKETS,
        block_share=BLOCK_BUCKETS // 256,
        combine_radix=COMBINE_RADIX,
        reduce_pairs=REDUCE_PAIRS,
    )
