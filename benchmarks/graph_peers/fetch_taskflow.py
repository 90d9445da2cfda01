"""Takes the Taskflow headers out of a source distribution on PyPI that carries them: `fetch_taskflow.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CARRIER = "rapidfuzz"


def main() -> None:
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", CARRIER, CARRIER]
        subprocess.run([*command, "--dest", folder], check=True)
        (archive,) = Path(folder).glob(f"{CARRIER}-*.tar.gz")
        count = 0
        with tarfile.open(archive) as files:
            for member in files:
                # .../extern/taskflow/taskflow/core/executor.hpp -> taskflow/core/executor.hpp
                _, found, path = member.name.partition("/extern/taskflow/")
                if not found or not path.startswith("taskflow/") or not member.isfile():
                    continue
                content = files.extractfile(member)
                assert content is not None
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
                count += 1
    print(f"taskflow: {count} files from {archive.name}")


if __name__ == "__main__":
    main()
