"""What a sum costs on many machines: constants measured here, and the model that docs/scale.md shows.

    python benchmarks/cluster_model.py --measure         measures, writes cluster_model.json and docs/scale.md
    python benchmarks/cluster_model.py --measure wire    one constant alone; the others stay
    python benchmarks/cluster_model.py                   prints the tables from the constants of the last measurement

Every time is the least of several, because other work on a machine only ever adds to it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "cluster_model.json"
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- model: begin -->", "<!-- model: end -->"

SCALAR_BYTES = 32
POINT_BYTES = 64
PACKET_PAYLOAD, PACKET_HEADER = 1448, 52
CORES = 16
MACHINES = (8, 32, 128, 512)
SIZES = (26, 28, 30)
LINKS_GBIT = (10, 25, 100)
# A call's fixed part may be so much of its work.
OVERHEAD = 0.05


@dataclass(frozen=True)
class Constants:
    """What was measured. `point_us` is by log2 of the points of a shard, of one core."""

    machine: str
    point_us: dict[str, float]
    call_ms: float
    call_ms_per_worker: float
    head_ns_per_byte: float
    digest_ns_per_byte: float
    wire_bytes_per_scalar: float
    read_bytes_per_s: float
    transfer_bytes_per_s: float
    checks: dict[str, list[float]]
    # Scalars to the other machine, sums, their seconds, and the bytes per second that the link was set to.
    link_run: list[float]

    def us_per_point(self, points: float) -> float:
        """Between measured sizes by their logarithm; beyond them as at the nearest."""
        known = sorted((int(size), cost) for size, cost in self.point_us.items())
        return float(np.interp(math.log2(max(points, 1)), [size for size, _ in known], [cost for _, cost in known]))


@dataclass(frozen=True)
class Cost:
    """Seconds of one sum, by what they are spent on. `read`: a machine reads its scalars, or checks those that came."""

    calls: float
    head: float
    wire: float
    read: float
    compute: float

    @property
    def total(self) -> float:
        return self.calls + self.head + self.wire + self.read + self.compute

    @property
    def largest(self) -> str:
        return max(asdict(self), key=lambda part: asdict(self)[part])


def predict(
    made: Constants, points: int, machines: int, *, cores: int, link_bytes_per_s: float, from_head: bool
) -> Cost:
    """One sum. A shard is sent while the next one is prepared: of the shorter of the two, one shard's part is seen."""
    shard = points / machines
    head = from_head * points * SCALAR_BYTES * made.head_ns_per_byte / 1e9
    wire = from_head * points * made.wire_bytes_per_scalar / link_bytes_per_s
    return Cost(
        calls=(made.call_ms + made.call_ms_per_worker * machines) / 1e3,
        head=head / (machines if head < wire else 1),
        wire=wire / (machines if wire <= head else 1),
        read=shard * SCALAR_BYTES * (made.digest_ns_per_byte / 1e9 if from_head else 1 / made.read_bytes_per_s),
        compute=shard * made.us_per_point(shard) / cores / 1e6,
    )


def given_ns(made: Constants, link_bytes_per_s: float) -> float:
    """Of a scalar that the head prepares and sends, whichever takes longer; the same for any number of machines."""
    return max(SCALAR_BYTES * made.head_ns_per_byte, made.wire_bytes_per_scalar / link_bytes_per_s * 1e9)


def read_ns(made: Constants) -> float:
    """Of a scalar that its machine reads by itself; of all scalars, so much divided by the machines."""
    return SCALAR_BYTES / made.read_bytes_per_s * 1e9


def cores_fed(made: Constants, link_bytes_per_s: float, *, head: bool) -> float:
    """So many cores compute as long as their scalars travel. With `head`, as long as they are prepared, if longer."""
    largest = max(map(int, made.point_us))
    wire_ns = made.wire_bytes_per_scalar / link_bytes_per_s * 1e9
    return made.us_per_point(2**largest) * 1e3 / (given_ns(made, link_bytes_per_s) if head else wire_ns)


def least_shard(made: Constants, machines: int, *, cores: int) -> float:
    """Points of a shard whose work is 1/OVERHEAD times the fixed part of a call."""
    fixed_us = (made.call_ms + made.call_ms_per_worker * machines) * 1e3
    shard = 1.0
    while shard * made.us_per_point(shard) / cores < fixed_us / OVERHEAD:
        shard *= 2**0.125
    return shard


def tables(made: Constants) -> str:
    """Everything that follows from the constants, as Markdown."""
    sizes = sorted(map(int, made.point_us))
    lines = [f"Measured on {made.machine}:", "", "| constant | value |", "|---|---|"]
    lines += [f"| one core, shard of 2^{size} | {made.point_us[str(size)]:.3f} µs per point |" for size in sizes]
    lines += [
        f"| a call, fixed part | {made.call_ms:.2f} ms + {made.call_ms_per_worker:.2f} ms per worker |",
        f"| the head, per byte of scalars (digest, copy into Ray's store) | {made.head_ns_per_byte:.2f} ns |",
        f"| a worker, per byte of scalars that came (digest) | {made.digest_ns_per_byte:.2f} ns |",
        f"| bytes on the link per scalar, MTU 1500 | {made.wire_bytes_per_scalar:.2f} |",
        f"| Ray, one node to another on loopback | {made.transfer_bytes_per_s / 1e6:,.0f} MB/s |",
        f"| scalars from a file in the page cache | {made.read_bytes_per_s / 1e6:,.0f} MB/s |",
        "",
        "Where the head takes over: cores that compute as long as it takes to give them their scalars.",
        "",
        "| link of the head | by the link alone | with the head's own work | ns per scalar from the head | machines"
        " from which reading is sooner |",
        "|---|---|---|---|---|",
    ]
    for gbit in LINKS_GBIT:
        alone, both = (cores_fed(made, gbit * 125e6, head=head) for head in (False, True))
        sent_ns = given_ns(made, gbit * 125e6)
        lines.append(f"| {gbit} Gbit/s | {alone:.0f} | {both:.0f} | {sent_ns:.0f} | {read_ns(made) / sent_ns:.2f} |")
    lines += [
        "",
        f"One sum on machines of {CORES} cores, seconds, and the part that takes longest:",
        "",
        "| points | machines | shard | GiB of it | scalars from the head, 10 Gbit/s | 100 Gbit/s | read by workers |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        for machines in MACHINES:
            cells = [
                predict(made, 2**size, machines, cores=CORES, link_bytes_per_s=gbit * 125e6, from_head=head)
                for gbit, head in ((10, True), (100, True), (10, False))
            ]
            shard = 2**size / machines
            lines.append(
                f"| 2^{size} | {machines} | 2^{math.log2(shard):.0f} | {shard * POINT_BYTES / 2**30:.2f} | "
                + " | ".join(f"{cost.total:.3g} ({cost.largest})" for cost in cells)
                + " |"
            )
    lines += [
        "",
        f"Shards below these spend more than {OVERHEAD:.0%} of their time on the call itself:",
        "",
        f"| machines | points of a shard, {CORES} cores | of all |",
        "|---|---|---|",
    ]
    for machines in MACHINES:
        shard = least_shard(made, machines, cores=CORES)
        lines.append(f"| {machines} | 2^{math.log2(shard):.1f} | 2^{math.log2(shard * machines):.1f} |")
    lines += [
        "",
        "The model against sums on the measured machine (its cores are shared, so both are least times):",
        "",
        "| sum | model, ms | measured, ms |",
        "|---|---|---|",
        *(f"| {name} | {model:.1f} | {measured:.1f} |" for name, (model, measured) in made.checks.items()),
    ]
    if made.link_run:
        model, measured = check_link(made)
        lines.append(f"| 2^16 points, 2 machines, 100 Mbit/s and 5 ms between | {model:.0f} | {measured:.0f} |")
    return "\n".join(lines) + "\n"


def least_s(call: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    best = math.inf
    for _ in range(rounds):
        began = clock()
        call()
        best = min(best, clock() - began)
    return best


def rows_of(size: int) -> np.ndarray:
    from whet._native import curve

    from whet.msm import inputs

    return curve.write_points(inputs.points_from_logs(inputs.logs("random", size, 1)))


def measure_points(exponents: Sequence[int]) -> dict[str, float]:
    from whet.msm import Engine, inputs

    points, scalars = rows_of(2 ** max(exponents)), inputs.scalars("random", 2 ** max(exponents), 2)
    found = {}
    for exponent in exponents:
        n = 2**exponent
        with Engine(points[:n], threads=1) as engine:
            spent = least_s(lambda engine=engine, n=n: engine(scalars[:n]), 5, time.process_time)
        found[str(exponent)] = round(spent * 1e6 / n, 4)
    return found


def measure_calls(workers: Sequence[int], points: np.ndarray) -> tuple[float, float]:
    """Milliseconds of a call, and of each worker more: a line through the least times of sums of few points."""
    from whet.cluster import MsmCluster
    from whet.msm import inputs

    scalars = inputs.scalars("random", len(points), 3)
    times = []
    for count in workers:
        with MsmCluster(points, workers=count, threads=1) as cluster:
            times.append(least_s(lambda cluster=cluster: cluster(scalars), 100) * 1e3)
    slope, fixed = np.polyfit(workers, times, 1)
    return max(0.0, float(fixed)), max(0.0, float(slope))


def measure_head(megabytes: int = 32) -> float:
    """Nanoseconds per byte of what the head does with scalars before they leave: as `MsmCluster` does it."""
    import ray

    from whet.cluster.connection import connect
    from whet.cluster.messages import digest_of

    limbs = np.random.default_rng(1).integers(0, 2**60, (megabytes << 15, 4), np.uint64)

    def prepare() -> None:
        digest_of(limbs[None])
        ray.put(limbs[None])

    with connect(workers=1):
        return least_s(prepare, 5, time.process_time) * 1e9 / limbs.nbytes


def measure_transfer(megabytes: int = 32) -> float:
    """Bytes per second of Ray between two nodes, both on this machine."""
    sys.path.insert(0, str(ROOT / "tests" / "cluster"))
    from machines_here import ENVIRONMENT
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from whet.cluster.connection import connect

    command = [sys.executable, str(ROOT / "tests" / "cluster" / "machines_here.py"), "away"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ | ENVIRONMENT}
    with subprocess.Popen(command, **pipes) as nodes, connect(nodes.stdout.readline().strip()) as connection:
        ray = connection.ray
        (away,) = [node.id for node in connection.nodes() if node.labels.get("whet.kind") == "away"]

        @ray.remote(num_cpus=1, scheduling_strategy=NodeAffinitySchedulingStrategy(away, soft=False))
        def fetch(refs: list) -> float:
            import time

            import ray

            began = time.perf_counter()
            ray.get(refs[0])
            return time.perf_counter() - began

        size = megabytes << 20
        spent = [ray.get(fetch.remote([ray.put(np.full(size, number, np.uint8))])) for number in range(6)]
        found = size / min(spent)
        nodes.stdin.close()
    return found


def check_link(made: Constants) -> tuple[float, float]:
    """Milliseconds of a sum of two machines over a slow link, by the model and measured. One of them is the head."""
    there, sums, seconds, link_bytes_per_s = made.link_run
    cost = predict(made, round(2 * there), 2, cores=1, link_bytes_per_s=link_bytes_per_s, from_head=True)
    return (cost.total - cost.wire / 2) * 1e3, seconds / sums * 1e3


def measure_wire() -> dict[str, object]:
    """Bytes per scalar as the kernel counts them on a link of MTU 1500; a test of four sums prints them."""
    test = ROOT / "tests" / "cluster" / "test_cluster_link.py"
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", str(test)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    found = re.search(r"(\d+) points there: (\d+) bytes out, .* ([\d.]+) s; payload (\d+)", done.stdout)
    if found is None:
        print("the link cannot be measured here; headers by their size instead", file=sys.stderr)
        return {"wire_bytes_per_scalar": SCALAR_BYTES * (1 + PACKET_HEADER / PACKET_PAYLOAD), "link_run": []}
    there, out, seconds, payload = map(float, found.groups())
    return {"wire_bytes_per_scalar": SCALAR_BYTES * out / payload, "link_run": [there, 4, seconds, 12.5e6]}


def measure_read(megabytes: int = 128) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scalars.bin"
        path.write_bytes(os.urandom(megabytes << 20))
        return (megabytes << 20) / least_s(lambda: np.fromfile(path, np.uint64), 6)


def measure_digest(megabytes: int = 32) -> float:
    from whet.cluster.messages import digest_of

    limbs = np.zeros((megabytes << 15, 4), np.uint64)
    return least_s(lambda: digest_of(limbs), 6, time.process_time) * 1e9 / limbs.nbytes


def check(made: Constants, points: np.ndarray) -> dict[str, list[float]]:
    """The model and the truth for sums that fit here: two workers of one core each, scalars from the head."""
    from whet.cluster import MsmCluster
    from whet.msm import inputs

    found = {}
    for exponent in (16, 18, 20):
        n = 2**exponent
        scalars = inputs.scalars("random", n, 4)
        with MsmCluster(points[:n], workers=2, threads=1) as cluster:
            measured = least_s(lambda cluster=cluster, scalars=scalars: cluster(scalars), 6)
        # Workers on one machine share the store: nothing travels.
        model = predict(made, n, 2, cores=1, link_bytes_per_s=math.inf, from_head=True)
        found[f"2^{exponent} points, 2 workers"] = [model.total * 1e3, measured * 1e3]
    return found


MEASURES: dict[str, Callable[[], dict[str, object]]] = {
    "points": lambda: {"point_us": measure_points((12, 14, 16, 18, 20))},
    "calls": lambda: dict(zip(("call_ms", "call_ms_per_worker"), measure_calls((1, 2, 4, 8), rows_of(8)), strict=True)),
    "head": lambda: {"head_ns_per_byte": measure_head()},
    "digest": lambda: {"digest_ns_per_byte": measure_digest()},
    "wire": measure_wire,
    "read": lambda: {"read_bytes_per_s": measure_read()},
    "transfer": lambda: {"transfer_bytes_per_s": measure_transfer()},
    "checks": lambda: {"checks": check(load(), rows_of(2**20))},
}


def measure(names: Sequence[str]) -> None:
    """Each measurement is kept as soon as it is made."""
    from whet.evidence.environment import capture

    cpu = capture()["cpu"]
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"checks": {}}
    for name in names or MEASURES:
        kept |= MEASURES[name]() | {"machine": f"{cpu['model']}, {cpu['usable_cores']} cores"}
        KEPT.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
        print(f"measured: {name}", file=sys.stderr, flush=True)


def load() -> Constants:
    return Constants(**json.loads(KEPT.read_text()))


def shown() -> str:
    """The part of the page that is made from the constants."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="*", choices=list(MEASURES), help="measure anew, and write what follows")
    names = parser.parse_args().measure
    if names is not None:
        measure(names)
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{tables(load())}{END}{rest.partition(END)[2]}")
    print(tables(load()), end="")


if __name__ == "__main__":
    main()
