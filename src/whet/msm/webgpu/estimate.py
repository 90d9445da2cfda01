"""What a sum would take, from its sizes alone: a model, for choosing between ways to cut it into batches.

One addition costs ADDITION_NS, one pass PASS_NS whatever it does, and one more submission SUBMISSION_NS. The first two
follow published measurements of a sum of this kind on an integrated GPU (Apple M2: 2^17 points in about 85 ms; M4:
105 us for an empty pass), the third is a round trip measured here, and so are the time of a byte that is sent and how
many additions take as long as a root (decision 0143). It knows nothing of memory bandwidth or of batches too small to
fill a device, so it flatters many batches; `whet memory --measure` times real ones.
"""

from __future__ import annotations

from whet.msm.webgpu.geometry import Geometry
from whet.msm.webgpu.knobs import Choice

ADDITION_NS = 30.0
PASS_NS = 105_000.0
SUBMISSION_NS = 300_000.0
UPLOAD_NS_PER_BYTE = 2.5
ROOT_ADDITIONS = 22
MODEL = (
    "30 ns per addition, 22 additions per root, 105 µs per pass, 0.3 ms per further submission, "
    "2.5 ns per byte of points sent again"
)
SORT_PASSES, PLAN_PASSES, ACCUMULATE_PASSES, STORE_PASSES, GATHER_PASSES = 4, 3, 1, 1, 1


def additions(geometry: Geometry) -> int:
    """One per digit, two per bucket in the reduction."""
    return geometry.all_windows * (geometry.rows + 2 * geometry.columns)


def passes(geometry: Geometry, choice: Choice) -> int:
    """Of all batches. The reference accumulator needs no plan and no combining.

    Where additions are done in passes, each round of them has two, for as many rounds as the digits could need. Points
    of which x and a sign are all that stays have some more for their roots.
    """
    levels = geometry.combine_levels * geometry.batch_count if choice.planned else 0
    rounds = 2 * _rounds(geometry) if choice.in_passes else 0
    roots = geometry.root_passes if choice.compressed else 0
    return roots + levels + rounds + _passes_but_combining(geometry, choice)


def estimated_ns(geometry: Geometry, choice: Choice) -> float:
    """Scalars that are sent batch by batch need a submission each; otherwise one takes all batches."""
    roots = ROOT_ADDITIONS * geometry.points if choice.compressed else 0
    return _time_ns(geometry, passes(geometry, choice)) + roots * ADDITION_NS


def upload_ns(size_bytes: int) -> float:
    """Of points that a call brings to the device."""
    return size_bytes * UPLOAD_NS_PER_BYTE


def pass_ns(additions: int) -> float:
    """One pass. Summed over a plan it is `estimated_ns`, but for the submissions and what the reduction rounds off."""
    return additions * ADDITION_NS + PASS_NS


def least_ns(geometry: Geometry, choice: Choice) -> float:
    """No more than `estimated_ns`, and not falling with the number of batches: what more of them cannot undercut."""
    return _time_ns(geometry, _passes_but_combining(geometry, choice))


def _rounds(geometry: Geometry) -> int:
    """Of all batches: all but the last have as many windows."""
    full = geometry.batch_count - 1
    last = geometry.all_windows - full * geometry.batch_windows
    return full * geometry.most_rounds(geometry.batch_windows) + geometry.most_rounds(last)


def _passes_but_combining(geometry: Geometry, choice: Choice) -> int:
    summing = PLAN_PASSES + ACCUMULATE_PASSES + STORE_PASSES if choice.planned else ACCUMULATE_PASSES
    return geometry.batch_count * (SORT_PASSES + summing + geometry.window_bits - 1 + GATHER_PASSES)


def _time_ns(geometry: Geometry, recorded: int) -> float:
    submissions = geometry.batch_count - 1 if geometry.sliced else 0
    return additions(geometry) * ADDITION_NS + recorded * PASS_NS + submissions * SUBMISSION_NS
