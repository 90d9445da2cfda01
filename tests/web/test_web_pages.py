"""The packed package in headless Chromium: sums against @noble/curves on a plain page, a vite page and in a Worker, and
what stands between a page and a wrong answer.

One module, because Playwright has one browser per thread and the kernels of its page are compiled once for all tests.
"""

from __future__ import annotations

import pytest
from web_site import WEB, command

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("web"),
]

CASES = 40

MAIN = """
import { bn254 } from "@noble/curves/bn254";
import { Msm } from "@whet/msm";
globalThis.compute = async () => {
    const points = [1n, 2n, 3n, 5n].map((k) => bn254.G1.Point.BASE.multiply(k));
    const scalars = [7n, 0n, 2n ** 250n, 11n];
    const msm = await Msm.create(points, { variant: "gpu_plain" });
    globalThis.kept = msm;
    const found = await msm.sum(scalars);
    const want = bn254.G1.Point.BASE.multiply(7n + 3n * 2n ** 250n + 55n).toAffine();
    return [found.x === want.x && found.y === want.y, msm.chosen.variant, msm.adapter.architecture];
};
globalThis.ready = true;
"""
WORKER = """
import { Msm } from "/app/node_modules/@whet/msm/src/index.js";
onmessage = async ({ data: { points, scalars } }) => {
    const msm = await Msm.create(points, { variant: "gpu_plain" });
    postMessage((await msm.sum(scalars)).toBytes());
    msm.close();
};
"""
IN_WORKER = """async () => {
    const { bn254 } = await import("@noble/curves/bn254");
    const { x, y } = bn254.G1.Point.BASE.multiply(9n).toAffine();
    const points = msm.Point ? new msm.Point(x, y).toBytes() : null;
    const scalars = new Uint8Array(32);
    scalars[31] = 5;
    const worker = new Worker("/worker/main.js", { type: "module" });
    const answer = new Promise((done, failed) => {
        worker.onmessage = (event) => done(event.data);
        worker.onerror = (event) => failed(new Error(event.message));
    });
    worker.postMessage({ points, scalars });
    const found = await answer;
    worker.terminate();
    const want = bn254.G1.Point.BASE.multiply(45n).toAffine();
    return String(new msm.Point(want.x, want.y).toBytes()) === String(found);
}"""
# A GPU like the page's own, but for what `change` does to each device.
CHANGED = """const changed = (change) => ({ requestAdapter: async (options) => {
    const adapter = await navigator.gpu.requestAdapter(options);
    const request = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (wanted) => { const device = await request(wanted); change(device); return device; };
    return adapter;
} });"""
NOBLE = 'const { bn254 } = await import("@noble/curves/bn254"); const fallback = msm.nobleFallback(bn254);'
NINE = """const nine = bn254.G1.Point.BASE.multiply(9n).toAffine();
    const right = (p) => p.x === nine.x && p.y === nine.y;"""


def test_adversarial_cases_on_a_plain_page(plain, tried):
    """Every kind of input two or three times, n up to 100."""
    assert plain.evaluate(f"cases.runAll(0, {CASES})") == []
    tried("sums in Chromium against noble", CASES)


def test_a_larger_sum_and_what_is_on_the_device(plain, tried):
    """2^10 points; the map is what is allocated, to the byte, and all of it is given back."""
    assert plain.evaluate("cases.run(0, { n: 1024 })") is None
    rows, ledger, left = plain.evaluate("""async () => {
        const points = Array.from({ length: 300 }, () => [1n, 2n]);
        const one = await msm.Msm.create(points, { variant: "walker" });
        await one.sum(points.map((_, i) => BigInt(i)));
        const rows = one.memoryMap().filter((row) => row.lifetime !== "read").map((row) => [row.name, row.bytes]);
        const ledger = Object.entries(one.ledger());
        one.close();
        return [rows, ledger, Object.entries(one.ledger())];
    }""")
    assert sorted(rows) == sorted(ledger) and left == []
    tried("sums in Chromium against noble", 2)


def test_a_section_of_a_file_is_read_by_slices(plain):
    """A .ptau in a Blob: the asked-for points and no other bytes."""
    found = plain.evaluate("""async () => {
        const { bn254 } = await import("@noble/curves/bn254");
        const P = bn254.fields.Fp.ORDER;
        const power = 2, count = 2 ** (power + 1) - 1;
        const u32 = (...values) => new Uint8Array(new Uint32Array(values).buffer);
        const le = (value) => Uint8Array.from({ length: 32 }, (_, i) => Number((value >> BigInt(8 * i)) & 255n));
        const multiples = Array.from({ length: count }, (_, i) => bn254.G1.Point.BASE.multiply(BigInt(i + 1)));
        const affine = multiples.map((point) => point.toAffine());
        const tau = affine.flatMap(({ x, y }) => [le((x << 256n) % P), le((y << 256n) % P)]);
        const header = [u32(32), le(P), u32(power, power)];
        const sized = (parts) => parts.reduce((n, part) => n + part.length, 0);
        const section = (kind, parts) => [u32(kind, sized(parts), 0), ...parts];
        const file = new Blob([new TextEncoder().encode("ptau"), u32(1, 2), ...section(1, header), ...section(2, tau)]);
        let read = 0;
        const slice = file.slice.bind(file);
        file.slice = (a, b) => { read += b - a; return slice(a, b); };
        const { sections, power: told } = await msm.describeFile(file);
        const one = await msm.Msm.fromFile(file, { section: "tau", offset: 2, n: 3, variant: "walker" });
        const bytes = new Uint8Array(96);
        bytes.set([1], 0); bytes.set([2], 32); bytes.set([3], 64);
        const sum = await one.sum(bytes);
        one.close();
        const want = bn254.G1.Point.BASE.multiply(3n + 8n + 15n).toAffine();
        return [sum.x === want.x && sum.y === want.y, sections.tau, told, read];
    }""")
    assert found[:3] == [True, 7, 2]
    assert found[3] < 3 * 64 + 400


def test_a_device_is_measured_once_and_the_choice_kept(plain):
    """`auto`: candidates whose answers agree, within the limit or the default; then from IndexedDB."""
    first, second, right = plain.evaluate("""async () => {
        const points = Array.from({ length: 20 }, () => [1n, 2n]);
        const one = await msm.Msm.create(points);
        const two = await msm.Msm.create(points);
        const sum = await two.sum(points.map(() => 3n));
        const told = [one.chosen, two.chosen, sum.equals(await one.sum([60n]))];
        one.close(); two.close();
        return told;
    }""")
    assert first["from"] in ("measured", "default") and second == {"variant": first["variant"], "from": "kept"}
    assert right


def test_a_vite_page_and_a_device_that_is_lost(site, app, tmp_path, modules):
    """A bundle; then its device goes away during a sum, and the sum is done on a new one."""
    (tmp_path / "main.js").write_text(MAIN)
    (tmp_path / "index.html").write_text('<!doctype html><script type="module" src="./main.js"></script>')
    (tmp_path / "node_modules").symlink_to(app / "node_modules")
    noble = app / "node_modules" / "@noble"
    if not noble.exists():
        noble.symlink_to(modules / "@noble")
    options = ["build", str(tmp_path), "--base=/vite/", "--logLevel=error", "--outDir", str(tmp_path / "dist")]
    command("node", modules / "vite" / "bin" / "vite.js", *options, cwd=WEB)
    site.folders["vite"] = tmp_path / "dist"
    with site.page("vite/index.html") as page:
        page.wait_for_function("globalThis.ready")
        assert page.evaluate("compute()")[:2] == [True, "gpu_plain"]
        lost = page.evaluate("""async () => {
            const submit = GPUQueue.prototype.submit;
            let device = null;
            const create = GPUDevice.prototype.createCommandEncoder;
            GPUDevice.prototype.createCommandEncoder = function (...given) {
                device ??= this;
                return create.apply(this, given);
            };
            GPUQueue.prototype.submit = function (...given) {
                GPUQueue.prototype.submit = submit;
                submit.apply(this, given);
                device.destroy();
            };
            const sum = await kept.sum([1n, 1n, 0n, 0n]);
            const told = [String(sum.x), kept.fallbackReason, GPUQueue.prototype.submit === submit];
            GPUDevice.prototype.createCommandEncoder = create;
            return told;
        }""")
    assert lost == [str(3353031288059533942658390886683067124040920775575537747144343083137631628272), None, True]


def test_a_worker(plain, site, tmp_path):
    (tmp_path / "main.js").write_text(WORKER)
    site.folders["worker"] = tmp_path
    assert plain.evaluate(IN_WORKER) is True


def test_a_wrong_sum_would_show(plain):
    """The cases' own judgement: an answer that is one point too much is reported."""
    said = plain.evaluate("""async () => {
        const { batch } = msm.Msm.prototype;
        const one = new msm.Point(1n, 2n);
        msm.Msm.prototype.batch = async function (...given) {
            return (await batch.apply(this, given)).map((sum) => sum.add(one));
        };
        try { return await cases.run(0); } finally { msm.Msm.prototype.batch = batch; }
    }""")
    assert "case 0 of seed 1 (random" in said


def test_a_device_that_computes_wrongly_is_refused_and_the_fallback_answers(site):
    """One carry of the multiply is dropped in every kernel; without a fallback creation says so."""
    with site.page("plain.html") as page:
        page.wait_for_function("globalThis.ready")
        told = page.evaluate(f"""async () => {{
            {CHANGED} {NOBLE} {NINE}
            let planted = 0;
            const gpu = changed((device) => {{
                const make = device.createShaderModule.bind(device);
                device.createShaderModule = (one) => {{
                    const code = one.code.replace("t1 += t0 >> 13u;", "");
                    planted += code !== one.code;
                    return make({{ ...one, code }});
                }};
            }});
            const one = await msm.Msm.create([[1n, 2n]], {{ gpu, fallback, variant: "gpu_plain" }});
            const sum = await one.sum([9n]);
            const error = await one.batch([[1n], [2n, 3n]]).catch((error) => error.name);
            one.close();
            return [right(sum), one.fallbackReason, planted > 0, error];
        }}""")
    assert told[0] and told[2] and told[3] == "BadInput"
    assert "is refused" in told[1] and "512 points" in told[1]


def test_a_call_stops_within_one_submission_and_the_next_is_right(plain):
    told = plain.evaluate(f"""async () => {{
        {NOBLE} {NINE}
        const one = await msm.Msm.create([[1n, 2n], null, [1n, 2n]], {{ variant: "walker", submissionLimitMs: 0.001 }});
        await one.sum([1n]);
        const submit = GPUQueue.prototype.submit;
        const control = new AbortController();
        let submitted = 0;
        GPUQueue.prototype.submit = function (...given) {{
            submitted++;
            if (submitted === 2) control.abort();
            return submit.apply(this, given);
        }};
        const stopped = await one.sum([1n, 2n, 3n], {{ signal: control.signal }}).catch((error) => error.name);
        const after = submitted;
        GPUQueue.prototype.submit = submit;
        const early = await one.sum([1n], {{ signal: AbortSignal.abort() }}).catch((error) => error.name);
        const sum = await one.sum([4n, 1n, 5n]);
        const waiting = one.sum([1n, 1n, 1n]).catch((error) => error.name);
        await Promise.resolve();
        one.close();
        const later = await one.sum([1n]).catch((error) => error.name);
        return [stopped, after, early, right(sum), await waiting, later];
    }}""")
    assert told[:4] == ["AbortError", 2, "AbortError", True]
    assert told[4] in ("Closed", "object") and told[5] == "Closed"


def test_a_full_device_is_typed_and_falls_back(plain):
    """The browser's own out-of-memory error, planted into the scope that is asked for; and a budget below the floor."""
    told = plain.evaluate(f"""async () => {{
        {NOBLE} {NINE}
        const pop = GPUDevice.prototype.popErrorScope;
        let number = 0;
        const full = () => {{ number = 0; GPUDevice.prototype.popErrorScope = async function () {{
            await pop.call(this);
            return ++number === 2 ? new GPUOutOfMemoryError("planted") : null;
        }}; }};
        const points = [[1n, 2n], [1n, 2n]];
        try {{
            full();
            const refused = await msm.Msm.create(points, {{ variant: "walker" }}).catch((error) => error.name);
            full();
            const one = await msm.Msm.create(points, {{ variant: "walker", fallback }});
            const reason = one.fallbackReason;
            GPUDevice.prototype.popErrorScope = pop;
            const sum = await one.sum([4n, 5n]);
            const healed = one.fallbackReason;
            one.close();
            const tight = {{ variant: "walker", memoryBudget: 1000 }};
            const budget = await msm.Msm.create(points, tight).catch((error) => [error.name, error.cure]);
            return [refused, reason, right(sum), healed, ...budget];
        }} finally {{
            GPUDevice.prototype.popErrorScope = pop;
        }}
    }}""")
    assert told[0] == "DeviceOutOfMemory" and "out of memory" in told[1]
    assert told[2] and told[3] is None, "the next call tries the device again"
    assert told[4] == "DeviceOutOfMemory" and "memoryBudget" in told[5]


@pytest.mark.parametrize("given", ["a point off the curve", "a coordinate above p", "half a point", "a missing scalar"])
def test_what_cannot_be_meant_is_refused_with_its_place(plain, given):
    script = {
        "a point off the curve": "msm.Msm.create([[1n, 2n], [1n, 3n]], { variant: 'walker' })",
        "a coordinate above p": "msm.Msm.create(new Uint8Array(64).fill(255), { variant: 'walker' })",
        "half a point": "msm.Msm.create(new Uint8Array(96))",
        "a missing scalar": "held.sum([1n, 2n])",
    }[given]
    name, cure, index = plain.evaluate(f"async () => {script}.catch((error) => [error.name, error.cure, error.index])")
    assert name == "BadInput" and cure
    assert index == {"a point off the curve": 1, "a coordinate above p": 0}.get(given)


def test_a_page_without_webgpu_gets_the_fallback_and_the_reason(site):
    """An address that is no secure context, where browsers offer none."""
    with site.page("plain.html", site="http://plain.test/") as page:
        page.wait_for_function("globalThis.ready")
        told = page.evaluate(f"""async () => {{
            {NOBLE} {NINE}
            const one = await msm.Msm.create([[1n, 2n], null], {{ fallback }});
            const sum = await one.sum([9n, 3n]);
            const none = await one.sum([0n]);
            const refused = await msm.Msm.create([[1n, 2n]]).catch((error) => [error.name, error.cure]);
            return [isSecureContext, right(sum), none.infinity, one.fallbackReason, ...refused];
        }}""")
    assert told[:3] == [False, True, True]
    assert "no WebGPU" in told[3] and told[4] == "Unsupported" and "secure" in told[5]
