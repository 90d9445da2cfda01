"""A page's device as the evidence layer asks for it, over whatever leads to it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whet.errors import DeviceError, DeviceGone, DeviceLost, DeviceOutOfMemory, DeviceTimeout, WhetError
from whet.evidence.elsewhere import Disturbed, FirstRun, RemoteTurn
from whet.evidence.messages import Described
from whet.evidence.record import EMPTY
from whet.gpu.portable import fault_of
from whet.lab.strikes import Strikes
from whet.lab.wire import Answer, Facts, Fault

OPEN_LIMIT_S = 60.0
# A device that was opened anew shows by so many runs of the reference kernel that it is sound.
PROOFS = 3
SHOW_EVERY_S = 0.5
# Nobody's turn: what the lab itself asks for.
OWN = ""


class Link(Protocol):
    """The way to one device. `facts` are those of its page now."""

    name: str
    facts: Facts

    def ask(
        self, command: Mapping[str, Any], parts: Mapping[str, bytes], *, limit_s: float, expects: int = 0
    ) -> tuple[Answer, dict[str, bytes], int]:
        """An answer, its parts, and the nanoseconds between sending and hearing."""
        ...


class LabDevice:
    """Programs stay prepared here as well: a page that was loaded again, or lost its device, gets them once more."""

    def __init__(self, link: Link, kind: str) -> None:
        self._link = link
        self.name = f"{kind}:{link.name}" if kind != link.name else kind
        self._prepared: dict[str, tuple[dict[str, Any], dict[str, bytes], float]] = {}
        self._there: set[str] = set()
        self._outputs: dict[str, dict[str, int]] = {}
        self._strikes = Strikes(frozenset({OWN, EMPTY}))
        self._reset = False
        self._view: dict[str, Any] | None = None
        self._shown: dict[str, Any] = {}
        self._shown_at = 0.0
        answer, _, _ = link.ask({"kind": "open"}, {}, limit_s=OPEN_LIMIT_S)
        self._raise(answer.fault)
        self._facts = answer.facts or link.facts

    @property
    def tick_ns(self) -> int:
        return max(1, self._facts.clock_step_ns)

    def facts(self) -> dict[str, Any]:
        """As `AdapterInfo` is stored, so that reports and `tune` read it alike."""
        told = self._facts
        named = " ".join(filter(None, (told.vendor, told.architecture, told.device, told.description))) or "unknown"
        software = told.fallback or "swiftshader" in named.lower()
        return {
            "key": f"{self.name.partition(':')[0]}-{'-'.join(named.lower().split())}",
            "name": named,
            "vendor": told.vendor,
            "architecture": told.architecture,
            "driver": told.agent,
            "backend": "browser",
            "kind": "CPU" if software else "GPU",
            "software": software,
            "features": sorted(told.features),
            "limits": dict(told.limits),
            "timestamps": told.timestamps,
            "cross_origin_isolated": told.isolated,
        }

    def begin(self, title: str, variants: Sequence[str]) -> None:
        rows = [{"variant": name, "gate": "waiting"} for name in variants]
        self._there.clear()
        self._prepared.clear()
        self._strikes = Strikes(frozenset({OWN, EMPTY}))
        self._shown = {"title": title, "note": "starting", "share": 0, "rows": rows}
        self._view = self._shown

    def prepare(self, arm: str, work: Described | None, *, limit_s: float) -> FirstRun:
        command: dict[str, Any] = {"kind": "prepare", "arm": arm, "program": None}
        parts: dict[str, bytes] = {}
        self._outputs[arm] = {}
        if work is not None:
            program = msgspec.json.decode(work.program)
            command["program"] = program
            parts = {f"kept/{name}": data for name, data in work.kept.items()}
            parts |= {f"warm/{name}": data for name, data in work.warm.items()}
            self._outputs[arm] = {str(name): int(program["buffers"][name]) for name in program["outputs"]}
        self._prepared[arm] = command, parts, limit_s
        return self._send(arm)

    def turn(self, arm: str, calls: Sequence[Mapping[str, bytes]], *, timing: bool, limit_s: float) -> RemoteTurn:
        if arm not in self._there:
            self._send(arm)
        poison = secrets.randbits(32)
        command = {"kind": "turn", "arm": arm, "calls": len(calls), "timing": timing, "poison": poison}
        parts = {f"{number}/{name}": data for number, fed in enumerate(calls) for name, data in fed.items()}
        sizes = self._outputs[arm]
        wanted = {f"{number}/{name}": size for number in range(len(calls)) for name, size in sizes.items()}
        answer, got, outside_ns = self._asked(arm, command, parts, limit_s=limit_s, expects=sum(wanted.values()))
        if {name: len(data) for name, data in got.items()} != wanted:
            raise DeviceError(f"{self.name} sent other buffers than it was asked for", cure="load its page again")
        read: list[dict[str, bytes]] = [{} for _ in calls]
        for key, data in got.items():
            number, _, name = key.partition("/")
            read[int(number)][name] = data
        self._strikes.finished(arm)
        return RemoteTurn(answer.walls_ns, read, outside_ns, answer.device_ns, answer.regions_ns)

    def reference_ns(self) -> int:
        answer, _, _ = self._asked(OWN, {"kind": "reference"}, {}, limit_s=OPEN_LIMIT_S)
        return sum(answer.walls_ns)

    def show(self, note: str, rows: Sequence[Mapping[str, Any]], *, share: float = 0.0, at_once: bool = False) -> None:
        """Goes along with the next command, not more often than a person can read; what cannot wait goes by itself."""
        now = time.monotonic()
        if not at_once and now - self._shown_at < SHOW_EVERY_S:
            return
        self._shown_at = now
        self._shown = {**self._shown, "note": note, "share": share, **({"rows": list(rows)} if rows else {})}
        self._view = self._shown
        if at_once:
            try:
                self._asked(OWN, {"kind": "show"}, {}, limit_s=OPEN_LIMIT_S)
            except (DeviceError, Disturbed):
                return

    def _send(self, arm: str) -> FirstRun:
        command, parts, limit_s = self._prepared[arm]
        answer, _, _ = self._asked(arm, command, parts, limit_s=limit_s)
        self._there.add(arm)
        return FirstRun(answer.compile_ns, answer.first_ns)

    def _asked(
        self, arm: str, command: dict[str, Any], parts: dict[str, bytes], *, limit_s: float, expects: int = 0
    ) -> tuple[Answer, dict[str, bytes], int]:
        more: dict[str, Any] = {"view": self._view} if self._view is not None else {}
        more |= {"reset": True} if self._reset else {}
        self._view, self._reset = None, False
        try:
            answer, got, outside_ns = self._link.ask({**command, **more}, parts, limit_s=limit_s, expects=expects)
        except DeviceGone:
            raise
        except (DeviceLost, DeviceTimeout) as error:
            raise self._struck(arm, error) from None
        except Disturbed:
            self._forget()
            raise
        if answer.hidden:
            raise Disturbed(f"the tab of {self.name} was hidden")
        if answer.fault is not None and answer.fault.kind == "forgotten":
            self._forget()
            raise Disturbed(f"{self.name} was opened again since")
        if answer.fault is not None and answer.fault.kind == "adapter":
            # It had one when the run began: what took it away is not what asked for it now.
            raise self._struck(OWN, DeviceLost(f"{self.name} has no adapter any more", cure="load its page again"))
        try:
            self._raise(answer.fault)
        except (DeviceLost, DeviceOutOfMemory) as error:
            raise self._struck(arm, error) from None
        return answer, got, outside_ns

    def _forget(self) -> None:
        """The page holds no programs any more, and shows nothing."""
        self._there.clear()
        self._view = self._shown or None

    def _struck(self, arm: str, failure: WhetError) -> WhetError | Disturbed:
        """What a failure under this arm comes to: the arm's own fault, or a disturbance that is nobody's."""
        self._forget()
        self._reset = True
        self._strikes.note(arm)
        if self._strikes.hopeless:
            often = f"{self.name} failed {self._strikes.total} times in one run, the last time so: {failure.cause}"
            return DeviceGone(often, cure="close what else runs on it, and run again")
        if self._strikes.suspects(arm) and self._sound():
            return failure
        return Disturbed(failure.cause)

    def _sound(self) -> bool:
        """Whether the device, opened anew, does what has nothing to do with any variant."""
        try:
            for number in range(PROOFS):
                command = {"kind": "reference", **({"reset": True} if number == 0 else {})}
                answer, _, _ = self._link.ask(command, {}, limit_s=OPEN_LIMIT_S)
                if answer.fault is not None:
                    return False
        except DeviceGone:
            raise
        except (DeviceError, Disturbed):
            return False
        return True

    def _raise(self, fault: Fault | None) -> None:
        if fault is not None:
            raise fault_of(msgspec.to_builtins(fault), where=self._link.name)
