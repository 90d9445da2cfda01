"""The substrate on a real adapter: limits, ledger, poison, timestamps, faults at every moment, nothing leaked."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from whet.errors import BadInput, DeviceError, DeviceLost, DeviceOutOfMemory, DeviceTimeout, ShaderError, Unsupported
from whet.gpu import Clear, Copy, Kernel, Pass, Program, Span, adapters, choose_adapter, open_device
from whet.gpu.assembler import Folder
from whet.gpu.device import POISON
from whet.gpu.faults import FAULTS, MOMENTS
from whet.gpu.trust import PROBES, examine

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

TRIPLE = """
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> tripled: array<u32>;
@compute @workgroup_size(64) fn triple(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < arrayLength(&source)) { tripled[id.x] = 3u * source[id.x]; }
}
"""


def run_triple(device, n=1000):
    source = device.buffer("source", 4 * n, data=np.arange(n, dtype=np.uint32))
    tripled = device.buffer("tripled", 4 * n)
    try:
        step = Pass("triple", Kernel(TRIPLE, "triple"), ("source", "tripled"), (-(-n // 64), 1, 1))
        times = device.submit([step], timestamps=True)
        return times, device.read(tripled)
    finally:
        device.release(source)
        device.release(tripled)


def test_a_pass_computes_and_is_timed_in_nanoseconds(device):
    times, result = run_triple(device)
    assert np.array_equal(result, 3 * np.arange(1000, dtype=np.uint32))
    assert times[0][0] == "triple"
    if "timestamp-query" in device.info.features:
        assert 0 < times[0][1] < 60_000_000_000


def test_unwritten_bytes_are_poison_in_debug_mode(device):
    assert (device.read(device.buffer("untouched", 256)) == POISON).all()


def test_clear_and_copy_keep_their_order(device):
    device.buffer("a", 16, data=np.array([1, 2, 3, 4], np.uint32))
    b = device.buffer("b", 16)
    device.submit([Copy("a", "b", 16), Clear("a"), Copy("a", "b", 4, target_offset=8), Clear("b", 0, 4)])
    assert device.read(b).tolist() == [0, 2, 0, 4]


def test_a_program_allocates_all_or_nothing_and_binds_parts(device):
    second = Span("source", 256, 256)
    step = Pass("triple", Kernel(TRIPLE, "triple"), (second, "tripled"), (1, 1, 1))
    program = Program({"source": 512, "tripled": 256}, (step,), {"source": np.arange(128, dtype=np.uint32)})
    made = device.allocate(program)
    device.submit(program.steps)
    assert np.array_equal(device.read(made["tripled"]), 3 * np.arange(64, 128, dtype=np.uint32))
    with pytest.raises(BadInput, match="'elsewhere'"):
        device.submit([Clear("elsewhere")])
    for buffer in made.values():
        device.release(buffer)
    with pytest.raises(DeviceOutOfMemory):
        device.allocate(Program({"small": 64, "huge": (256 << 20) + 4}, ()))
    assert "small" not in device.ledger.live


def test_the_ledger_counts_every_byte_and_the_peak(device):
    first = device.buffer("first", 1024)
    second = device.buffer("second", 2048)
    device.release(first)
    third = device.buffer("third", 512)
    assert device.ledger.live == {"second": 2048, "third": 512}
    assert device.ledger.live_bytes == 2560
    assert device.ledger.peak_bytes == 3072
    assert device.ledger.peak == {"first": 1024, "second": 2048}
    device.read(second)
    assert device.ledger.peak_bytes == 2048 + 512 + 2048, "staging counts"
    device.release(second)
    device.release(third)
    assert device.ledger.live_bytes == 0


def test_pipelines_are_built_once_per_source(device):
    kernel = Kernel(TRIPLE, "triple")
    assert device.pipeline(kernel) is device.pipeline(Kernel(TRIPLE, "triple"))
    assert device.pipeline(Kernel(TRIPLE + "\n// other", "triple")) is not device.pipeline(kernel)


def test_a_pass_that_comes_again_binds_the_buffers_that_are_there_now(device):
    """Bind groups are kept while no buffer is released; a new buffer of an old name is bound anew."""
    step = Pass("triple", Kernel(TRIPLE, "triple"), ("source", "tripled"), (1, 1, 1))
    tripled = device.buffer("tripled", 256)
    for first in (1, 100):
        source = device.buffer("source", 256, data=np.arange(first, first + 64, dtype=np.uint32))
        for _ in range(2):
            device.submit([step])
        assert len(device._groups) == 1
        assert device.read(tripled)[0] == 3 * first
        device.release(source)
    with pytest.raises(BadInput, match="'source'"):
        device.submit([step])


def test_the_browser_floor_is_enforced(device):
    assert device.handle.limits["max-storage-buffers-per-shader-stage"] == 8
    with pytest.raises(ShaderError, match="256"):
        device.pipeline(Kernel(TRIPLE.replace("64", "512"), "triple"))
    with pytest.raises(DeviceOutOfMemory):
        device.buffer("huge", (256 << 20) + 4)
    assert "huge" not in device.ledger.live


def test_a_shader_error_names_the_line(device):
    with pytest.raises(ShaderError) as caught:
        device.pipeline(Kernel("\n\nfn broken( {", "broken"))
    assert caught.value.line == 3
    assert caught.value.log and caught.value.cure


MISTAKES = {
    "syntax": ("    return x +;", 5, 'expected expression, found ";"'),
    "name": ("    return x + missing;", 5, "missing"),
    "type": ("    return x + 1.5f;", 5, "Operation Add"),
    "index": ("    var some: array<u32, 4>;\n    some[7] = x;\n    return some[x];", 6, "out of"),
    "no return": ("    let y = x;", 4, "return"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_shader_error_names_the_file_and_its_own_line(device, tmp_path, mistake, tried):
    """The kernel imports the file with the mistake below a line that is left out, so no rendered line is its own."""
    text, number, said = MISTAKES[mistake]
    kernel = "// A kernel.\n\n\n//# import part\n" + TRIPLE.replace("3u * source[id.x]", "triple_of(source[id.x])")
    (tmp_path / "kernel.wgsl").write_text(kernel)
    (tmp_path / "part.wgsl").write_text(
        f"// A part.\n//# if a == 1\n//# end\nfn triple_of(x: u32) -> u32 {{\n{text}\n}}\n"
    )
    made = Folder(tmp_path).assemble("kernel", a=1)
    with pytest.raises(ShaderError, match=said) as caught:
        device.pipeline(Kernel.of(made, "triple"))
    assert caught.value.origin == f"part.wgsl:{number}" and caught.value.origin in str(caught.value)
    line = caught.value.line
    assert (
        line != number
        and made.source.splitlines()[line - 1] == (tmp_path / "part.wgsl").read_text().splitlines()[number - 1]
    )
    tried("planted faults")


def test_a_source_of_another_length_has_no_place_in_the_files(device, tmp_path):
    (tmp_path / "kernel.wgsl").write_text("// A kernel.\nfn broken( {\n")
    made = Folder(tmp_path).assemble("kernel")
    assert Kernel.of(made, "broken").origin(2) == "kernel.wgsl:2"
    assert Kernel.of(made, "broken").origin(3) == Kernel.of(made, "broken").origin(None) == ""
    with pytest.raises(ShaderError, match="line 3") as caught:
        device.pipeline(Kernel("\n" + made.source, "broken", lines=made.lines))
    assert caught.value.line == 3 and not caught.value.origin


def test_a_limit_the_adapter_lacks_is_refused_before_opening():
    with pytest.raises(Unsupported, match="max-storage-buffers"):
        open_device(limits={"max-storage-buffers-per-shader-stage": 1_000_000})
    with pytest.raises(BadInput, match="no limit"):
        open_device(limits={"max-nonsense": 1})
    with pytest.raises(Unsupported, match="no adapter matches"):
        choose_adapter("no-such-adapter")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_at_every_moment_is_typed_and_leaves_nothing(device, moment, fault, tried):
    with device.inject.plan(moment, fault), pytest.raises(FAULTS[fault]) as caught:
        run_triple(device)
    assert caught.value.cure
    assert device.ledger.live_bytes == 0
    if fault == "lost":
        with pytest.raises(DeviceError), device.inject.plan("allocate", "lost"):
            run_triple(device)
        with open_device() as again:
            assert run_triple(again)[1][-1] == 2997, "the next call works"
    else:
        assert run_triple(device)[1][-1] == 2997, "the next call works"
    tried("device faults at a moment")


def test_a_destroyed_device_is_reported_as_lost(device):
    device.handle.destroy()
    with pytest.raises(DeviceLost):
        device.buffer("late", 64)


def test_a_closed_device_says_so():
    with open_device() as device:
        pass
    device.close()
    with pytest.raises(DeviceLost, match="closed"):
        device.buffer("late", 64)


def test_two_hundred_cycles_leave_no_objects(tried):
    import wgpu

    def live():
        gc.collect()
        counts = wgpu.diagnostics.object_counts.get_dict()
        return {
            kind: counts[kind]["count"] for kind in ("Buffer", "BindGroup", "ComputePipeline", "ShaderModule", "Device")
        }

    before = live()
    with open_device() as device:
        for _ in range(200):
            run_triple(device, 64)
        del device
    assert live() == before
    tried("device cycles without a leak", 200)


def test_work_that_takes_too_long_is_given_up_and_cleans_up_after_itself():
    """A real watchdog on real work: the call returns at once, the device frees itself when the driver comes back."""
    slow = PROBES.text("loop_budget").replace("loop_budget", "slow")
    with open_device() as probe:
        spin = Pass("slow", Kernel(slow, "slow"), ("probe",), (1, 1, 1))
        buffer = probe.buffer("probe", 16, data=np.array([0, 3_000, 0, 0], np.uint32))
        probe.submit([spin])
        assert probe.read(buffer)[0] == 3_000**2, "it does end"
    given_up = open_device(time_limit_s=0.05)
    held = given_up.buffer("probe", 16, data=np.array([0, 20_000, 0, 0], np.uint32))
    with pytest.raises(DeviceTimeout, match="given up") as caught:
        given_up.submit([spin])
    assert caught.value.cure
    with pytest.raises(DeviceLost):
        given_up.buffer("more", 64)
    given_up.release(held)
    given_up.close()
    assert given_up.ledger.live_bytes == 16, "nothing is released under a working driver"
    with open_device() as again:
        assert run_triple(again)[1][-1] == 2997, "the next call works meanwhile"
    for thread in threading.enumerate():
        if thread.name == "whet-gpu-wait":
            thread.join(300)
    assert given_up.ledger.live_bytes == 0


def test_a_good_driver_is_believed_and_a_broken_one_is_not(device):
    assert examine(device) == []
    for info, _ in adapters():
        if info.software and "Mesa 22" in info.driver:
            with pytest.raises(Unsupported, match="refused"):
                open_device(info.key)
            with open_device(info.key, believe=True) as broken:
                complaints = examine(broken)
            assert complaints and "leaves loops early" in complaints[0].cause and complaints[0].cure


def test_the_doctor_tells_good_drivers_from_wrong_ones(device):
    from whet.cli.probes import _gpu

    findings = {finding.probe: finding for finding in _gpu(None)}
    assert findings[f"gpu webgpu:{device.info.key}"].status in ("ok", "note")
    for info, _ in adapters():
        if "Mesa 22" in info.driver:
            wrong = findings[f"gpu webgpu:{info.key}"]
            assert wrong.status == "wrong" and "leaves loops early" in wrong.said and "python -m whet.gpu" in wrong.cure
