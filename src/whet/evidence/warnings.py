"""Everything a reader should know before believing the numbers: one enum, each with why it may be and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from whet.evidence.record import Control, Outcome, Sample, Warning
from whet.evidence.statistics import median, spread
from whet.protocol import Array


class Kind(Enum):
    """(name, why it may be, which option helps)."""

    NOISY = (
        "noisy",
        "other programs, interrupts or a power-saving governor",
        "close other programs, or give it more blocks with --rigorous",
    )
    TOO_SHORT = (
        "too short for the timer",
        "one call takes few ticks of the clock, so calls were batched",
        "choose a larger --size to time single calls",
    )
    FIRST_REPEATS_SLOW = (
        "first repeats slow",
        "caches, just-in-time compilation or clock frequency warm up; the warm-up rounds are neither counted nor drawn",
        "if the first call is what you ship, time it alone in a fresh process",
    )
    BACKGROUND_LOAD = (
        "background load",
        "other processes compete for the cores",
        "stop them, or run again with --rigorous",
    )
    THROTTLING = (
        "throttling",
        "the processor slowed down while the trial ran: heat or a power limit",
        "let it cool down; the order is random, so the ratio suffers less than the times",
    )
    NOT_GATED = (
        "never gated",
        "another tool measured these times, one benchmark after the other, and compared no outputs",
        "let the same programs take turns: whet ab --command",
    )
    LOW_PRIORITY = (
        "low priority",
        "whatever started whet gave it less processor time than other programs get",
        "start Ray with RAY_worker_niceness=0 on that machine, or give whet the right to raise its priority",
    )
    POWER_SOURCE = ("power source", "on battery many machines clock down", "plug it in and run again")
    DIFFERENT_ENVIRONMENT = (
        "different environment from the baseline",
        "the two runs were not made under the same conditions",
        "measure both variants in one run with whet ab",
    )
    SOFTWARE_ADAPTER = (
        "software adapter",
        "the GPU is emulated on the CPU, so occupancy and bandwidth claims do not transfer",
        "choose a hardware adapter with --device webgpu:NAME (whet doctor lists them)",
    )
    CONTROL_DIFFERS = (
        "control differs",
        "the baseline was not as fast as itself: something treats processes unequally, or the noise has luck in it",
        "no verdict below that distance counts; stop other programs and run again with --rigorous",
    )
    OFFICIAL_LOST = (
        "referee or judge lost",
        "something ended a process of whet in the middle of the run: the system short of memory, or another program",
        "the rounds in question were repeated with new processes; free some memory if it happens again",
    )
    WEAK_TASK = (
        "weak task",
        "what such a task proves is less than it seems",
        "compute the answer in another way, and draw fresh inputs from the seed",
    )
    DEVICE_DRIFT = (
        "device drift",
        "the device became slower while the trial ran and did not recover: heat or a power limit",
        "let it cool down, plug it in, and run again; the order is random, so the ratio suffers less than the times",
    )
    DISTURBED = (
        "disturbed rounds",
        "the page was hidden or loaded again; whole rounds were dropped and played again on other inputs",
        "leave the page in front while it runs",
    )
    QUANTISED_CLOCK = (
        "quantised clock",
        "the clock ticks too coarsely for this kernel, even over a whole batch",
        "choose a larger --size; browsers hide fine clocks unless the page is isolated",
    )

    def __call__(self, seen: str) -> Warning:
        name, why, advice = self.value
        return Warning(kind=name, seen=seen, why=why, advice=advice)


# Of the spread: the width of the middle half over the median.
NOISE_LIMIT = 0.1
SLOW_START = 1.5
DRIFT_LIMIT = 1.07
LOAD_LIMIT = 0.5
CPU_SHARE_LIMIT = 0.9
SOFTWARE_NAMES = ("llvmpipe", "lavapipe", "swiftshader", "softpipe", "microsoft basic render")


def weak_task(cautions: Sequence[str]) -> list[Warning]:
    """What an engine says against itself."""
    return [Kind.WEAK_TASK(said) for said in cautions]


def noisy(times: Mapping[str, Array]) -> list[Warning]:
    """The middle half of the samples is wider than the limit."""
    found = []
    for name, values in times.items():
        if len(values) < 5:
            continue
        if (width := spread(values)) > NOISE_LIMIT:
            found.append(Kind.NOISY(f"the middle half of the turns of {name} is {width:.0%} of their median wide"))
    return found


def too_short(call_ns: Mapping[str, float], calls: int, tick_ns: int) -> list[Warning]:
    return [
        Kind.TOO_SHORT(f"one call of {name} takes {one_ns:,.0f} ns, the clock ticks every {tick_ns} ns")
        for name, one_ns in call_ns.items()
        if calls > 1 and one_ns < 100 * tick_ns
    ]


def control_differs(control: Control | None) -> list[Warning]:
    if control is None or control.outcome not in (Outcome.FASTER, Outcome.SLOWER):
        return []
    span = f"{control.low:.3f} to {control.high:.3f}"
    return [Kind.CONTROL_DIFFERS(f"the baseline took {control.ratio:.3f} times as long as itself ({span})")]


def officials_lost(losses: int) -> list[Warning]:
    return [Kind.OFFICIAL_LOST(f"{losses} {'time' if losses == 1 else 'times'} in this run")] if losses else []


def first_repeats_slow(warm_up: Mapping[str, Array], times: Mapping[str, Array]) -> list[Warning]:
    found = []
    for name, values in times.items():
        early = warm_up.get(name)
        if early is not None and len(early) and len(values):
            factor = float(early[0]) / median(values)
            if factor > SLOW_START:
                found.append(Kind.FIRST_REPEATS_SLOW(f"the first repeat of {name} took {factor:.1f} times the median"))
    return found


def background_load(samples: Sequence[Sample], environment: Mapping[str, Any]) -> list[Warning]:
    load, cores = environment.get("load", {}).get("1min"), environment.get("cpu", {}).get("usable_cores")
    if load is not None and cores and load > LOAD_LIMIT * cores:
        return [Kind.BACKGROUND_LOAD(f"load average {load:g} on {cores} cores when the run began")]
    single = [s.cpu_ns / s.wall_ns for s in samples if s.wall_ns > 0 and s.device_ns is None]
    if len(single) >= 5:
        share = median(single)
        # Far below, the variant itself waits (sleep, I/O, another device), which is no load.
        if 0.5 < share < CPU_SHARE_LIMIT:
            return [Kind.BACKGROUND_LOAD(f"the variants had a core for {share:.0%} of their time")]
    return []


def low_priority(niceness: int) -> list[Warning]:
    return [Kind.LOW_PRIORITY(f"the trial ran with niceness {niceness}")] if niceness > 0 else []


def throttling(times: Mapping[str, Array]) -> list[Warning]:
    """Every variant is slower in the last third of the trial than in the first."""
    factors = []
    for values in times.values():
        third = len(values) // 3
        if third < 4:
            return []
        factors.append(median(values[-third:]) / median(values[:third]))
    if factors and min(factors) > DRIFT_LIMIT:
        return [Kind.THROTTLING(f"all variants became slower, by {min(factors) - 1:.0%} at least")]
    return []


def power_source(environment: Mapping[str, Any]) -> list[Warning]:
    power = environment.get("power", {})
    if power.get("source") != "battery":
        return []
    return [Kind.POWER_SOURCE(f"on battery ({power.get('battery_percent', '?')} %)")]


def not_gated(tool: str, benchmarks: int) -> list[Warning]:
    return [Kind.NOT_GATED(f"{benchmarks} of {tool}")] if benchmarks else []


def different_environment(fields: Sequence[str]) -> list[Warning]:
    """`fields` names what differs, as `environment.differences` finds it."""
    if not fields:
        return []
    shown = ", ".join(fields[:4]) + (f" and {len(fields) - 4} more" if len(fields) > 4 else "")
    return [Kind.DIFFERENT_ENVIRONMENT(f"these differ: {shown}")]


def software_adapter(environment: Mapping[str, Any]) -> list[Warning]:
    adapter = environment.get("adapter") or {}
    text = " ".join(str(value) for value in adapter.values()).lower()
    named = next((name for name in SOFTWARE_NAMES if name in text), None)
    if named is None and str(adapter.get("type", "")).lower() != "cpu":
        return []
    return [Kind.SOFTWARE_ADAPTER(f"the adapter is {adapter.get('device') or named or 'a CPU adapter'}")]


def quantised_clock(times: Mapping[str, Array], coarse: Sequence[str], tick_ns: int) -> list[Warning]:
    """A batch below a hundred ticks, or samples that take only a handful of values."""
    found = [Kind.QUANTISED_CLOCK(f"a whole batch of {name} is below 100 ticks of {tick_ns:,} ns") for name in coarse]
    for name, values in times.items():
        if name not in coarse and len(values) >= 12 and 1 < len(np.unique(values)) <= len(values) // 4:
            found.append(
                Kind.QUANTISED_CLOCK(f"{len(values)} repeats of {name} took only {len(np.unique(values))} values")
            )
    return found
