"""Who gets which trial, and what a lost machine costs: the real bookkeeping over a scripted Ray, without a clock."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import msgspec
import pytest

from whet.cluster import trials
from whet.cluster.errors import HeadLost, MachineLost
from whet.cluster.machines import Machine
from whet.cluster.trial_messages import Failed
from whet.errors import BadInput, Unsupported

GOOD, LOST, SILENT, GARBAGE, ENDED = "good", "lost", "silent", "garbage", "ended"


class Away(Exception):
    """What stands for ray.exceptions.RayError."""


class ScriptedActor:
    """Answers at once what the script of its machine says for the trial at hand."""

    def __init__(self, ray, node):
        self._ray, self.node, self.trial = ray, node, None
        for name in ("start", "hear", "stop"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def _start(self, module, request):
        self.trial = msgspec.json.decode(request)["seed"]
        self._ray.log.append((self.node, self.trial))
        self._ray.busy.append(self.node)
        assert self._ray.busy.count(self.node) == 1, "two trials on one machine"
        return ("value", None)

    def _hear(self, wait_s):
        does = self._ray.script.get((self.node, self.trial), GOOD)
        if does == SILENT:
            return ("never", None)
        self._ray.busy.remove(self.node)
        if does == LOST:
            return ("error", Away("its node died\nand more"))
        if does in (GARBAGE, ENDED):
            return ("value", ([b"what?"] if does == GARBAGE else [], 1, "killed"))
        kind, cause = ("Done", "") if does == GOOD else does
        return ("value", ([msgspec.json.encode(Failed(kind=kind, cause=cause, cure=""))], None, ""))

    def _stop(self):
        self._ray.stopped.append(self.node)


class ScriptedRay:
    """As much of Ray as a Round uses."""

    exceptions = SimpleNamespace(RayError=Away)
    cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)

    def __init__(self, script):
        self.script, self.log, self.busy, self.stopped, self.killed = script, [], [], [], []
        self.on_wait = lambda: None
        self.now_s = 0.0

    def remote(self, cls):
        def options(*, scheduling_strategy, **claims):
            assert claims["max_restarts"] == 0 and claims["num_cpus"] == 4
            return SimpleNamespace(remote=lambda: ScriptedActor(self, scheduling_strategy))

        return SimpleNamespace(options=options)

    def wait(self, refs, num_returns, timeout):
        self.on_wait()
        ready = [ref for ref in refs if ref[0] != "never"]
        self.now_s += 0.0 if ready else 20.0
        return ready[:num_returns], [ref for ref in refs if ref not in ready[:num_returns]]

    def get(self, ref):
        if ref[0] == "error":
            raise ref[1]
        return ref[1]

    def kill(self, actor):
        self.killed.append(actor.node)


class Ref(tuple):
    """Refs are compared by identity."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.fixture
def played(monkeypatch):
    """Plays so many trials on machines of kinds; the answers by (kind, trial), the log and the Ray."""
    for name in ("_start", "_hear"):
        original = getattr(ScriptedActor, name)
        monkeypatch.setattr(ScriptedActor, name, lambda self, *given, original=original: Ref(original(self, *given)))
    monkeypatch.setattr(trials, "on_node", lambda node: node)

    def play(kinds, count, script=None, *, head=lambda: None, on_wait=lambda round_: None):
        ray = ScriptedRay(script or {})
        monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: ray.now_s))
        connection = SimpleNamespace(ray=ray, require_head=head)
        machines = {
            kind: [Machine(node, f"host {node}", kind, 4, 0, trouble) for node, trouble in nodes.items()]
            for kind, nodes in kinds.items()
        }
        asked = [SimpleTrial(seed=number) for number in range(count)]
        heard = []
        round_ = trials.Round(connection, machines, asked, on_report=heard.append)
        ray.on_wait = lambda: on_wait(round_)
        reports = round_.run()
        assert sorted(map(id, heard)) == sorted(map(id, reports)), "each report is told once"
        assert set(ray.killed) >= {node for node, _ in ray.log}, "no actor is left"
        return {(report.kind, report.number): report for report in reports}, ray

    return play


class SimpleTrial(msgspec.Struct):
    seed: int


def causes(reports):
    return {key: report.failure.cause for key, report in reports.items()}


def test_every_kind_gets_every_trial_and_its_machines_share_them(played):
    reports, ray = played({"a": {"a1": None, "a2": None}, "b": {"b1": None}}, 6)
    assert list(reports) == [(kind, number) for kind in "ab" for number in range(6)]
    done = {node: [number for one, number in ray.log if one == node] for node in ("a1", "a2", "b1")}
    assert done["b1"] == list(range(6)) and sorted(done["a1"] + done["a2"]) == list(range(6))
    assert done["a1"] and done["a2"]


def test_a_lost_machine_costs_its_trial_and_the_rest_goes_to_another(played):
    reports, ray = played({"a": {"a1": None, "a2": None}}, 4, {("a1", 0): LOST})
    lost = [key for key, report in reports.items() if isinstance(report.failure, MachineLost)]
    assert lost == [("a", 0)] and "its node died" in causes(reports)["a", 0] and "\n" not in causes(reports)["a", 0]
    assert [number for node, number in ray.log if node == "a2"] == [1, 2, 3]


def test_without_another_machine_the_rest_of_the_kind_is_lost_and_no_other_kind(played):
    reports, _ = played({"a": {"a1": None}, "b": {"b1": None}}, 3, {("a1", 1): LOST})
    lost = [key for key, report in reports.items() if isinstance(report.failure, MachineLost)]
    assert lost == [("a", 1), ("a", 2)] and len(reports) == 6


def test_a_ray_without_tokens_is_told_to_who_has_one(played, monkeypatch):
    """Such a Ray cannot ask the owner of an actor, and calls the actor dead."""
    monkeypatch.setattr(Away, "__str__", lambda self: f"it died\n{trials.NEVER_RAN} including lineage ref count")
    reports, _ = played({"a": {"a1": None}}, 1, {("a1", 0): LOST})
    assert "RAY_AUTH_MODE=disabled" in reports["a", 0].failure.cure


@pytest.mark.parametrize("does", [SILENT, GARBAGE, ENDED])
def test_a_machine_that_tells_nothing_good_is_named(played, does):
    reports, _ = played({"a": {"a1": None}, "b": {"b1": None}}, 1, {("a1", 0): does})
    assert isinstance(reports["a", 0].failure, MachineLost) and "host a1" in causes(reports)["a", 0]
    assert not isinstance(reports["b", 0].failure, MachineLost)


def test_an_error_over_there_keeps_its_class_and_its_machine_goes_on(played):
    reports, ray = played({"a": {"a1": None}}, 2, {("a1", 0): ("BadInput", "no size n")})
    assert isinstance(reports["a", 0].failure, BadInput) and "no size n" in causes(reports)["a", 0]
    assert [number for _, number in ray.log] == [0, 1]


def test_a_kind_without_a_fit_machine_says_why_and_is_asked_nothing(played):
    why = Unsupported("another whet")
    reports, ray = played({"a": {"a1": why}, "b": {"b1": why, "b2": None}}, 2)
    assert [reports["a", number].failure for number in range(2)] == [why, why]
    assert {node for node, _ in ray.log} == {"b2"}


def test_a_lost_head_ends_everything_with_its_name(played):
    def gone():
        raise HeadLost("the head is gone")

    reports, _ = played({"a": {"a1": None}, "b": {"b1": None}}, 2, {(n, 0): SILENT for n in ("a1", "b1")}, head=gone)
    assert len(reports) == 4 and all(isinstance(report.failure, HeadLost) for report in reports.values())


def test_ctrl_c_asks_for_what_there_is_and_begins_nothing_new(played, monkeypatch):
    monkeypatch.setattr(trials, "SILENCE_LIMIT_S", 6000.0)
    looks = []

    def interrupt(round_):
        looks.append(round_)
        if len(looks) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    reports, ray = played({"a": {"a1": None}}, 3, {("a1", 0): SILENT}, on_wait=interrupt)
    assert looks[0].interrupted and ray.stopped == ["a1"] and ray.log == [("a1", 0)] and set(reports) == {("a", 0)}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
