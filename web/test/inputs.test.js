// Points, scalars, files and the known answer, against @noble/curves and ffjavascript, which share nothing with them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bn254 } from "@noble/curves/bn254";
import { buildBn128 } from "ffjavascript";

import { Choice } from "../src/choice.js";
import { BadInput, DeviceLost, Unsupported, WrongAnswer, typed } from "../src/errors.js";
import { ffjavascriptFallback, nobleFallback } from "../src/fallback.js";
import { describeFile, readSection } from "../src/files.js";
import { finish } from "../src/finish.js";
import { Request } from "../src/geometry.js";
import { POINTS, question } from "../src/known_answer.js";
import { Msm } from "../src/msm.js";
import { P, R, inverse, readInteger, viewOf } from "../src/numbers.js";
import { build } from "../src/plan.js";
import { GENERATOR, INFINITY, Point, multiple } from "../src/point.js";
import { readPoints } from "../src/points.js";
import { readScalars, split } from "../src/scalars.js";
import { bestVariant, sizeClass } from "../src/tuned.js";

const G1 = bn254.G1.Point ?? bn254.G1.ProjectivePoint;
const some = [1n, 2n, 3n, 12345n, R - 1n].map((k) => G1.BASE.multiply(k));
const affine = some.map((point) => point.toAffine());
const le = (value) => Uint8Array.from({ length: 32 }, (_, i) => Number((value >> BigInt(8 * i)) & 255n));
const be = (value) => le(value).reverse();
const joined = (parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
const LAMBDA = 0xb3c4d79d41a917585bfc41088d8daaa78b17ea66b99c90ddn;

test("every form of points gives the same bytes", async () => {
    const curve = await buildBn128(true);
    const R256 = 1n << 256n;
    const forms = {
        noble: [some],
        coordinates: [affine],
        pairs: [affine.map(({ x, y }) => [x, y])],
        be: [joined(affine.flatMap(({ x, y }) => [be(x), be(y)])), "be"],
        le: [joined(affine.flatMap(({ x, y }) => [le(x), le(y)])), "le"],
        "be-montgomery": [joined(affine.flatMap(({ x, y }) => [be((x * R256) % P), be((y * R256) % P)])), "be-montgomery"],
        ffjavascript: [joined(affine.map(({ x, y }) => curve.G1.toAffine(curve.G1.fromObject([x, y])))), "ffjavascript"],
    };
    const want = await readPoints(some);
    for (const [name, [points, form]] of Object.entries(forms)) assert.deepEqual(await readPoints(points, { form }), want, name);
    const scale = inverse(1n << 260n);
    affine.forEach(({ x }, i) => assert.equal((readInteger(viewOf(want.x), 32 * i, true) * scale) % P, x));
    await curve.terminate();
});

test("infinity in every form", async () => {
    const zero = await readPoints(new Uint8Array(64));
    for (const one of [[null], [G1.ZERO], [[0n, 0n]], [{ x: 0n, y: 0n }]]) assert.deepEqual(await readPoints(one), zero);
});

test("points that cannot be meant are refused with their place", async () => {
    const wrong = [[[1n, 2n], [1n, 3n]], [[1n, 2n], [P, 2n]], [[1n, 2n], [-1n, 2n]], [[1n, 2n], "no"], [[1n, 2n], undefined]];
    for (const points of wrong) await assert.rejects(readPoints(points), (error) => error instanceof BadInput && error.index === 1);
    await assert.rejects(readPoints(new Uint8Array(63)), BadInput);
    await assert.rejects(readPoints("points"), BadInput);
    await assert.rejects(readPoints(new Uint8Array(64), { form: "be32" }), BadInput);
    await readPoints([[1n, 3n]], { check: false });
    const stopped = AbortSignal.abort();
    await assert.rejects(readPoints(some, { signal: stopped }), { name: "AbortError" });
});

test("scalars in every form are below r", () => {
    const values = [0n, 1n, R - 1n, R, R + 5n, 5n * R + 1n, (1n << 256n) - 1n, 1n << 200n];
    const want = joined(values.map((value) => le(value % R)));
    assert.deepEqual(readScalars(values, "be"), want);
    assert.deepEqual(readScalars(joined(values.map(le)), "le"), want);
    assert.deepEqual(readScalars(joined(values.map(be)), "be"), want);
    const scaled = values.map((value) => ((value % R) << 256n) % R);
    assert.deepEqual(readScalars(joined(scaled.map(le)), "le-montgomery"), want);
    assert.deepEqual(readScalars([-1n], "be"), le(R - 1n));
    for (const wrong of [[1], "1", new Uint8Array(31)]) assert.throws(() => readScalars(wrong, "be"), BadInput);
    assert.throws(() => readScalars(le(R), "le-montgomery"), (error) => error instanceof BadInput && error.index === 0);
});

test("both halves of a split are short and add up", () => {
    for (const k of [0n, 1n, R - 1n, (R - 1n) / 2n, 0x1234567890abcdefn ** 3n % R, LAMBDA, R - LAMBDA]) {
        const [a, b] = split(k);
        assert.equal((((a + b * LAMBDA - k) % R) + R) % R, 0n);
        for (const half of [a, b]) assert.ok((half < 0n ? -half : half) < 1n << 126n);
    }
});

test("the host's multiples are noble's", () => {
    for (const k of [1n, 2n, 3n, 0xfedcba9876543210n, R - 1n, (1n << 253n) + 12345n]) {
        const { x, y } = G1.BASE.multiply(k).toAffine();
        assert.deepEqual(multiple(k, GENERATOR), new Point(x, y));
    }
    assert.ok(multiple(R, GENERATOR).infinity && GENERATOR.add(new Point(1n, P - 2n)).infinity);
    assert.ok(GENERATOR.add(GENERATOR).equals(multiple(2n, GENERATOR)) && GENERATOR.add(INFINITY).equals(GENERATOR));
});

test("the known answer is right, and asks for everything", async () => {
    const { points, scalars, answer } = question();
    const fallback = nobleFallback(bn254);
    const big = joined(Array.from({ length: POINTS }, (_, i) => scalars.slice(32 * i, 32 * i + 32).reverse()));
    const { x, y } = fallback(points, big);
    assert.ok(answer.equals(new Point(x, y)));
    const curve = await buildBn128(true);
    const other = await ffjavascriptFallback(curve)(points, big);
    assert.deepEqual([other.x, other.y], [x, y]);
    await curve.terminate();
    const seen = new Set(Array.from({ length: POINTS }, (_, i) => String(points.slice(64 * i, 64 * i + 64))));
    assert.ok(seen.size > POINTS / 2 && seen.size < POINTS, "some points repeat");
    assert.ok(seen.has(String(new Uint8Array(64))), "infinity is among them");
    assert.equal(fallback(new Uint8Array(64), be(5n)), null);
});

test("a result that is no point of the curve is refused", () => {
    const { geometry, buffers } = build(new Request({ n: 3 }));
    const result = new Uint8Array(buffers.result);
    assert.ok(finish(geometry, result)[0].infinity);
    result[64] = 1;
    assert.throws(() => finish(geometry, result), WrongAnswer);
    result.fill(255, 64, 128);
    assert.throws(() => finish(geometry, result), WrongAnswer);
});

test("knobs are checked", () => {
    assert.equal(Choice.parse("pairs").g, 8);
    for (const text of ["runner", "walker:slots=3", "walker:c=2", "coop:g=7", "walker:tpb=256,slots=8,scratch=workgroup", "walker:multiply=wide", "coop:slots=2"]) {
        assert.throws(() => Choice.parse(text), BadInput, text);
    }
});

const u32 = (...values) => new Uint8Array(new Uint32Array(values).buffer);
const section = (kind, content) => [u32(kind, content.length, 0), content];
const header = (power) => joined([u32(32), le(P), u32(power, power)]);
const container = (magic, ...sections) => new Blob([new TextEncoder().encode(magic), u32(1, sections.length), ...sections.flat()]);

test("sections of files, and files that are damaged", async () => {
    const tau = new Uint8Array(64 * 7).map((_, i) => i);
    const file = container("ptau", section(2, tau), section(1, header(2)), section(4, tau.slice(0, 256)));
    assert.deepEqual(await describeFile(file), { format: "ptau", power: 2, sections: { tau: 7, alpha: 4 } });
    assert.deepEqual(await readSection(file, "tau", { offset: 2, n: 3 }), tau.slice(128, 320));
    assert.deepEqual(await readSection(file, "alpha"), tau.slice(0, 256));
    const about = joined([u32(32), le(P), u32(32), le(R), u32(7, 2, 8)]);
    const key = container("zkey", section(1, u32(1)), section(2, about), section(5, tau), section(3, tau.slice(0, 192)));
    assert.deepEqual((await describeFile(key)).sections, { ic: 3, a: 7 });
    assert.deepEqual(await readSection(key, "ic", { n: 1 }), tau.slice(0, 64));
    const damaged = [
        new Blob([new Uint8Array(5)]),
        container("wtns", section(1, header(2))),
        container("ptau", section(1, header(2)), section(2, tau.slice(64))),
        container("ptau", section(1, header(2)), section(2, tau), section(2, tau)),
        container("ptau", section(1, header(60)), section(2, tau)),
        container("ptau", section(1, joined([u32(32), le(R), u32(2, 2)])), section(2, tau)),
        container("ptau", section(2, tau)),
        new Blob([file, new Uint8Array(1)]),
        file.slice(0, file.size - 1),
    ];
    for (const [number, one] of damaged.entries()) await assert.rejects(readSection(one, "tau"), BadInput, `file ${number}`);
    await assert.rejects(readSection(file, "beta"), BadInput);
    await assert.rejects(readSection(file, "tau", { offset: 5, n: 3 }), BadInput);
});

const ADAPTER = { vendor: "maker", architecture: "arch" };

/** A clock that only the timed sums move, and a device on which each variant takes what is said. */
function bench(took) {
    let now = 0;
    const asked = [];
    const time = async (choice) => {
        const text = `${choice.accumulator}:${choice.slots}:${choice.threads}`;
        asked.push(text);
        const spent = took(text);
        now += spent ?? 1;
        return spent;
    };
    return { time, asked, clock: () => now };
}

test("a device is measured within the limit, and only once", async () => {
    const { time, clock, asked } = bench((text) => (text === "walker:8:16384" ? 10 : 20));
    const found = await bestVariant(ADAPTER, "one", 5000, time, { clock });
    assert.deepEqual(found, { variant: "walker:threads=16384", from: "measured" });
    const before = asked.length;
    assert.deepEqual(await bestVariant(ADAPTER, "one", 5000, time, { clock }), { variant: "walker:threads=16384", from: "kept" });
    assert.equal(asked.length, before);
    const table = [{ ...ADAPTER, sizeClass: sizeClass(5000), variant: "coop" }];
    assert.deepEqual(await bestVariant(ADAPTER, "one", 5000, time, { table, clock }), { variant: "coop", from: "table" });
});

test("a slow device gets the default, a wrong variant is passed over, and noise decides nothing", async () => {
    const slow = bench(() => 5000);
    assert.deepEqual(await bestVariant(ADAPTER, "slow", 5000, slow.time, slow), { variant: "walker", from: "default" });
    assert.equal(slow.asked.length, 1);
    const wrong = bench((text) => (text === "walker:8:16384" ? null : text === "walker:8:65536" ? 19.5 : 20));
    assert.deepEqual(await bestVariant(ADAPTER, "wrong", 5000, wrong.time, wrong), { variant: "walker", from: "measured" });
});

test("without WebGPU the fallback answers, or creation says why not", async () => {
    const points = joined(affine.flatMap(({ x, y }) => [be(x), be(y)]));
    await assert.rejects(Msm.create(points, { gpu: null }), Unsupported);
    const msm = await Msm.create(points, { gpu: null, fallback: nobleFallback(bn254) });
    assert.match(msm.fallbackReason, /no WebGPU/);
    const [sum, nothing] = await msm.batch([[5n, 7n], []], { offset: 1 });
    const want = G1.BASE.multiply(2n * 5n + 3n * 7n).toAffine();
    assert.ok(sum.equals(new Point(want.x, want.y)) && nothing.infinity);
    await assert.rejects(msm.sum([1n], { signal: AbortSignal.abort() }), { name: "AbortError" });
    await assert.rejects(msm.sum([1n, 2n], { offset: 4 }), BadInput);
    msm.close();
    await assert.rejects(msm.sum([1n]), { name: "Closed" });
    const bad = await Msm.create(points, { gpu: null, fallback: () => ({ x: 1n, y: 1n }) });
    await assert.rejects(bad.sum([1n]), WrongAnswer);
});

test("faults of the runner are typed", () => {
    const fault = (kind) => Object.assign(new Error("said"), { name: "Fault", kind, more: {} });
    assert.ok(typed(fault("lost")) instanceof DeviceLost && typed(fault("adapter")) instanceof Unsupported);
    assert.equal(typed(fault("memory")).name, "DeviceOutOfMemory");
    assert.equal(typed(fault("shader")).name, "ShaderError");
    const other = new DOMException("stop", "AbortError");
    assert.equal(typed(other), other);
});
