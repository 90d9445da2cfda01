"""What can go wrong in a task graph, typed. Each names the tasks concerned and the option that helps."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError

from whet.errors import BadInput, Cancelled, DeviceTimeout, WhetError

__all__ = [
    "BadInput",
    "Cancelled",
    "GraphClosed",
    "GraphCycle",
    "GraphDeadlock",
    "GraphError",
    "GraphForked",
    "GraphStalled",
    "GraphTimeout",
    "KernelNotFound",
    "OutcomeForgotten",
    "OutputRetired",
    "TaskCancelled",
    "TaskFailed",
]


class GraphError(WhetError):
    """Base of the errors of whet.graph that are not plain BadInput."""


class TaskFailed(GraphError):
    """A body raised or returned a nonzero status. Its dependents were cancelled, everything else has finished."""

    def __init__(self, cause: str, *, cure: str = "", task: int = -1, name: str = "", status: int = 0) -> None:
        super().__init__(cause, cure=cure)
        self.task = task
        self.name = name
        self.status = status


class TaskCancelled(GraphError, Cancelled, CancelledError):
    """The task did not run: it was cancelled, or depends on one that failed."""


class GraphDeadlock(GraphError):
    """A ring is full and nothing in it can ever move. `ring` is its name, `option` the one to change."""

    def __init__(self, cause: str, *, cure: str = "", ring: str = "", option: str = "") -> None:
        super().__init__(cause, cure=cure)
        self.ring = ring
        self.option = option


class GraphStalled(GraphError):
    """Nothing runs, nothing is ready, and tasks are left."""


class GraphTimeout(GraphError, DeviceTimeout, TimeoutError):
    """A wait or a close took longer than allowed. The text names what is still running."""


class GraphClosed(GraphError):
    """The runtime has been closed."""


class GraphForked(GraphError):
    """The runtime belongs to the parent process; its workers are not in this one."""


class OutputRetired(GraphError):
    """An output of a batch was used after its memory had been given back."""


class OutcomeForgotten(GraphError):
    """What became of a task is no longer known: more than a million tasks have failed since."""


class GraphCycle(BadInput):
    """The tasks of a built graph wait for each other. `path` is t0, t1, ..., t0, each the predecessor of the next."""

    def __init__(self, path: Sequence[int]) -> None:
        shown = " -> ".join(str(task) for task in path[:20]) + (" -> ..." if len(path) > 20 else "")
        super().__init__(f"the graph has a cycle: {shown}", cure="remove one of these edges")
        self.path = list(path)


class KernelNotFound(GraphError, OSError):
    """A library or a symbol in it cannot be loaded. The loader's own words are in the text."""

    def __init__(self, cause: str, *, cure: str = "", library: str = "", symbol: str = "") -> None:
        super().__init__(cause, cure=cure)
        self.library = library
        self.symbol = symbol
