"""What can go wrong between machines. Each is a ClusterError, with a cause and a cure."""

from __future__ import annotations

from whet.errors import Unsupported, WhetError


class ClusterError(WhetError):
    """Base of the faults of a cluster."""


class MissingExtra(ClusterError, Unsupported):
    """Ray is not installed."""


class Unreachable(ClusterError):
    """No Ray answers at the address within the deadline, or it turns this process away."""


class VersionMismatch(ClusterError):
    """Ray, Python or whet differ between machines that must work together."""


class HeadLost(ClusterError):
    """The Ray that this process belongs to is gone."""


class WorkerLost(ClusterError):
    """Workers went away more often than they are replaced."""


class MachineLost(ClusterError):
    """A machine, or the way to it, failed in the middle of a trial. Its run is lost, and nothing else."""


class DeadlinePassed(ClusterError):
    """An answer did not come in time. Nothing half-done is returned."""


class ObjectStoreFull(ClusterError):
    """Ray has no shared memory left for what a call sends."""


class UnreadableShard(ClusterError):
    """A worker cannot read its part of a file."""


class WorkerLies(ClusterError):
    """A worker's answers fail the check, and no other worker could take its place."""
