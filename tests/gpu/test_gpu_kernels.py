"""Every kernel of both engines, put together for every kind of knob: whole, from all files, by the rules for shifts."""

from __future__ import annotations

import re
from itertools import product

import pytest

from whet.decode.stored import KV_TYPES, WEIGHT_TYPES
from whet.decode.webgpu import sources as decode
from whet.decode.webgpu.geometry import STAGES
from whet.gpu.trust import PROBES
from whet.msm.webgpu import layout
from whet.msm.webgpu.kernels import assembled, files
from whet.msm.webgpu.knobs import Choice

CHOICES = [
    Choice("gpu_plain"),
    *(Choice("walker", scratch=scratch) for scratch in ("private", "workgroup", "device")),
    *(Choice("coop", g=g) for g in (1, 8, 64)),
]


def msm_kernels():
    for choice, wide in product(CHOICES, (False, True)):
        for file in files(choice).values():
            yield layout.WGSL, file, assembled(file, choice, wide=wide)
    for operation, multiply in product(("multiply", "invert"), ("portable", "wide")):
        keys = {"operation": operation, "multiply": multiply, "length": 8, "workgroup": 64}
        yield layout.WGSL, "chain", layout.WGSL.assemble("chain", **keys)


def decode_kernels():
    for stage, kind, tile in product(STAGES, WEIGHT_TYPES, (1, 2, 4)):
        yield decode.WGSL, stage, decode.WGSL.assemble("product", stage=stage, kind=kind, tile=tile)
    for kv_type in KV_TYPES:
        yield decode.WGSL, "attend", decode.WGSL.assemble("attend", kv_type=kv_type)
    for entry in ("norm", "gather"):
        yield decode.WGSL, entry, decode.WGSL.assemble("norm")


def probes():
    for name in PROBES.names():
        yield PROBES, name, PROBES.assemble(name)


ENGINES = {"msm": msm_kernels, "decode": decode_kernels, "gpu": probes}


@pytest.mark.parametrize("engine", ENGINES)
def test_kernels_are_whole_and_use_every_file(engine):
    used, folders = {}, {}
    for folder, entry, made in ENGINES[engine]():
        assert "${" not in made.source and "//#" not in made.source
        assert len(re.findall(rf"@compute\s+@workgroup_size\([^)]*\)\s+fn {entry}\(", made.source)) == 1
        assert made.bindings
        named = re.findall(r"^(?:fn|const|struct) (\w+)", made.source, re.M)
        assert len(named) == len(set(named)), "nothing is declared twice"
        folders[folder.path] = folder
        used.setdefault(folder.path, set()).update(line.file for line in made.lines)
    assert {path: set(folder.names()) for path, folder in folders.items()} == used


@pytest.mark.parametrize("engine", ENGINES)
def test_every_line_knows_its_file(engine):
    for folder, _, made in ENGINES[engine]():
        for number, text in enumerate(made.source.splitlines(), start=1):
            origin = made.origin(number)
            written = folder.lines(origin.file)[origin.number - 1].text
            assert text == written or "${" in written
        break


def test_the_host_reads_its_layout_from_the_files():
    assert layout.FIELDS[:3] == ("rows", "window_bits", "columns") and len(layout.FIELDS) == 24
    assert layout.TALLY["TASKS"] == 2 and layout.TALLY_WORDS == 32 and layout.FIRST_COUNTER == 16
    assert layout.COUNTERS[-1] == "rounds"


@pytest.mark.parametrize("folder", [layout.WGSL, decode.WGSL, PROBES], ids=["msm", "decode", "gpu"])
def test_every_file_begins_with_what_it_is(folder):
    for name in folder.names():
        first = folder.lines(name)[0].text
        assert re.match(r" *// \w", first) and len(first) > 20, name
        assert name.startswith("generated/") or all(len(line.text) <= 120 for line in folder.lines(name)), name
