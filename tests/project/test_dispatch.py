"""Files compiled for newer processors leave nothing behind that the linker could keep for all processors.

An inline function that was not inlined has a copy in every file that uses it, and the linker keeps any one of them. The
copy of a file with `-mavx512f` is an illegal instruction elsewhere, on whatever path calls it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "build" / "native-Release"
FLAGS = ("-mavx", "-mfma", "-mbmi2", "-madx")


def flagged_objects() -> list[Path]:
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    return [
        Path(one["directory"], one["output"])
        for one in commands
        if any(flag in one["command"] for flag in FLAGS) and Path(one["directory"], one["output"]).exists()
    ]


@pytest.mark.skipif(not (BUILD / "compile_commands.json").exists(), reason="the package was not built in this tree")
@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is missing")
def test_no_function_of_a_newer_processor_can_serve_all():
    objects = flagged_objects()
    assert len(objects) > 5
    listed = subprocess.run(["nm", "-C", "-A", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    weak = [line for line in listed.splitlines() if " W " in line and "(" in line]
    assert weak == []
