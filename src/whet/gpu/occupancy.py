"""How many workgroups of a kernel a GPU core can hold at once: a model from public architecture figures.

It knows registers, workgroup memory and the fixed limits of a core, nothing of caches, latency or instruction mix. More
resident workgroups hide more latency; they are not a speed. docs/occupancy.md names the source of every figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whet.gpu.live_words import Footprint


@dataclass(frozen=True)
class Profile:
    """One core: the unit that holds a workgroup. `register_words` is its whole register file in 32-bit words.

    A thread gets a multiple of `granule_words`, at most `most_words`; what is beyond that spills. `wave_multiple`:
    waves are resident in multiples of it.
    """

    name: str
    core: str
    wave: int
    register_words: int
    granule_words: int
    most_words: int
    most_threads: int
    most_workgroups: int
    workgroup_memory_bytes: int
    wave_multiple: int = 1


PROFILES: tuple[Profile, ...] = (
    Profile("apple-m1-m2", "GPU core", 32, 208 * 1024 // 4, 4, 128, 1024, 32, 60 << 10),
    Profile("adreno-7xx", "shader processor", 64, 96 * 4 * 128, 4, 192, 2048, 16, 32 << 10, wave_multiple=2),
    Profile("mali-valhall", "shader core", 16, 32 * 1024, 32, 64, 1024, 64, 32 << 10),
    Profile("nvidia-ampere-ada", "SM", 32, 65536, 8, 255, 1536, 16, 100 << 10),
    Profile("amd-rdna2", "workgroup processor", 32, 4 * 1024 * 32, 16, 256, 4 * 16 * 32, 64, 128 << 10),
    Profile("amd-rdna3", "workgroup processor", 32, 4 * 1536 * 32, 24, 256, 4 * 16 * 32, 64, 128 << 10),
    Profile("intel-arc", "Xe core", 16, 16 * 8 * 128 * 8, 64, 128, 2048, 128, 128 << 10),
)


@dataclass(frozen=True)
class Residency:
    """The prediction for one kernel on one profile. `limits` holds what each resource alone would allow."""

    profile: Profile
    words: int
    spilled_words: int
    workgroups: int
    limiter: str
    limits: Mapping[str, int]
    share: float


def predict(profile: Profile, kernel: Footprint, *, arrays_in_registers: bool = False) -> Residency:
    """Resident workgroups per core. Zero means that a workgroup does not fit at all."""
    wanted = kernel.live_words + (kernel.array_words if arrays_in_registers else 0)
    granted = min(-(-max(1, wanted) // profile.granule_words) * profile.granule_words, profile.most_words)
    waves = -(-kernel.workgroup_threads // profile.wave)
    resident_waves = profile.register_words // (granted * profile.wave)
    resident_waves -= resident_waves % profile.wave_multiple
    limits = {
        "registers": resident_waves // waves,
        "threads": profile.most_threads // (waves * profile.wave),
        "workgroups": profile.most_workgroups,
    }
    if kernel.workgroup_bytes:
        limits["workgroup memory"] = profile.workgroup_memory_bytes // kernel.workgroup_bytes
    limiter = min(limits, key=limits.__getitem__)
    workgroups = limits[limiter]
    return Residency(
        profile=profile,
        words=granted,
        spilled_words=max(0, wanted - profile.most_words),
        workgroups=workgroups,
        limiter=limiter,
        limits=limits,
        share=workgroups * kernel.workgroup_threads / profile.most_threads,
    )
