"""The driver of a cluster on two machines: `python sums_over_a_link.py ADDRESS POINTS`.

It says how many points each process holds. For each number that it reads it computes so many sums, and says how many
are right.
"""

from __future__ import annotations

import json
import sys

from whet._native import curve

from whet.cluster import MsmCluster
from whet.msm.inputs import generator, points_from_logs, to_ints, uniform
from whet.msm.oracle import known_multiples

SEED = 20261117


def main() -> None:
    address, n = sys.argv[1], int(sys.argv[2])
    logs = uniform(generator(SEED, "points"), n)
    points = curve.write_points(points_from_logs(logs))
    vectors = [uniform(generator(SEED, f"scalars {number}"), n) for number in range(4)]
    expected = [known_multiples(to_ints(logs), to_ints(limbs)) for limbs in vectors]
    # No worker takes over from a slow one: what is late has to come over the link.
    waits = {"slow_after_s": 500, "start_deadline_s": 300}
    with MsmCluster(points, address, threads=1, shards=[n // 2, n - n // 2], **waits) as cluster:
        rows = cluster.describe().rows
        print(json.dumps({row.pid: row.stop - row.start for row in rows}), flush=True)
        for line in sys.stdin:
            right = 0
            for number in range(int(line)):
                right += cluster(vectors[number % 4], deadline_s=300) == expected[number % 4]
            print(right, flush=True)


if __name__ == "__main__":
    main()
