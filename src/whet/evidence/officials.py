"""Referee and judge as the parent speaks to them. One that is killed is started again, and the round is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from whet.errors import DeviceError, DeviceTimeout, WhetError
from whet.evidence import messages
from whet.evidence.messages import Done, Expected, IsKept, Judged, Judgement, Layout, Measured, Request
from whet.evidence.worker import START_LIMIT_S, Faults, ProcessSilent, Worker
from whet.protocol import Case, Tolerance

# So many losses in one run are no accident.
MOST_LOSSES = 3


class OfficialLost(Exception):
    """The referee or the judge is gone. `fault` is what to raise if that is the end of it."""

    def __init__(self, fault: WhetError) -> None:
        super().__init__(fault.cause)
        self.fault = fault


class Officials:
    """Starts both, passes memory to them, asks them. A request may end in `OfficialLost`; `replace` starts both anew.

    The memory of the lost ones is sealed and cannot be mapped for writing again, so a case has to be opened anew.
    """

    def __init__(self, ref: str, *, call_limit_s: float) -> None:
        self._ref = ref
        self.losses = 0
        # All that the oracle took so far, and what is called before it is asked: a slow one should be known as such.
        self.oracle_spent_ns = 0
        self.before_oracle: Callable[[], None] = lambda: None
        self._limit_s = max(START_LIMIT_S, 10 * call_limit_s)
        self._referee: Worker | None = None
        self._judge: Worker | None = None

    def start(self) -> None:
        self._referee, self._judge = Worker("referee"), Worker("judge")
        worker = self._referee
        try:
            for worker in (self._judge, self._referee):
                worker.greet()
            self._referee.post(messages.Load(ref=self._ref))
            self._referee.loaded()
        except Faults as error:
            raise self._fault(worker, error) from None

    def close(self) -> None:
        for worker in (self._referee, self._judge):
            if worker is not None:
                worker.close()
        self._referee = self._judge = None

    def replace(self, lost: OfficialLost) -> None:
        """New processes for both, unless this has happened too often or waiting again would cost too much."""
        self.losses += 1
        self.close()
        if self.losses >= MOST_LOSSES or isinstance(lost.fault, DeviceTimeout):
            raise lost.fault
        self.start()

    def measure(self, case: Case, *, fixed_seed: int, probe_seed: int, slots: int) -> Layout:
        asked = messages.Measure(case=case, fixed_seed=fixed_seed, probe_seed=probe_seed, slots=slots)
        self.before_oracle()
        found: Measured = self._ask(self._referee, Measured, asked)
        self.oracle_spent_ns += found.described_ns
        return found.layout

    def map(self, layout: Layout, fixed: int, expected: int, arms: list[tuple[int, int]]) -> None:
        """Hands both their memory: the referee writes inputs and answers, the judge owns the outputs."""
        to_referee = [fixed, expected, *(inputs for inputs, _ in arms)]
        to_judge = [fixed, expected, *(fd for pair in arms for fd in pair)]
        for worker, fds in ((self._referee, to_referee), (self._judge, to_judge)):
            self._ask(worker, Done, msgspec.structs.replace(layout, fds=len(fds)), fds)

    def draw(self, drawn: list[int]) -> int:
        return int(self._ask(self._referee, Done, messages.Draw(seeds=drawn)).spent_ns)

    def reveal(self, arm: int, slots: Iterable[int]) -> None:
        self._ask(self._referee, Done, messages.Reveal(arm=arm, slots=list(slots)))

    def kept(self, arm: int) -> bool:
        return bool(self._ask(self._referee, IsKept, messages.Kept(arm=arm)).kept)

    def expect(self, slots: list[int]) -> int:
        """Has the oracle asked about these slots; how long that took."""
        self.before_oracle()
        spent_ns = int(self._ask(self._referee, Expected, messages.Expect(slots=slots)).spent_ns)
        self.oracle_spent_ns += spent_ns
        return spent_ns

    def written_by_oracle(self, slots: list[int]) -> list[str]:
        """Has the oracle asked; the inputs that it did not leave as they were."""
        answer: Expected = self._ask(self._referee, Expected, messages.Expect(slots=slots, watch=True))
        return answer.changed

    def poison(self, words: dict[int, int]) -> None:
        self._ask(self._judge, Done, messages.Poison(words=words))

    def judge(self, calls: dict[int, int], expected: list[int], tolerance: Tolerance) -> Mapping[int, Judgement]:
        asked = messages.Judge(calls=calls, expected=expected, tolerance=tolerance)
        answer: Judged = self._ask(self._judge, Judged, asked)
        return answer.reports

    def evict(self, cores: list[int]) -> None:
        self._ask(self._judge, Done, messages.Evict(cores=cores))

    def save(self, arm: int, slot: int, path: str) -> None:
        self.expect([slot])
        self._ask(self._judge, Done, messages.Save(arm=arm, slot=slot, path=path))

    def _ask(self, worker: Worker | None, kind: Any, request: Request, fds: list[int] | None = None) -> Any:
        if worker is None:
            raise DeviceError("the oracle's process is gone", cure="open a new rig")
        try:
            return worker.expect(kind, request, self._limit_s, fds)
        except Faults as error:
            raise OfficialLost(self._fault(worker, error)) from None

    def _fault(self, worker: Worker, error: Exception) -> WhetError:
        who = "judge" if worker is self._judge else "oracle"
        if isinstance(error, ProcessSilent):
            return DeviceTimeout(f"the {who} gave {error}", cure="try a smaller case, or a longer --call-limit")
        return DeviceError(f"the {who}'s process ended: {error}", cure="run the oracle alone to see why")
