"""Faults planted into the rendered WGSL, one at a time. The gate of the GPU engine must turn red for each.

The gate: bucket sums equal to those of one thread per bucket, the final point equal to the oracle's, and work counters
equal to what the digits ask for, on cases that reach every stage.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from msm_on_gpu import Subject, additions, bucket_sums, compute

from whet.gpu import Clear
from whet.msm.point import R
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import build

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

WALKER = Choice("walker", threads=64)
LOCAL = Choice("coop", threads=64)
GROUP = Choice("coop", g=16, threads=64)  # wider than a SIMD group of the software adapter, so that barriers matter
SCAN = Choice("coop", g=64, threads=64)
PAIRS = Choice("pairs", g=4, threads=64)


@cache
def cases():
    """Subject, knobs over those of the variant, arguments of the plan."""
    residents = Subject.of("random", 400)
    return (
        (residents, {}, {}),
        (Subject([7**40, R - 7**40] * 30, [5] * 60), {}, {}),
        # Equal sums in buckets 1 and 5 of 8: the first fold of the reduction doubles.
        (Subject([9, 9], [1, 5]), {"c": 4}, {}),
        (Subject.of("collide", 300), {"batches": 3}, {}),
        (Subject(list(range(1, 1501)), [1] * 1400 + [2**200] * 100), {}, {}),
        (residents.part(50, 200), {"batches": 2}, {"offset": 50}),
        (Subject.of("random", 4500, seed=3), {"c": 7}, {}),
    )


WIDE_CASE = (Subject.of("random", 60, seed=4), {"c": 14, "batches": 19}, {})


class Gate:
    """What the cases ask for, found once; `green` stops at the first case that shows something wrong."""

    def __init__(self, device):
        self.device = device
        self._plain = {}
        self._additions = {}

    def green(self, choice, plant, *, only=None):
        return all(self._holds(choice, plant, *case) for case in ((only,) if only else cases()))

    def _holds(self, choice, plant, subject, knobs, given):
        chosen = replace(choice, **knobs)
        answer, work = compute(self.device, subject, chosen, plant=plant, **given)
        if answer != subject.expected:
            return False
        additions_wanted, singles = self._wanted(subject, build(subject.n, chosen).geometry.window_bits)
        if additions_wanted and not work["rounds"]:
            return False
        # Points that meet cancel now and then, so only independent ones have an exact count.
        independent = len(set(subject.logs)) == subject.n and min(subject.logs) > 1 << 64
        if independent and (work["accumulated"] + work["combined"], work["single"]) != (additions_wanted, singles):
            return False
        found = bucket_sums(self.device, subject, chosen, plant=plant, **given)
        return np.array_equal(found, self._buckets(subject, chosen, given))

    def _wanted(self, subject, c):
        if (subject, c) not in self._additions:
            self._additions[subject, c] = additions(subject, c)
        return self._additions[subject, c]

    def _buckets(self, subject, chosen, given):
        key = (subject, chosen.c, chosen.batches)
        if key not in self._plain:
            plain = Choice("gpu_plain", c=chosen.c, batches=chosen.batches)
            self._plain[key] = bucket_sums(self.device, subject, plain, **given)
        return self._plain[key]


@pytest.fixture(scope="module")
def gate(shared_device):
    return Gate(shared_device)


def planted(changes, entries):
    """Applies every change to each of the kernels that it names, and counts where it took."""
    taken = set()

    def plant(entry, source):
        if entries != "*" and entry not in entries:
            return source
        for old, new in changes:
            if old in source:
                taken.add(entry)
                source = source.replace(old, new)
        return source

    return plant, taken


DIGITS = ("count", "scatter")
WALK = ("accumulate_walker",)
COOP = ("accumulate_coop",)
ROUND = ("accumulate_pairs",)
ZERO_COLUMN = [("magnitude - 1u", "max(magnitude, 1u) - 1u"), ("magnitude != 0u && ", "")]
FAULTS = {
    "zero digits counted": (WALKER, DIGITS, ZERO_COLUMN),
    "carry dropped": (WALKER, DIGITS, [("(raw + 1u) >> 1u", "raw >> 1u")]),
    "sign lost": (WALKER, DIGITS, [("| 0x80000000u;\n}", ";\n}")]),
    "wrong sign": (WALKER, DIGITS, [("index | (found & 0x80000000u)", "index | (~found & 0x80000000u)")]),
    "window base missing": (WALKER, DIGITS, [("params.first_window + group.y", "group.y")]),
    "window skipped": (WALKER, DIGITS, [("* params.window_bits;", "* (params.window_bits + 1u);")]),
    "histogram not zeroed": (WALKER, ("count",), [("{ atomicStore(&histogram[i], 0u); }", "{}")]),
    "barrier missing in count": (
        WALKER,
        ("count",),
        [("atomicStore(&histogram[i], 0u); }\n    workgroupBarrier();", "atomicStore(&histogram[i], 0u); }")],
    ),
    "tile prefix lost": (WALKER, ("columns",), [("matrix[place] = total;", "matrix[place] = 0u;")]),
    "starts with their own bucket": (WALKER, ("starts_of_buckets",), [("sums[lane] - total", "sums[lane]")]),
    "end of the last bucket not written": (WALKER, ("starts_of_buckets",), [("if (lane == 255u)", "if (false)")]),
    "offset of the points missing": (WALKER, ("scatter",), [("row + params.offset;", "row;")]),
    "last row of a tile lost": (WALKER, ("scatter", "count"), [(", params.rows)", ", params.rows - 1u)")]),
    "empty bucket not written": (WALKER, ("classify",), [("if (here.count == 0u)", "if (false)")]),
    "single point without its sign": (
        WALKER,
        ("classify",),
        [("load_point(handles[here.start])", "load_point(handles[here.start] & 0x7fffffffu)")],
    ),
    "buckets of the last block lost": (
        WALKER,
        ("classify",),
        [(">= params.windows * params.columns", ">= params.windows * params.columns - 1u")],
    ),
    "blocks not scanned": (WALKER, ("totals",), [("var running = upto - own;", "var running = vec2<u32>();")]),
    "extra additions lost": (WALKER, ("totals",), [("additions % max(tasks, 1u)", "0u")]),
    "more tasks than places": (WALKER, ("totals",), [("min(wanted, params.max_tasks)", "wanted * 2u")]),
    "stale longest chain": (WALKER, ("list_dense",), [("atomicMax(&tally[TALLY_LONGEST], longest)", "longest = 0u")]),
    "additions before a bucket off by one": (
        WALKER,
        ("list_dense",),
        [("here.count, place.y)", "here.count, place.y + 1u)")],
    ),
    "combine stops early": (WALKER, ("combine",), [("|| j == RADIX", "|| j == 2u")]),
    "head of a chain lost": (WALKER, ("combine",), [("if (rank + 1u == chain.pieces)", "if (false)")]),
    "every tail stored": (WALKER, ("store",), [("&& chain.rank == 0u", "")]),
    "chain not stored": (WALKER, ("store",), [("chain.pieces > 0u && ", "chain.pieces > 2u && ")]),
    "wrong end rule": (
        LOCAL,
        COOP,
        [("if ((*slot).position == (*slot).end)", "if ((*slot).position + 1u >= (*slot).end)")],
    ),
    "split start taken as whole": (
        LOCAL,
        COOP,
        [("if ((*slot).split > 0u) {\n                    partials", "if (false) {\n                    partials")],
    ),
    "seed off by one": (LOCAL, COOP, [("- dense[slot.at].w + 1u", "- dense[slot.at].w")]),
    "seed not counted": (LOCAL, COOP, [("if ((*slot).split > 0u) { (*slot).left--; }", "")]),
    "first point of the next bucket left": (
        LOCAL,
        COOP,
        [("(*slot).at == atomicLoad(&tally[TALLY_DENSE])", "(*slot).left == 0u")],
    ),
    "chain without its first point": (WALKER, ("combine", "store"), [("task_of_first(bucket.w)", "task_of(bucket.w)")]),
    "tag zero": (LOCAL, COOP, [("set_tag(task, (*slot).at + 1u)", "set_tag(task, (*slot).at)")]),
    "ended task with a tail": (
        LOCAL,
        COOP,
        [("(*slot).at = ENDED;\n                set_tag(task, 0u);", "set_tag(task, (*slot).at); (*slot).at = ENDED;")],
    ),
    "doubling taken as cancelling": (
        LOCAL,
        COOP,
        [("return Pair(DOUBLE, fe_add(l.y, l.y))", "return Pair(CANCEL, FE_ONE)")],
    ),
    "cancelling taken as doubling": (LOCAL, COOP, [("if (fe_equal(l.y, r.y))", "if (true)")]),
    "zero denominator in a group": (GROUP, COOP, [("if (!fe_is_zero(dx))", "if (true)")]),
    "idle threads bring zero": (GROUP, COOP, [("Pair(KEEP_LEFT, FE_ONE);", "Pair(KEEP_LEFT, FE_ZERO);")]),
    "barrier missing in a group": (
        GROUP,
        COOP,
        [("factors[lane] = denominator;\n    workgroupBarrier();", "factors[lane] = denominator;")],
    ),
    "barrier missing in the scan": (
        SCAN,
        COOP,
        [("high = after[lane + reach]; }\n        workgroupBarrier();", "high = after[lane + reach]; }")],
    ),
    "infinity added like a point": (WALKER, WALK, [("if (is_infinity(r))", "if (false)")]),
    "zero denominator in a walk": (WALKER, WALK, [("if (!fe_is_zero(dx) && ", "if (")]),
    "infinity not seen by its x": (WALKER, WALK, [("!fe_is_zero(dx) && !fe_is_zero(sum_x)", "!fe_is_zero(dx)")]),
    "slope of a doubling": (WALKER, WALK, [("fe_add(fe_add(m, m), m)", "fe_add(m, m)")]),
    "prefix of another slot": (WALKER, WALK, [("pair, prefixes[k], &running", "pair, prefixes[0], &running")]),
    "rounds not turned": (PAIRS, ROUND, [("params.stride == 1u", "false")]),
    "slot not kept": (PAIRS, ROUND, [("            keep_slot(task, slot);\n", "")]),
    "slot of another word": (PAIRS, ROUND, [("slot_place(task, 4u)]),", "slot_place(task, 3u)]),")]),
    "sum not kept": (PAIRS, ROUND, [("{ partials[place] = sum; }", "{}")]),
    "idle thread brings zero": (PAIRS, ROUND, [("var product = FE_ONE;", "var product = FE_ZERO;")]),
    "prefix of the round before": (PAIRS, ROUND, [("                prefixes[place] = product;\n", "")]),
    "inverse of another thread": (PAIRS, ("invert_pairs",), [("before[own])", "before[0])")]),
    "last products not inverted": (PAIRS, ("invert_pairs",), [("(threads + GROUP - 1u) / GROUP", "threads / GROUP")]),
    "first denominators lost": (
        PAIRS,
        ("begin_pairs",),
        [("product = fe_mul(", "let unused = fe_mul(")],
    ),
    "carry arrays not folded": (WALKER, ("reduce",), [("let part = within / params.half;", "let part = 0u;")]),
    "reduction without doubling": (WALKER, ("reduce",), [("if (fe_equal(l.y, r.y))", "if (false)")]),
    "window base missing in gather": (WALKER, ("gather",), [("(params.first_window + window)", "window")]),
}


def test_sound_variants_are_green(gate):
    for choice in (WALKER, LOCAL, GROUP, SCAN, PAIRS):
        assert gate.green(choice, None), choice
    assert gate.green(WALKER, None, only=WIDE_CASE)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_turns_the_gate_red(gate, name, tried):
    choice, entries, changes = FAULTS[name]
    plant, taken = planted(changes, entries)
    red = not gate.green(choice, plant)
    assert taken, "the fault is in the source"
    assert red
    tried("planted faults")


# The last bucket of every window seems to hold eighty times the points that there are.
FAR = [("starts[line + params.columns] = running;", "starts[line + params.columns] = running + 40000u;")]
UNGUARDED = [("min(starts[place + 1u] - start, params.rows)", "(starts[place + 1u] - start)")]
UNGUARDED += [("min(upto.y, params.windows * params.rows)", "upto.y")]


@pytest.mark.parametrize("choice", [WALKER, LOCAL], ids=["walker", "coop"])
def test_a_corrupt_count_cannot_keep_the_device_busy(shared_device, choice, tried):
    """Rounds are bounded by the batch's own rows and windows; without the two bounds this count breaks the limit."""
    subject = Subject.of("random", 500)
    geometry = build(subject.n, choice).geometry
    limit = geometry.rows * geometry.batch_windows // geometry.max_tasks + 4
    for changes, bounded in ((FAR, True), (FAR + UNGUARDED, False)):
        plant, taken = planted(changes, "*")
        answer, work = compute(shared_device, subject, choice, plant=plant)
        assert taken
        assert answer != subject.expected
        assert (work["rounds"] <= limit) is bounded, (work["rounds"], limit)
    tried("planted faults")


def test_a_missing_chunk_base_turns_the_gate_red(gate, tried):
    plant, taken = planted([("- 1u - first", "- 1u")], DIGITS)
    red = not gate.green(WALKER, plant, only=WIDE_CASE)
    assert taken
    assert red
    tried("planted faults")


def test_counters_that_are_not_cleared_turn_the_gate_red(gate, shared_device, monkeypatch, tried):
    """The one clear of a run: without it the counters start as whatever the memory held."""

    def without_clear(self, steps, **given):
        return submit(self, [step for step in steps if not isinstance(step, Clear)], **given)

    submit = type(shared_device).submit
    monkeypatch.setattr(type(shared_device), "submit", without_clear)
    assert not gate.green(WALKER, None)
    tried("planted faults")
