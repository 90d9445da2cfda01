"""What a Ray looks like from outside: its machines, and the workers of sums that hold points there."""

from __future__ import annotations

from dataclasses import dataclass

from whet.cluster.connection import Connection, Node

NAMESPACE = "whet"  # of the named workers of sums
TALK = "talk"  # the threads with which a worker answers while it computes
ANSWER_S = 5.0


@dataclass(frozen=True)
class WorkerStatus:
    """One worker of a sum. One that does not answer has a name and nothing else."""

    name: str
    host: str = ""
    pid: int = 0
    threads: int = 0
    requests: int = 0
    shards: tuple[tuple[int, int], ...] = ()

    @property
    def answers(self) -> bool:
        return self.pid != 0


@dataclass(frozen=True)
class ClusterStatus:
    address: str
    ray: str
    nodes: tuple[Node, ...]
    workers: tuple[WorkerStatus, ...]


def look(connection: Connection, answer_s: float = ANSWER_S) -> ClusterStatus:
    """Asks every worker at once and waits for `answer_s` at most."""
    ray = connection.ray
    nodes = tuple(connection.nodes())
    asked = {}
    names = [row["name"] for row in ray.util.list_named_actors(all_namespaces=True) if row["namespace"] == NAMESPACE]
    for name in sorted(names):
        try:
            actor = ray.get_actor(name, namespace=NAMESPACE)
            asked[name] = actor.status.options(concurrency_group=TALK).remote()
        except (ValueError, ray.exceptions.RayError):  # gone since
            continue
    ready = ray.wait(list(asked.values()), num_returns=len(asked), timeout=answer_s)[0] if asked else []
    workers = []
    for name, ref in asked.items():
        try:
            told = ray.get(ref) if ref in ready else {}
        except ray.exceptions.RayError:
            told = {}
        workers.append(WorkerStatus(name, **{**told, "shards": tuple(told["shards"])} if told else {}))
    return ClusterStatus(connection.address, ray.__version__, nodes, tuple(workers))
