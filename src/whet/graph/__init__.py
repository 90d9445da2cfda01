"""A task-graph runtime: dependencies from the data, readiness by polling completion bytes.

`Runtime` takes tasks while earlier ones run; `Graph` takes arrays, is built once and replayed many times.
"""

from whet.graph.batch import Batch
from whet.graph.bodies import NUMBA_SIGNATURE, SIGNATURE, NativeBody, kernel, load
from whet.graph.errors import (
    GraphClosed,
    GraphCycle,
    GraphDeadlock,
    GraphError,
    GraphForked,
    GraphStalled,
    GraphTimeout,
    KernelNotFound,
    OutcomeForgotten,
    OutputRetired,
    TaskCancelled,
    TaskFailed,
)
from whet.graph.functions import Reads, TaskFunction, Updates, Writes, task
from whet.graph.futures import Task
from whet.graph.group import Group, Progress, as_completed, gather
from whet.graph.recording import Recording
from whet.graph.replay import Graph, Replay, hardware_workers
from whet.graph.runtime import POLICIES, Runtime
from whet.graph.tensors import In, InOut, NoDep, Out, OutExisting

__all__ = [
    "NUMBA_SIGNATURE",
    "POLICIES",
    "SIGNATURE",
    "Batch",
    "Graph",
    "GraphClosed",
    "GraphCycle",
    "GraphDeadlock",
    "GraphError",
    "GraphForked",
    "GraphStalled",
    "GraphTimeout",
    "Group",
    "In",
    "InOut",
    "KernelNotFound",
    "NativeBody",
    "NoDep",
    "Out",
    "OutExisting",
    "OutcomeForgotten",
    "OutputRetired",
    "Progress",
    "Reads",
    "Recording",
    "Replay",
    "Runtime",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskFunction",
    "Updates",
    "Writes",
    "as_completed",
    "gather",
    "hardware_workers",
    "kernel",
    "load",
    "task",
]
