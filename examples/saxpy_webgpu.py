"""Your own GPU kernel: y = a x + y on whole numbers, in workgroups of two sizes. The kernel is plain WGSL.

whet ab examples/saxpy_webgpu.py small large --n 2^16 --quick
whet ab examples/saxpy_webgpu.py small large --n 2^16 --quick --device browser    # or a phone: docs/lab.md
"""

import numpy as np

from whet.gpu import Kernel, Pass, Program, open_device
from whet.protocol import Case, Engine, Output, PortableProgram, Timing, VariantSpec

WGSL = """
override width: u32;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(width) fn saxpy(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < arrayLength(&y)) { y[id.x] += 3u * x[id.x]; }
}
"""
WIDTHS = {"small": 32, "large": 256}


def step(variant, n):
    width = WIDTHS[variant.name]
    kernel = Kernel(WGSL, "saxpy", (("width", float(width)),))
    return Pass("saxpy", kernel, ("x", "y"), (-(-n // width), 1, 1))


class Saxpy(Engine):
    name = "saxpy"
    devices = ("webgpu",)

    def cases(self):
        return [Case(sizes={"n": n}) for n in (1, 33, 1000, 2**16)]

    def variants(self):
        return [VariantSpec(name, f"workgroups of {width}") for name, width in WIDTHS.items()]

    def candidates(self, case):
        return list(WIDTHS)

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.uint32)}

    def prepare(self, case, seed):
        rng = np.random.default_rng(seed)
        return {name: rng.integers(0, 2**32, case.sizes["n"], dtype=np.uint32) for name in ("x", "y")}

    def setup(self, variant, case, fixed, device):
        n = case.sizes["n"]
        opened = open_device(device.partition(":")[2] or None)
        buffers = [opened.buffer(name, 4 * n) for name in ("x", "y")]
        return {"device": opened, "buffers": buffers, "step": step(variant, n)}

    def run(self, variant, state, inputs, outputs):
        device = state["device"]
        for buffer in state["buffers"]:
            device.write(buffer, inputs[buffer.name])
        state["passes"] = device.submit([state["step"]], timestamps=True)
        outputs["y"][:] = device.read(state["buffers"][1])

    def timing(self, state):
        spent = dict(state["passes"])
        return None if spent["saxpy"] is None else Timing(device_ns=spent["saxpy"], regions_ns=spent)

    def portable(self, variant, case, fixed):
        """The same for a device that only a browser reaches: the program, what goes in, what comes out."""
        n = case.sizes["n"]

        def finish(read, outputs):
            outputs["y"][:] = read["y"]

        program = Program({"x": 4 * n, "y": 4 * n}, (step(variant, n),))
        return PortableProgram(program, ("y",), lambda inputs: {name: inputs[name] for name in ("x", "y")}, finish)

    def oracle(self, case, fixed_seed, seed, inputs):
        pairs = zip(inputs["x"].tolist(), inputs["y"].tolist(), strict=True)
        return {"y": np.array([(3 * x + y) % 2**32 for x, y in pairs], np.uint32)}

    def close(self, state):
        state["device"].close()
