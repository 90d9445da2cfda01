"""Takes the Taskflow headers out of a source distribution on PyPI that carries them: `fetch_taskflow.py FOLDER`.

Run it with an interpreter that has no build backend: pip then unpacks the sources, fails to prepare them, and leaves
them where they are. Preparing them would compile for minutes and is not needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CARRIER = "rapidfuzz"


def main() -> None:
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-clean",
            "--no-build-isolation",
        ]
        command += ["--no-binary", CARRIER, CARRIER, "--dest", f"{folder}/out"]
        subprocess.run(command, check=False, env={**os.environ, "TMPDIR": folder}, stderr=subprocess.DEVNULL)
        found = list(Path(folder).glob(f"pip-*/{CARRIER}*/extern/taskflow/taskflow"))
        if not found:
            raise SystemExit(f"taskflow: no headers in the source distribution of {CARRIER}")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copytree(found[0], target / "taskflow", dirs_exist_ok=True)
    print(f"taskflow: headers from the source distribution of {CARRIER}")


if __name__ == "__main__":
    main()
