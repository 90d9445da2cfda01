"""Turns of programs as a trial sees them: one start per turn, its output judged before its time is told."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence

from whet.errors import BadInput
from whet.evidence import system
from whet.evidence.programs.program import Program, Setting, shell_words
from whet.evidence.programs.starting import Ended, Starter, TookTooLong
from whet.evidence.readings import Reading, Red
from whet.evidence.record import CONTROL, EMPTY

SHOWN_BYTES = 60
# More processor time than wall time: it keeps several cores busy, alone or as a pipeline.
PARALLEL_FACTOR = 1.05


class ProgramTurns:
    """The source of a trial. The reference is the first program's first answer, unless a file is expected."""

    def __init__(self, starter: Starter, programs: Sequence[Program], setting: Setting) -> None:
        self._starter, self._setting = starter, setting
        self.programs: Mapping[str, Program] = {program.name: program for program in programs}
        self._reference_name = programs[0].name
        self._expected: bytes | None = None
        self._expected_code: int | None = None
        if setting.expect:
            with open(setting.expect, "rb") as file:  # noqa: PTH123
                self._expected = self._filtered(file.read())
        self._baseline = programs[0].name
        self.cores: list[int] = []
        self.parallel = False
        self.ended: dict[str, list[Ended]] = {}
        self.turns: dict[str, int] = {}
        self.least_bytes = 0

    @property
    def oracle_ns(self) -> int:
        return 0

    def now_s(self) -> float:
        return time.monotonic()

    def block(self, number: int, arms: Sequence[str]) -> dict[str, Red]:
        """Every turn is a fresh process; a block only moves on to the next core."""
        self._baseline = arms[0]
        usable = system.host().usable_cores()
        self.cores = usable if self.parallel else [usable[number % len(usable)]]
        return {}

    def round(self, label: Sequence[str | int], order: Sequence[str], *, full: bool = True) -> dict[str, Reading | Red]:
        return {name: self.turn(name) for name in order}

    def turn(self, arm: str, *, keep: bool = True) -> Reading | Red:
        """One start. The control starts what the baseline is."""
        if arm == EMPTY:
            shell = self._setting.shell
            found = self._start(shell_words(shell, ":") if shell else ["true"])
            if isinstance(found, Red):
                return found
            self.least_bytes = max(self.least_bytes, found.peak_bytes)
            return _reading(found, b"")
        program = self.programs[self._baseline if arm == CONTROL else arm]
        self.step("--prepare", program.prepare)
        found = self._start(program.words(self._setting.shell))
        if isinstance(found, Ended):
            self.turns[program.name] = self.turns.get(program.name, 0) + 1
            if red := self._judge(program.name, found):
                found = red
        self.step("--conclude", program.conclude)
        if isinstance(found, Red):
            return found
        if keep and arm != CONTROL:
            self.ended.setdefault(arm, []).append(found)
        return _reading(found, self._answer)

    def step(self, option: str, command: str) -> None:
        """Setup, prepare, conclude, cleanup: not timed, and an error where it fails."""
        if not command:
            return
        try:
            ended = self._starter.run(
                shell_words(self._setting.shell or "/bin/sh", command),
                source="/dev/null",
                cores=system.host().usable_cores(),
                limit_s=max(600.0, self._setting.limit_s),
            )
        except TookTooLong:
            raise BadInput(f"the {option} command {command!r} does not end", cure="try it by itself") from None
        if ended.code != 0:
            said = self._starter.complaint() or ended.why or "it says nothing"
            raise BadInput(
                f"the {option} command {command!r} ends with {_code(ended)}: {said}", cure="try it by itself"
            )

    def _start(self, words: list[str]) -> Ended | Red:
        limit_s = self._setting.limit_s
        cores = self.cores or system.host().usable_cores()
        try:
            return self._starter.run(words, source=self._setting.source, cores=cores, limit_s=limit_s)
        except TookTooLong:
            return Red("hung", f"no end within {limit_s:g} s; --call-limit gives it more")

    def _judge(self, name: str, ended: Ended) -> Red | None:
        """Exit code and output, against the reference. The first answer of the reference becomes it."""
        run = self.turns[name]
        if ended.code is None:
            return Red("died", f"it cannot be started: {ended.why}")
        if ended.left_process:
            return Red("left a process", "a process that it started went on; one that should belongs into --setup")
        ignored = self._setting.ignored_codes
        wanted = self._expected_code if ignored is not None else 0
        if ended.code != (wanted if wanted is not None else ended.code) and ended.code not in (ignored or ()):
            said = self._starter.complaint()
            hint = "" if ignored is not None else "; --ignore-failure takes any"
            return Red("failed", f"{_code(ended)} in run {run}, not {wanted}{hint}" + (f": {said}" if said else ""))
        self._answer = self._filtered(self._starter.output())
        if self._expected is None:
            self._expected, self._expected_code = self._answer, ended.code
        elif self._expected_code is None:
            self._expected_code = ended.code
        if self._answer == self._expected:
            return None
        whose = "the expected file" if self._setting.expect else f"{self._reference_name!r}"
        if name == self._reference_name and not self._setting.expect:
            whose = "its own first output (--filter can take away what changes)"
        return _differs(self._expected, self._answer, f"in run {run} its output is not that of {whose}")

    def _filtered(self, output: bytes) -> bytes:
        if not self._setting.filter:
            return output
        done = subprocess.run(
            shell_words(self._setting.shell or "/bin/sh", self._setting.filter),
            input=output,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            said = " ".join(done.stderr.decode(errors="replace").split())[-300:]
            raise BadInput(
                f"the --filter {self._setting.filter!r} ends with exit code {done.returncode}: {said}",
                cure="it gets an output on stdin and writes what is compared to stdout",
            )
        return done.stdout


def _reading(ended: Ended, answer: bytes) -> Reading:
    return Reading(
        calls=1,
        wall_ns=ended.wall_ns,
        outside_ns=ended.wall_ns,
        cpu_ns=ended.user_ns + ended.system_ns,
        waited_ns=0,
        device_ns=None,
        seed=0,
        digest=hashlib.sha256(answer).hexdigest()[:16],
        check="full",
    )


def _code(ended: Ended) -> str:
    if ended.code is not None and ended.code < 0:
        return f"signal {-ended.code}"
    return f"exit code {ended.code}" if ended.code is not None else f"no start ({ended.why})"


def _differs(wanted: bytes, got: bytes, said: str) -> Red:
    at = next((i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))
    line = wanted.count(b"\n", 0, at) + 1
    begin = max(wanted.rfind(b"\n", 0, at) + 1, at - SHOWN_BYTES // 2)
    shown = [_shown(one[begin : begin + SHOWN_BYTES]) for one in (wanted, got)]
    place = f"line {line}, byte {at:,}: {shown[1]} instead of {shown[0]}"
    return Red("wrong output", f"{said}: {place}", 0, {"stdout": shown[0]}, {"stdout": shown[1]})


def _shown(piece: bytes) -> str:
    return shlex.quote(piece.partition(b"\n")[0].decode(errors="backslashreplace")) if piece else "nothing"
