"""The benches of one plan: one stand per arm, how its process is started and brought to a case, and how it ends.

All arms take each step of a start side by side, so that a block costs little more than its slowest process. What one of
them does wrong is its own `Red`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import SystemRandom
from typing import Any

import msgspec

from whet.errors import WhetError
from whet.evidence import messages, system
from whet.evidence.elsewhere import Elsewhere
from whet.evidence.kept_files import loaded_by_others
from whet.evidence.messages import Done, Layout, Load, Tree
from whet.evidence.readings import Red
from whet.evidence.record import CONTROL, EMPTY, Isolation
from whet.evidence.serving import memory_share
from whet.evidence.system import NotStopped
from whet.evidence.worker import START_LIMIT_S, Faults, Worker
from whet.protocol import Clock, Engine, Variant


@dataclass(frozen=True)
class Plan:
    """What is put on trial: enough to start every process and to draw every random number."""

    engine: Engine
    ref: str
    variants: tuple[Variant, ...]
    device: str
    seed: int
    clock: Clock = "wall"
    call_limit_s: float = 60.0
    regime: str = "warm"
    # By revision: where those variants come from that are not of the working tree, and the command that built them.
    trees: Mapping[str, Tree] = field(default_factory=dict)
    build: str | None = None
    # The device that all variants run on, if it is not one of this process's.
    elsewhere: Elsewhere | None = None
    # Only tests give variants unequal numbers of calls; by name, a factor on the trial's own number.
    more_calls: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Stand:
    """One arm's place: its memory, its process while it has one, and what was counted there."""

    name: str
    arm: int
    variant: Variant | None
    worker: Worker | None = None
    threads: int = 1
    # Of system calls, when the present process said hello.
    filters: int = 0
    regions_ns: dict[str, list[int]] = field(default_factory=dict)
    calls: int = 0
    # Turns of the present process.
    turns: int = 0
    full_checks: int = 0
    agreements: int = 0


@dataclass(frozen=True)
class Memory:
    """What the arms of an open case map: fixed inputs, and inputs and outputs of each arm."""

    layout: Layout
    fixed: int
    arms: list[tuple[int, int]]


class Benches:
    """One stand per variant, and one each for the control and the empty variant."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.host = system.host()
        self._random = SystemRandom()
        self.stands = {str(variant): Stand(str(variant), arm, variant) for arm, variant in enumerate(plan.variants)}
        for name in (CONTROL, EMPTY):
            self.stands[name] = Stand(name, len(self.stands), None)
        self.isolation: Isolation | None = None
        self.cores: list[int] = self.host.usable_cores()
        self.refused: set[str] = set()
        self.memory: Memory | None = None
        # Shared libraries that variants have loaded and that belong to no installed package.
        self.libraries: set[str] = set()
        # How the benches were started last, in case they have to be started again.
        self._started: dict[str, Any] = {"arms": []}

    @property
    def alive(self) -> list[str]:
        """Variants that no gate has refused."""
        return [str(variant) for variant in self.plan.variants if str(variant) not in self.refused]

    def start(
        self, arms: Sequence[str], *, cores: list[int] | None = None, baseline: str = "", sealed: bool = False
    ) -> dict[str, Red]:
        """Fresh processes for these arms on the open case, frozen; returns the arms that failed at it."""
        self.stop()
        self._memory_bytes = memory_share(max(1, len(arms)))
        self._started = {"arms": list(arms), "cores": cores, "baseline": baseline, "sealed": sealed}
        self.cores = cores or self.host.usable_cores()
        # Who comes first finds the memory that the last block left; that must not always be the baseline.
        shuffled = self._random.sample(arms, len(arms))
        for name in shuffled:
            stand = self.stands[name]
            stand.worker, stand.turns = Worker("bench", self._kept), 0
        steps = (self._greet, self._load, self._set_up, *([self._seal] if sealed else []), self._rest)
        return self._step_by_step(shuffled, steps, baseline)

    @cached_property
    def _kept(self) -> list[str]:
        """Once a plan: it takes a third as long as starting a process."""
        return loaded_by_others(self.plan.variants, self.plan.trees.values())

    def move_on(self, arms: Sequence[str]) -> dict[str, Red]:
        """The processes that are there, on the case that is open now; those that are not, fresh."""
        if any(self.stands[name].worker is None for name in arms):
            return self.start(arms)
        return self._step_by_step(arms, (self._wake, self._set_up, self._rest))

    def _step_by_step(self, arms: Sequence[str], steps: Sequence[Any], baseline: str = "") -> dict[str, Red]:
        """All arms take each step side by side."""
        reds: dict[str, Red] = {}
        for step in steps:
            for ask in (True, False):
                for name in arms:
                    if name not in reds and (red := self._guarded(self.stands[name], step, baseline, ask=ask)):
                        reds[name] = red
        return reds

    def stop(self) -> None:
        """Ends all benches."""
        for stand in self.stands.values():
            if stand.worker is not None:
                stand.worker.close()
                stand.worker = None

    def retire(self, name: str) -> None:
        """Refused: it takes no further part."""
        self.refused.add(name)
        stand = self.stands[name]
        if stand.worker is not None:
            stand.worker.close()
            stand.worker = None

    def _wake(self, stand: Stand, _: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            self.host.thaw(stand.worker.pid)
        return None

    def _greet(self, stand: Stand, _: str, ask: bool) -> Red | None:
        if ask:
            return None
        assert stand.worker is not None
        hello = stand.worker.greet()
        stand.filters = self.host.filters(stand.worker.pid)
        self.host.pin(stand.worker.pid, self.cores)
        if self.isolation is None:
            self.isolation = _isolation(hello)
        return None

    def _load(self, stand: Stand, baseline: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            variant = self._runs(stand)
            ref = "" if variant is None or variant.file else self.plan.ref
            tree = self.plan.trees.get(variant.revision) if variant else None
            room, away = self._memory_bytes, self.plan.elsewhere is not None and variant is not None
            stand.worker.post(
                Load(
                    ref=ref,
                    variant=variant,
                    device=self.plan.device,
                    tree=tree,
                    memory_bytes=room,
                    elsewhere=away,
                )
            )
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        return Red("raised", answer.text) if isinstance(answer, messages.Raised) else None

    def _set_up(self, stand: Stand, _: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            assert self.memory is not None
            fds = [self.memory.fixed, *self.memory.arms[stand.arm]]
            stand.worker.post(msgspec.structs.replace(self.memory.layout, fds=len(fds)), fds)
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        if isinstance(answer, messages.Raised):
            return Red("raised", answer.text)
        stand.worker.must_be(Done, answer)
        return None

    def _seal(self, stand: Stand, _: str, ask: bool) -> Red | None:
        assert stand.worker is not None
        if ask:
            stand.worker.post(messages.Seal())
            return None
        answer = stand.worker.answer(START_LIMIT_S)
        stand.worker.must_be(Done, answer)
        stand.worker.seal()
        hello = stand.worker.hello
        if hello and "seccomp" in hello.granted and self.host.filters(stand.worker.pid) <= stand.filters:
            return Red("garbled answer", "it says that it is sealed, and is not")
        return None

    def _rest(self, stand: Stand, _: str, ask: bool) -> Red | None:
        """Frozen from here on, and looked at: what it left running or shares with others."""
        worker = stand.worker
        assert worker is not None
        if ask:
            return None
        # A child could wake a frozen parent for ever, so it is looked for first, and again when nothing moves.
        if not self.host.children(worker.pid):
            self.host.freeze(worker.pid)
        stand.threads = self.host.threads(worker.pid)
        if stand.variant is not None:
            self.libraries |= self.host.own_libraries(worker.pid)
        if self.host.children(worker.pid):
            return Red("left a process", "a process that it started in setup() goes on")
        if shared := self.host.shared_with_others(worker.pid, on_gpu=self._on_gpu(stand)):
            return Red("shares memory", f"it holds {shared} for writing, through which it could talk to its rivals")
        return None

    def _runs(self, stand: Stand) -> Variant | None:
        """The control runs what the baseline runs."""
        return self.stands[self._started["baseline"]].variant if stand.name == CONTROL else stand.variant

    def _on_gpu(self, stand: Stand) -> bool:
        plan, variant = self.plan, self._runs(stand)
        where = plan.engine.device_of(variant, plan.device) if variant and not variant.file else plan.device
        return where.startswith("webgpu")

    def _guarded(self, stand: Stand, step: Any, baseline: str, *, ask: bool) -> Red | None:
        try:
            red: Red | None = step(stand, baseline, ask)
        except Faults as error:
            red = Red(error.reason, f"{step.__name__.strip('_').replace('_', ' ')}: {error}")
        except NotStopped as error:
            red = Red("died", str(error))
        except WhetError as error:
            red = Red("device failed", f"{type(error).__name__}: {error.cause}", cause=error)
        return red


def _isolation(hello: messages.Hello) -> Isolation:
    asked = system.level()
    weaker = "" if not hello.missing else " (weaker than usual)"
    granted = ["frozen between turns", "a process of its own", *hello.granted]
    return Isolation(name=f"{asked}{weaker}", granted=granted, missing=hello.missing)
