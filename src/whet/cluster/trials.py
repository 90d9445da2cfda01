"""Trials on the machines of a cluster: each kind gets all of them, its machines share them, one at a time on each.

A run comes home as soon as it is finished. A machine that is lost costs the trial that it was at; what else its kind
has to do goes to the other machines of that kind, if there are any.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from whet.cluster.connection import Connection
from whet.cluster.errors import HeadLost, MachineLost
from whet.cluster.machines import MODULE, Machine, carried, first_line, no_whet, on_node
from whet.cluster.trial_messages import Answer, Failed, Finished, Progress, RunTrial
from whet.errors import Unsupported, WhetError

# Until the machine has room for the trial: Ray gives it all processors at once, or waits.
START_LIMIT_S = 120.0
# The process of a trial says every two seconds that it is there.
SILENCE_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
# How Ray tells that it could not ask this process about an actor that this process owns.
NEVER_RAN = "all references to the actor were removed"
HEAR_S = 1.0
LOOK_S = 0.5


@dataclass(frozen=True)
class Report:
    """How one trial went on one kind: what came home, or why nothing did."""

    kind: str
    host: str
    number: int
    finished: Finished | None = None
    failure: WhetError | None = None


# Kind, machine, share from 0 to 1, note.
OnProgress = Callable[[str, str, float, str], None]
OnReport = Callable[[Report], None]


@dataclass
class _Seat:
    """A machine at work on one trial."""

    machine: Machine
    number: int
    actor: Any
    waiting_for: Any
    deadline: float
    started: bool = False
    answer: Finished | Failed | None = None


@dataclass
class _Kind:
    free: list[Machine]
    waiting: deque[int] = field(default_factory=deque)


class Round:
    """All trials on all kinds, from the first to the last report. `run()` once."""

    def __init__(
        self,
        connection: Connection,
        kinds: Mapping[str, Sequence[Machine]],
        trials: Sequence[RunTrial],
        *,
        on_progress: OnProgress = lambda kind, host, share, note: None,
        on_report: OnReport = lambda report: None,
    ) -> None:
        self._connection, self._ray = connection, connection.ray
        self._ray_error: type[Exception] = connection.ray.exceptions.RayError
        self._trials = trials
        self._on_progress, self._on_report = on_progress, on_report
        self._kinds: dict[str, _Kind] = {}
        self._seats: list[_Seat] = []
        self._reports: list[Report] = []
        self._actors: dict[str, Any] = {}
        self._interrupted = self._stopping = False
        for kind, machines in kinds.items():
            fit = [machine for machine in machines if machine.trouble is None]
            self._kinds[kind] = _Kind(fit, deque(range(len(trials))))
            if not fit:
                self._give_up(kind, machines[0].host, machines[0].trouble)

    def run(self) -> list[Report]:
        """One report per kind and trial, in that order. Ctrl-C asks all of them for what they have measured."""
        try:
            with _first_interrupt(self._interrupt):
                while self._seat():
                    self._look()
                    if self._interrupted and not self._stopping:
                        self._stop()
        finally:
            for node in list(self._actors):
                self._kill(node)
        order = list(self._kinds)
        return sorted(self._reports, key=lambda report: (order.index(report.kind), report.number))

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def _interrupt(self) -> None:
        self._interrupted = True

    def _seat(self) -> bool:
        """Gives every free machine the next trial of its kind."""
        for name, kind in self._kinds.items():
            while kind.free and kind.waiting:
                machine, number = kind.free.pop(0), kind.waiting.popleft()
                self._on_progress(name, machine.host, 0.0, "waits for the machine")
                self._seats.append(self._begin(machine, number))
        return bool(self._seats)

    def _begin(self, machine: Machine, number: int) -> _Seat:
        actor = self._actors.get(machine.node)
        if actor is None:
            # All that Ray has there: nothing else of Ray's runs beside a trial.
            whole = self._ray.remote(carried(self._ray).FreshProcess).options(
                num_cpus=machine.cpus,
                num_gpus=machine.gpus,
                scheduling_strategy=on_node(machine.node),
                max_restarts=0,
                max_concurrency=3,
            )
            self._actors[machine.node] = actor = whole.remote()
        started = actor.start.remote(MODULE, msgspec.json.encode(self._trials[number]))
        return _Seat(machine, number, actor, started, time.monotonic() + START_LIMIT_S)

    def _look(self) -> None:
        by_ref = {seat.waiting_for: seat for seat in self._seats}
        done, _ = self._ray.wait(list(by_ref), num_returns=1, timeout=LOOK_S)
        for ref in done:
            self._heard(by_ref[ref])
        if not done:
            self._require_head()
        now = time.monotonic()
        for seat in [seat for seat in self._seats if now > seat.deadline]:
            self._leave(seat, failure=_silent(seat), lost=True)

    def _require_head(self) -> None:
        """Without its head a cluster tells nothing any more: what has not come home by now is lost."""
        try:
            self._connection.require_head()
        except HeadLost as error:
            for kind in self._kinds.values():
                kind.free.clear()
            for seat in list(self._seats):
                self._leave(seat, failure=error, lost=True)

    def _heard(self, seat: _Seat) -> None:
        try:
            said = self._ray.get(seat.waiting_for)
            if seat.started:
                lines, code, words = said
                self._take(seat, lines, code, words)
            else:
                seat.started = True
                self._renew(seat)
                if self._stopping:
                    seat.actor.stop.remote()
            if seat in self._seats:
                seat.waiting_for = seat.actor.hear.remote(HEAR_S)
        except self._ray_error as error:
            self._leave(seat, failure=_lost(seat.machine, error), lost=True)

    def _renew(self, seat: _Seat) -> None:
        if not self._stopping:
            seat.deadline = time.monotonic() + SILENCE_LIMIT_S

    def _take(self, seat: _Seat, lines: Sequence[bytes], code: int | None, words: str) -> None:
        if lines:
            self._renew(seat)
        for line in lines:
            try:
                said = msgspec.json.decode(line, type=Answer)
            except msgspec.MsgspecError as error:
                failure = MachineLost(
                    f"{seat.machine.host} sent what is no answer: {error}",
                    cure="install the same whet on every machine",
                )
                return self._leave(seat, failure=failure)
            if isinstance(said, Progress):
                self._on_progress(seat.machine.kind, seat.machine.host, said.share, said.note)
            elif isinstance(said, Finished | Failed):
                seat.answer = said
        if isinstance(seat.answer, Finished):
            self._leave(seat, finished=seat.answer)
        elif isinstance(seat.answer, Failed):
            self._leave(seat, failure=_as_error(seat.machine, seat.answer))
        elif code is not None:
            self._leave(seat, failure=no_whet(seat.machine.host, code, words))

    def _leave(
        self, seat: _Seat, *, finished: Finished | None = None, failure: WhetError | None = None, lost: bool = False
    ) -> None:
        self._seats.remove(seat)
        kind = self._kinds[seat.machine.kind]
        if not lost:
            kind.free.append(seat.machine)
        if lost or not kind.waiting:
            self._kill(seat.machine.node)
        self._report(seat.machine, seat.number, finished=finished, failure=failure)
        working = any(other.machine.kind == seat.machine.kind for other in self._seats)
        if lost and not kind.free and not working:
            self._give_up(seat.machine.kind, seat.machine.host, failure)

    def _report(
        self, machine: Machine, number: int, *, finished: Finished | None = None, failure: WhetError | None = None
    ) -> None:
        report = Report(machine.kind, machine.host, number, finished, failure)
        self._reports.append(report)
        self._on_report(report)

    def _give_up(self, kind: str, host: str, why: WhetError | None) -> None:
        """No machine of that kind is left: what it still had to do is lost with it."""
        waiting, self._kinds[kind].waiting = self._kinds[kind].waiting, deque()
        for number in waiting:
            report = Report(kind, host, number, failure=why)
            self._reports.append(report)
            self._on_report(report)

    def _stop(self) -> None:
        self._stopping = True
        for kind in self._kinds.values():
            kind.waiting.clear()
        for seat in self._seats:
            seat.deadline = time.monotonic() + STOP_LIMIT_S
            if seat.started:
                with contextlib.suppress(self._ray_error):
                    seat.actor.stop.remote()

    def _kill(self, node: str) -> None:
        """The process of the trial ends with the actor: its input ends."""
        with contextlib.suppress(self._ray_error, ValueError):
            self._ray.kill(self._actors.pop(node))


@contextlib.contextmanager
def _first_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C asks for an end and breaks nothing in half; the second one is as everywhere."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def once(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _lost(machine: Machine, error: BaseException) -> MachineLost:
    cure = "see whether it is up (ray status), then run the command again with --kind for it alone"
    if NEVER_RAN in str(error):
        cure = "if that Ray runs without token authentication, set RAY_AUTH_MODE=disabled here; else see ray status"
    return MachineLost(
        f"{machine.host} was lost in the middle of its trial: {type(error).__name__}: {first_line(error)}", cure=cure
    )


def _silent(seat: _Seat) -> WhetError:
    if not seat.started:
        return Unsupported(
            f"{seat.machine.host} had no room for a trial within {START_LIMIT_S:g} s: "
            f"it needs all {seat.machine.cpus:g} processors that Ray has there",
            cure="wait until other work of the cluster is done (ray status), or end it",
        )
    return MachineLost(
        f"{seat.machine.host} said nothing for {SILENCE_LIMIT_S:g} s in the middle of its trial",
        cure="see whether it is up (ray status), then run the command again with --kind for it alone",
    )


def _as_error(machine: Machine, said: Failed) -> WhetError:
    """The error of the other machine, of the same class where this side knows it."""
    from whet import errors

    known = getattr(errors, said.kind, None)
    kind = known if isinstance(known, type) and issubclass(known, WhetError) else WhetError
    return kind(f"{machine.host}: {said.cause}", cure=said.cure)
