"""What of this machine makes times steadier: read, judged, and set where that is permitted.

Everything is a file of the kernel below `root`, so that tests bring a machine of their own. What is set is written down
first, and `undo` puts it back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

CPUS = "sys/devices/system/cpu"
GOVERNORS = f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor"
NO_TURBO = f"{CPUS}/intel_pstate/no_turbo"
BOOST = f"{CPUS}/cpufreq/boost"
ASLR = "proc/sys/kernel/randomize_va_space"
IRQ_DEFAULT = "proc/irq/default_smp_affinity"
IRQS = "proc/irq/[0-9]*/smp_affinity"
ISOLATED = f"{CPUS}/isolated"


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """One thing: `ok` as it should be, `set` now, `left` as it was with the reason, or `absent` on this machine."""

    name: str
    status: str
    said: str
    why: str = ""
    command: str = ""


@dataclass(frozen=True)
class Aim:
    """Files that should hold `wanted`. `by` explains; `command` is what a person may run instead."""

    name: str
    files: Sequence[Path]
    wanted: str
    why: str
    command: str
    alike: Callable[[str, str], bool] = lambda found, wanted: found == wanted
    absent: str = ""


@dataclass
class Tuner:
    """`kept` remembers what the files held before anything was set."""

    root: Path = Path("/")
    kept: Path | None = None
    cores: Sequence[int] = field(default_factory=lambda: sorted(os.sched_getaffinity(0)))

    def look(self) -> list[Tuned]:
        """Says what is and what should be. Sets nothing."""
        return [self._affinity(), *(self._judge(aim) for aim in self._aims())]

    def apply(self) -> list[Tuned]:
        """Sets what may be set; the rest is `left` with the reason."""
        found = [self._affinity()]
        for aim in self._aims():
            seen = self._judge(aim)
            found.append(seen if seen.status in ("ok", "absent") else self._set(aim))
        return found

    def undo(self) -> list[Tuned]:
        """Puts back what `apply` found."""
        before = self._before()
        if not before:
            return [Tuned(name="undo", status="absent", said="nothing was set here")]
        failed: dict[str, str] = {}
        for name, value in before.items():
            if why := _write(self.root / name, value):
                failed[name] = why
        self._remember({name: before[name] for name in failed})
        said = f"{len(before) - len(failed)} of {len(before)} files as they were"
        return [Tuned(name="undo", status="left" if failed else "set", said=said, why="; ".join(set(failed.values())))]

    def _aims(self) -> list[Aim]:
        turbo = self.root / NO_TURBO
        intel = turbo.exists()
        spared = self.cores[-1] if len(self.cores) > 1 else None
        mask = "" if spared is None else f"{sum(1 << core for core in self.cores if core != spared):x}"
        return [
            Aim(
                "governor",
                sorted(self.root.glob(GOVERNORS)),
                "performance",
                "another governor changes the clock while a trial runs",
                "cpupower frequency-set -g performance",
                absent="the system offers no governor, as in most virtual machines",
            ),
            Aim(
                "turbo",
                [path for path in (turbo if intel else self.root / BOOST,) if path.exists()],
                "1" if intel else "0",
                "boosted clocks hang on heat and on what the other cores do",
                f"echo {1 if intel else 0} > /{NO_TURBO if intel else BOOST}",
                absent="the system does not say, as in most virtual machines",
            ),
            Aim(
                "address randomisation",
                [path for path in (self.root / ASLR,) if path.exists()],
                "2",
                "with fixed addresses every block has the same lucky or unlucky layout; whet averages over layouts",
                "sysctl kernel.randomize_va_space=2",
                absent="the system does not say",
            ),
            Aim(
                "interrupts",
                [path for path in (self.root / IRQ_DEFAULT,) if path.exists() and mask]
                + (sorted(self.root.glob(IRQS)) if mask else []),
                mask,
                f"interrupts on core {spared} stop what is measured there",
                f"echo {mask} > /{IRQ_DEFAULT}",
                alike=_same_mask,
                absent="one core has nowhere to send interrupts" if not mask else "the system does not say",
            ),
        ]

    def _affinity(self) -> Tuned:
        isolated = _read(self.root / ISOLATED)
        cores = ", ".join(map(str, self.cores))
        said = (
            f"whet may use core{'s' if len(self.cores) > 1 else ''} {cores}; a trial pins its variants to one of them"
        )
        if isolated:
            return Tuned(name="affinity", status="ok", said=f"{said}; isolated: {isolated}")
        return Tuned(
            name="affinity",
            status="ok" if len(self.cores) > 1 else "left",
            said=said,
            why="no core is isolated from other programs; only the kernel's command line can do that",
            command=f"taskset -c {self.cores[-1]} whet ab …; isolcpus={self.cores[-1]} at boot",
        )

    def _judge(self, aim: Aim) -> Tuned:
        if not aim.files:
            return Tuned(name=aim.name, status="absent", said=aim.absent)
        values = {path: _read(path) for path in aim.files}
        wrong = [path for path, value in values.items() if not aim.alike(value, aim.wanted)]
        if not wrong:
            return Tuned(name=aim.name, status="ok", said=f"{aim.wanted} ({_files(len(values))})")
        shown = ", ".join(sorted({values[path] or "unreadable" for path in wrong})[:4])
        said = f"{shown} instead of {aim.wanted} ({_files(len(wrong))} of {len(values)})"
        return Tuned(name=aim.name, status="left", said=said, why=aim.why, command=aim.command)

    def _set(self, aim: Aim) -> Tuned:
        before, failed = self._before(), set()
        wrong = [path for path in aim.files if not aim.alike(_read(path), aim.wanted)]
        for path in wrong:
            name = str(path.relative_to(self.root))
            # Written down first: what cannot be put back is not set.
            if not self._remember({name: _read(path), **before}):
                return Tuned(name=aim.name, status="left", said="nothing set", why="there is no place to note it down")
            if why := _write(path, aim.wanted):
                failed.add(why)
                self._remember(before)
            else:
                before = self._before()
        after = self._judge(aim)
        if after.status == "ok":
            return Tuned(name=aim.name, status="set", said=f"now {after.said}", why=aim.why)
        return msgspec.structs.replace(after, why="; ".join(sorted(failed)) or aim.why)

    def _before(self) -> dict[str, str]:
        with contextlib.suppress(OSError, msgspec.MsgspecError, AttributeError):
            assert self.kept is not None
            return msgspec.json.decode(self.kept.read_bytes(), type=dict[str, str])
        return {}

    def _remember(self, values: Mapping[str, str]) -> bool:
        if self.kept is None:
            return False
        try:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            if values:
                self.kept.write_bytes(msgspec.json.encode(dict(values)))
            else:
                self.kept.unlink(missing_ok=True)
        except OSError:
            return False
        return True


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeError):
        return path.read_text().strip()
    return ""


def _write(path: Path, value: str) -> str:
    """Why it could not be written; nothing where it was."""
    try:
        path.write_text(value)
    except OSError as error:
        return f"{error.strerror or error} (as root it may be permitted)"
    return ""


def _same_mask(found: str, wanted: str) -> bool:
    """Masks of the kernel have commas and leading zeros. No interrupt on the spared core is what counts."""
    try:
        return int(found.replace(",", "") or "0", 16) & ~int(wanted, 16) == 0
    except ValueError:
        return False


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
