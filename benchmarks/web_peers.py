"""@whet/msm beside ffjavascript, barretenberg and @noble/curves in one headless Chromium: start and sums apart.

    python benchmarks/web_peers.py [--sizes 10,12,14]

Without a GPU the browser computes WebGPU on SwiftShader, a software adapter: what it takes says nothing about a GPU.
Every answer has to be noble's. ffjavascript and barretenberg have one thread. Needs node, npm and Chromium; the tools
are those of web/package.json, and barretenberg's wasm is fetched by npm for the run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))

from web_site import WEB, command, modules, opened

AGAIN = 3
BARRETENBERG = "@aztec/barretenberg@2.1.98"
WASM = "package/dest/wasm/aztec-connect.wasm"
MAIN = """
import { bn254 } from "@noble/curves/bn254";
import { buildBn128 } from "ffjavascript";
import { Msm } from "@whet/msm";
const G = bn254.G1.Point;
const R = bn254.fields.Fr.ORDER;
const le = (value) => Uint8Array.from({ length: 32 }, (_, i) => Number((value >> BigInt(8 * i)) & 255n));
const WORD = (1n << 64n) - 1n;
const now = () => performance.now();

async function timed(start, sum, again, want, said) {
    const times = { start: now() };
    const made = await start();
    times.start = now() - times.start;
    times.first = now();
    let found = await sum(made);
    times.first = now() - times.first;
    times.again = Infinity;
    for (let i = 0; i < again; i++) {
        const begun = now();
        found = await sum(made);
        times.again = Math.min(times.again, now() - begun);
    }
    if (want && (found.x !== want.x || found.y !== want.y)) throw new Error(`${said} is wrong`);
    return [times, found];
}

/** Barretenberg's sum by its exports: it puts the generator first by itself, and wants points as in a transcript. */
class Barretenberg {
    static async start(affine) {
        const made = new Barretenberg();
        made.n = affine.length;
        made.memory = new WebAssembly.Memory({ initial: 20, maximum: 8192 });
        const answers = { fd_prestat_get: 8, fd_prestat_dir_name: 28, proc_exit: 52 };
        const system = new Proxy({}, { get: (_, name) => () => answers[name] ?? 0 });
        const env = { memory: made.memory, logstr() {}, get_data: () => 0, set_data() {} };
        const code = await (await fetch("/wasm/aztec-connect.wasm")).arrayBuffer();
        const { instance } = await WebAssembly.instantiate(code, { wasi_snapshot_preview1: system, env });
        made.exports = instance.exports;
        const at = made.call("bbmalloc", 64 * (2 * made.n + 16));
        const view = new DataView(made.memory.buffer, at + 64, 64 * (made.n - 1));
        affine.slice(1).forEach(({ x, y }, i) => {
            [x, y].forEach((value, j) => {
                const words = [0n, 64n, 128n, 192n].map((shift) => (value >> shift) & WORD);
                words.forEach((word, k) => view.setBigUint64(64 * i + 32 * j + 8 * k, word));
            });
        });
        made.pippenger = made.call("new_pippenger", at, made.n);
        return made;
    }

    call(name, ...given) {
        return this.exports[name](...given) >>> 0;
    }

    sum(montgomery) {
        const at = this.call("bbmalloc", montgomery.length);
        new Uint8Array(this.memory.buffer).set(montgomery, at);
        this.call("pippenger_unsafe", this.pippenger, at, 0, this.n, 0);
        this.call("bbfree", at);
        const found = new DataView(this.memory.buffer, 0, 96);
        const F = bn254.fields.Fp;
        const [x, y, z] = [0, 32, 64].map((offset) => {
            let value = 0n;
            for (let k = 3; k >= 0; k--) value = (value << 64n) | found.getBigUint64(offset + 8 * k, true);
            return F.div(F.create(value), F.create(1n << 256n));
        });
        const inverse = F.inv(z);
        const square = F.sqr(inverse);
        return { x: F.mul(x, square), y: F.mul(y, F.mul(square, inverse)) };
    }
}

globalThis.bench = async (n, again) => {
    const points = [];
    const step = G.BASE.multiply(0x123456789abcdefn);
    for (let i = 0, at = G.BASE; i < n; i++, at = at.add(step)) points.push(at);
    const bases = G.normalizeZ(points);
    const affine = bases.map((point) => point.toAffine());
    const scalars = affine.map(({ x, y }) => (x * y + 7n) % R);
    const plain = new Uint8Array(32 * n);
    scalars.forEach((one, i) => plain.set(le(one), 32 * i));
    const byNoble = async () => G.msm(bases, scalars).toAffine();
    const [noble, want] = await timed(async () => null, byNoble, again, null, "noble");
    let curve;
    const [ffjavascript] = await timed(async () => {
        curve = await buildBn128(true);
        const made = new Uint8Array(64 * n);
        affine.forEach(({ x, y }, i) => made.set(curve.G1.toAffine(curve.G1.fromObject([x, y])), 64 * i));
        globalThis.montgomery = made;
        return made;
    }, async (made) => {
        const [x, y] = curve.G1.toObject(curve.G1.toAffine(await curve.G1.multiExpAffine(made, plain)));
        return { x, y };
    }, again, want, "ffjavascript");
    const unit = (1n << 256n) % R;
    const montgomery = new Uint8Array(32 * n);
    scalars.forEach((one, i) => montgomery.set(le((one * unit) % R), 32 * i));
    const [barretenberg] = await timed(() => Barretenberg.start(affine), async (made) => made.sum(montgomery), again,
        want, "barretenberg");
    const [whet] = await timed(() => Msm.create(globalThis.montgomery, { form: "ffjavascript", variant: "walker" }),
        async (msm) => { globalThis.held ??= msm; return msm.sum(plain); }, again, want, "whet");
    return { noble, ffjavascript, barretenberg, "@whet/msm": whet, adapter: globalThis.held.adapter.architecture };
};
globalThis.ready = true;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10,12,14", help="powers of two")
    sizes = [int(one) for one in parser.parse_args().sizes.split(",")]
    found = modules()
    command("node", "build.mjs", cwd=WEB)
    with tempfile.TemporaryDirectory() as name, opened() as site:
        folder = Path(name)
        (folder / "main.js").write_text(MAIN)
        (folder / "index.html").write_text('<!doctype html><script type="module" src="./main.js"></script>')
        (folder / "node_modules").symlink_to(found)
        aliases = f'{{ "@whet/msm": {str(WEB / "src" / "index.js")!r} }}'
        (folder / "vite.config.mjs").write_text(f"export default {{ resolve: {{ alias: {aliases} }} }};\n")
        options = ["build", str(folder), "--base=/bench/", "--logLevel=error", "--outDir", str(folder / "dist")]
        command("node", found / "vite" / "bin" / "vite.js", *options, cwd=folder)
        site.folders["bench"] = folder / "dist"
        packed = command("npm", "pack", BARRETENBERG, "--silent", cwd=folder).split()[-1]
        command("tar", "xzf", packed, WASM, cwd=folder)
        site.folders["wasm"] = (folder / WASM).parent
        with site.page("bench/index.html") as page:
            page.wait_for_function("globalThis.ready")
            print(f"{'points':>8} {'library':14} {'start':>10} {'first sum':>10} {'later':>10}   ms")
            for power in sizes:
                rows = page.evaluate(f"bench({1 << power}, {AGAIN})")
                adapter = rows.pop("adapter")
                for library, times in rows.items():
                    cells = " ".join(f"{times[key]:10,.0f}" for key in ("start", "first", "again"))
                    print(f"{f'2^{power}':>8} {library:14} {cells}", flush=True)
            software = ": a software adapter, no GPU" if adapter == "swiftshader" else ""
            print(f"@whet/msm ran on {adapter}{software}; its first start compiles the kernels")


if __name__ == "__main__":
    main()
