"""Exit codes of `whet ab --against --fail-if-slower 3%`, many times: an identical commit, and one that is 8 % slower.

python benchmarks/soak_revisions.py --trials 20
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))
from made_repository import make_repository

WHET = Path(sys.executable).with_name("whet")


def exit_codes(repository: Path, against: str, trials: int) -> Counter[int]:
    codes: Counter[int] = Counter()
    for number in range(trials):
        began = time.monotonic()
        words = [str(WHET), "ab", "kernels.py", "mix", "--against", against, "--fail-if-slower", "3%"]
        code = subprocess.run(words, cwd=repository, stdout=subprocess.DEVNULL, check=False).returncode
        codes[code] += 1
        print(f"{against} {number + 1}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="whet-soak-") as folder:
        os.environ |= {"WHET_CACHE": f"{folder}/cache", "WHET_STORE": f"{folder}/runs.sqlite"}
        repository = make_repository(Path(folder) / "project")
        same = exit_codes(repository, "same", trials)
        faster = exit_codes(repository, "faster", trials)
    print(f"an identical commit: exit code 0 in {same[0]} of {trials}")
    print(f"a slow-down of 8 %: exit code 1 in {faster[1]} of {trials}")
    return 0 if same[0] == trials and not faster[0] else 1


if __name__ == "__main__":
    raise SystemExit(main())
