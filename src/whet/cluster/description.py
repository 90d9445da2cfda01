"""Who holds what, for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One worker and its shard."""

    worker: int
    host: str
    pid: int
    start: int
    stop: int
    points_per_second: float
    sums: int
    losses: int


@dataclass(frozen=True)
class Description:
    """`MsmCluster.describe()`; as text it is a table."""

    address: str
    points: int
    verify: bool
    rows: tuple[Row, ...]
    events: tuple[str, ...]

    def __str__(self) -> str:
        checked = ", every shard checked by a second worker" if self.verify else ""
        lines = [f"{self.points} points on {len(self.rows)} workers of the Ray at {self.address}{checked}"]
        lines.append(
            f"{'worker':>6}  {'host':<16} {'pid':>8}  {'points':>24} {'M points/s':>10} {'sums':>6} {'losses':>6}"
        )
        for row in self.rows:
            held = f"{row.start} to {row.stop}" if row.stop > row.start else "none"
            lines.append(
                f"{row.worker:>6}  {row.host:<16.16} {row.pid:>8}  {held:>24} {row.points_per_second / 1e6:>10.2f} "
                f"{row.sums:>6} {row.losses:>6}"
            )
        return "\n".join([*lines, *self.events])
