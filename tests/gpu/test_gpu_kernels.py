"""Every kernel of the package for every kind of knob: whole, made of all files, without shifts by run-time amounts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from whet.decode.oracle import E4M3_TABLE
from whet.decode.webgpu.sources import WGSL as DECODE
from whet.gpu import Kernel, Pass
from whet.gpu.assembler import Folder
from whet.msm.webgpu import layout

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "check_wgsl"))
from compilers import complaints, place
from every_kernel import Made, every_kernel

ALL = list(every_kernel())
FOLDERS = list({made.folder.path: made.folder for made in ALL}.values())
CONSTANT = re.compile(r"\d+u?|vec[234](?:u|<u32>)\(\d+u(?:, \d+u)*\)")


def test_kernels_are_whole_and_use_every_file():
    used = {folder.path: set() for folder in FOLDERS}
    for made in ALL:
        source = made.assembled.source
        assert "${" not in source and "//#" not in source
        entry = rf"@compute\s+@workgroup_size\([^)]*\)\s+fn {made.entry}\("
        assert len(re.findall(entry, source)) == 1 and made.assembled.bindings, made.about
        named = re.findall(r"^(?:fn|const|struct) (\w+)", source, re.M)
        assert len(named) == len(set(named)), "nothing is declared twice"
        used[made.folder.path].update(line.file for line in made.assembled.lines)
    assert used == {folder.path: set(folder.names()) for folder in FOLDERS}
    assert len(FOLDERS) == 3 and len(ALL) > 80


def test_every_line_knows_its_file():
    for made in ALL[:: len(ALL) // 10]:
        for number, text in enumerate(made.assembled.source.splitlines(), start=1):
            origin = made.assembled.origin(number)
            written = made.folder.lines(origin.file)[origin.number - 1].text
            assert text == written or "${" in written


def run_time_shifts(source):
    amounts = re.findall(r"\s(?:<<|>>)=?\s+(vec\S+?\([^)]*\)|[^\s;,)]+)", re.sub(r"//.*", "", source))
    return [amount for amount in amounts if not CONSTANT.fullmatch(amount)]


def test_every_shift_is_by_a_constant(tried):
    """Some drivers get shifts by a run-time amount wrong."""
    assert {made.about: bad for made in ALL if (bad := run_time_shifts(made.assembled.source))} == {}
    assert any(" >> vec4u(0u, 4u" in made.assembled.source for made in ALL)
    for planted in ("a >> b", "a >> (8u * (at % 4u))", "a <<= n;", "word << vec4u(0u, k, 8u, 12u)", "x >> vec4u(k)"):
        assert run_time_shifts(f"let x = {planted};"), planted
        tried("planted faults")


def test_the_host_reads_its_layout_from_the_files():
    assert layout.FIELDS[:3] == ("rows", "window_bits", "columns") and len(layout.FIELDS) < 64 - 16
    assert layout.TALLY["TASKS"] == 2 and layout.TALLY_WORDS == 32 and layout.FIRST_COUNTER == 16
    assert layout.COUNTERS[:2] == ("single", "accumulated") and layout.COUNTERS[-1] == "rootless"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.path.parent.parent.name)
def test_every_file_begins_with_what_it_is(folder):
    for name in folder.names():
        first = folder.lines(name)[0].text
        assert re.match(r" *// \w", first) and len(first) > 20, name
        assert name.startswith("generated/") or all(len(line.text) <= 120 for line in folder.lines(name)), name


SAID = {
    "Error while parsing WGSL: :3:5 error: unresolved value 'y'\n let x = y;": (3, "unresolved value 'y'"),
    "Caused by:\n  In wgpu\n\nShader '' parsing error: no definition\n  ┌─ wgsl:4:11\n": (4, "no definition"),
    "Shader validation error: Function [0] 'f' is invalid\n  ┌─ :12:1\n": (12, "Function [0] 'f' is invalid"),
    "out of everything": (1, "out of everything"),
}


@pytest.mark.parametrize("said", SAID)
def test_a_compilers_complaint_names_its_line(said):
    assert place(said) == SAID[said]


def test_a_complaint_names_the_file(tmp_path, tried):
    """What `make lint` prints is the file and line that somebody wrote, not those of the rendered kernel."""

    def compiler(source):
        return f":{source.splitlines().index('let x = y;') + 1}:9 error: unresolved value"

    (tmp_path / "kernel.wgsl").write_text("// A kernel.\n//# import part\nfn f() {}\n")
    (tmp_path / "part.wgsl").write_text("// A part.\n//# if a == 1\nlet x = y;\n//# end\n")
    folder = Folder(tmp_path)
    made = Made(folder, "f", "f of a test", folder.assemble("kernel", a=1))
    assert complaints([made, made], compiler) == (2, [f"{tmp_path}/part.wgsl:3: unresolved value (f of a test)"])
    tried("planted faults")


@pytest.mark.gpu
@pytest.mark.xdist_group("gpu")
def test_every_e4m3_byte_has_its_value(decode_device, tried):
    """Entries and scales, all 256 codes; 0x7f and 0xff are NaN."""
    harness = """
@group(0) @binding(0) var<storage, read_write> data: array<vec4u>;
@compute @workgroup_size(64) fn values(@builtin(global_invocation_id) id: vec3u) {
    let word = data[id.x].x;
    data[64u + id.x] = bitcast<vec4u>(from_e4m3(word));
    for (var i = 0u; i < 4u; i++) { data[128u + id.x][i] = bitcast<u32>(e4m3_scale(word, i)); }
}"""
    source = DECODE.text("e4m3") + "\n" + DECODE.text("e4m3_scale") + harness
    words = np.zeros((192, 4), np.uint32)
    words[:64, 0] = np.arange(256, dtype=np.uint8).view(np.uint32)
    buffer = decode_device.buffer("data", words.nbytes, data=words.reshape(-1))
    try:
        decode_device.submit([Pass("values", Kernel(source, "values"), ("data",), (1, 1, 1))])
        found = decode_device.read(buffer, np.float32)[256:].reshape(2, 256)
    finally:
        decode_device.release(buffer)
    for values in found:
        assert np.array_equal(values, E4M3_TABLE, equal_nan=True)
    tried("differential operations", 512)
