"""The machines of a cluster and their kinds: a trial on one machine of a kind speaks for the others of that kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from whet import __version__
from whet.cluster import fresh_process
from whet.cluster.connection import Connection, Node, require_same_versions
from whet.cluster.errors import MachineLost
from whet.cluster.trial_messages import Answer, AskFacts, Facts, Failed
from whet.errors import BadInput, Unsupported, WhetError

KIND_LABEL = "whet.kind"
MODULE = "whet.cluster.on_machine"
FACTS_LIMIT_S = 120.0


@dataclass(frozen=True)
class Machine:
    """One node of Ray. `trouble` is why no trial can run there, where there is a reason."""

    node: str
    host: str
    kind: str
    cpus: float
    gpus: float
    trouble: WhetError | None = None


def find_machines(connection: Connection, limit_s: float = FACTS_LIMIT_S) -> list[Machine]:
    """Every machine of the cluster, by kind and address. Each is asked what it is, all at once."""
    nodes = connection.nodes()
    asked = [_ask(connection.ray, node, limit_s) for node in nodes]
    connection.ray.wait(asked, num_returns=len(asked), timeout=limit_s + fresh_process.END_LIMIT_S)
    found = [_machine(connection.ray, node, answer) for node, answer in zip(nodes, asked, strict=True)]
    return sorted(found, key=lambda machine: (machine.kind, machine.trouble is not None, machine.host, machine.node))


def by_kind(machines: Sequence[Machine], asked: Sequence[str] = ()) -> dict[str, list[Machine]]:
    """The machines of each kind, or of those that are asked for by name or by a part of it that fits one alone."""
    kinds: dict[str, list[Machine]] = {}
    for machine in machines:
        kinds.setdefault(machine.kind, []).append(machine)
    if not asked:
        return kinds
    return {kind: kinds[kind] for kind in dict.fromkeys(_named(text, list(kinds)) for text in asked)}


def _named(text: str, kinds: Sequence[str]) -> str:
    if text in kinds:
        return text
    fitting = [kind for kind in kinds if text.casefold() in kind.casefold()] if text else []
    if len(fitting) == 1:
        return fitting[0]
    cure = f"kinds: {'; '.join(fitting or kinds)}"
    raise BadInput(f"{'several kinds fit' if fitting else 'no machine is of the kind'} {text!r}", cure=cure)


def on_node(node: str) -> Any:
    """How Ray is told that a task or an actor belongs on that machine and on no other."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def carried(ray: Any) -> Any:
    """The module of the process that is started on a machine, carried there by value: whet need not be there."""
    ray.cloudpickle.register_pickle_by_value(fresh_process)
    return fresh_process


def _ask(ray: Any, node: Node, limit_s: float) -> Any:
    question = msgspec.json.encode(AskFacts(adapter=KIND_LABEL not in node.labels))
    remote = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node.id))(carried(ray).ask)
    return remote.remote(MODULE, question, limit_s)


def _machine(ray: Any, node: Node, answer: Any) -> Machine:
    # Several nodes may share an address, where one machine plays many.
    host = f"{node.host} ({node.id[:6]})"
    trouble: WhetError | None = None
    kind = node.labels.get(KIND_LABEL, "")
    try:
        facts = _facts(ray, host, answer)
        kind = kind or _described(facts)
        require_same_versions({"whet": facts.whet, "Python": facts.python}, host)
    except WhetError as error:
        trouble = error
    gpus = float(node.resources.get("GPU", 0))
    return Machine(node.id, host, kind or f"unknown ({host})", float(node.cpus), gpus, trouble)


def _facts(ray: Any, host: str, answer: Any) -> Facts:
    try:
        lines, code, words = ray.get(answer, timeout=0)
    except ray.exceptions.RayError as error:
        raise MachineLost(
            f"{host} does not answer: {first_line(error)}", cure="ray status shows who is there"
        ) from None
    for line in lines:
        said = msgspec.json.decode(line, type=Answer)
        if isinstance(said, Facts):
            return said
        if isinstance(said, Failed):
            raise Unsupported(f"{host}: {said.cause}", cure=said.cure)
    raise no_whet(host, code, words)


def no_whet(host: str, code: int | None, words: str) -> WhetError:
    """Why the process on that machine said nothing: whet is missing there, or it ended badly."""
    last = words.splitlines()[-1] if words else "it said nothing"
    if "No module named" in last:
        return Unsupported(
            f"{host}: {last.rpartition(': ')[2]}",
            cure=f"install whet {__version__} with its extra `cluster` for the Python that Ray runs on there",
        )
    return MachineLost(
        f"{host}: the process of the trial ended with {code}: {last}", cure="look at that machine's logs"
    )


def _described(facts: Facts) -> str:
    cores = f"{facts.cores} core{'' if facts.cores == 1 else 's'}"
    return ", ".join(part for part in (facts.cpu, cores, facts.adapter) if part)


def first_line(error: BaseException) -> str:
    """Ray's errors are pages; their first line says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
