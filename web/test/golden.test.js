// The port against what whet.msm makes of the same requests (tools/write_web_golden.py), to the byte.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Choice } from "../src/choice.js";
import { DeviceOutOfMemory } from "../src/errors.js";
import { Request } from "../src/geometry.js";
import { memoryMap } from "../src/memory.js";
import { place } from "../src/pieces.js";
import { build } from "../src/plan.js";
import { GENERATOR, INFINITY, addMixed, affine, jacobian, multiple } from "../src/point.js";
import { keptPoints, readPoints } from "../src/points.js";
import { planes, readScalars } from "../src/scalars.js";
import { Pace } from "../src/schedule.js";
import { R } from "../src/numbers.js";

const golden = JSON.parse(readFileSync(new URL("golden.json", import.meta.url), "utf8"));
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const asRequest = ({ variant, ...rest }) => new Request({ ...rest, choice: Choice.parse(variant) });

function described(request) {
    const plan = build(request);
    const { geometry, buffers, params, kernels, planned, uploads } = plan;
    return {
        geometry: [geometry.windowBits, geometry.batchCount, geometry.batchWindows, geometry.maxTasks],
        sliced: geometry.sliced,
        map: memoryMap(request).map(({ name, bytes, lifetime }) => [name, bytes, lifetime]),
        buffers: Object.entries(buffers),
        uploads: Object.entries(uploads),
        params: sha256(new Uint8Array(params.buffer)),
        kernels: kernels.map(({ entry, source }) => [entry, sha256(source)]),
        steps: planned.map(described_step),
    };
}

function described_step(one) {
    if ("write" in one) {
        const { upload, buffer, size_bytes, upload_offset, buffer_offset } = one.write;
        return ["write", upload, buffer, size_bytes, upload_offset, buffer_offset];
    }
    const { step, costNs } = one;
    if ("clear" in step) return ["clear", step.clear, step.offset, step.size];
    if ("copy" in step) return ["copy", step.copy, step.target, step.size, step.source_offset, step.target_offset];
    const bound = step.bindings.map(({ buffer, offset, size }) => [buffer, offset, size]);
    return ["pass", step.pass, step.kernel, bound, step.workgroups, costNs];
}

test("a few plans are equal, line by line", () => {
    for (const [asked, whole] of golden.whole) assert.deepEqual(described(asRequest(asked)), whole, JSON.stringify(asked));
});

test("plans, memory maps and kernels are equal to the byte", () => {
    assert.ok(golden.plans.length >= 300);
    const refused = [];
    for (const [asked, digest] of golden.plans) {
        let found;
        try {
            found = sha256(JSON.stringify(described(asRequest(asked))));
        } catch (error) {
            if (!(error instanceof DeviceOutOfMemory)) throw error;
            found = error.name;
            refused.push(asked);
        }
        assert.equal(found, digest, JSON.stringify(asked));
    }
    assert.ok(refused.length >= 3 && refused.length < golden.plans.length / 4, `${refused.length} refusals`);
});

test("points are where Python puts them", () => {
    for (const { n, points, memoryBudget, placed } of golden.placements) {
        let found;
        try {
            const { piece, pieces } = place(new Request({ n, choice: new Choice({ points }), memoryBudget }));
            found = [piece.choice.points, pieces, piece.n, piece.resident];
        } catch (error) {
            found = error.name;
        }
        assert.deepEqual(found, placed, JSON.stringify({ n, points, memoryBudget }));
    }
});

test("submissions are cut where Python cuts them", () => {
    for (const { limitNs, submissions, ...asked } of golden.paces) {
        const pace = new Pace(limitNs);
        const made = [];
        for (const one of pace.submissions(build(asRequest(asked)).planned)) {
            pace.observe(one.costNs, one.costNs * (made.length ? 3 : 10));
            made.push([one.writes.length, one.steps.length]);
        }
        assert.deepEqual(made, submissions, JSON.stringify({ ...asked, limitNs }));
    }
});

const EDGES = [0n, 1n, R - 1n, R, R + 1n, 2n ** 256n - 1n, (R - 1n) / 2n, 1n << 128n, 2n * R, 5n * R + 3n];

test("uploads of points and scalars are equal to the byte", async () => {
    const most = Math.max(...golden.uploads.map((one) => one.n));
    const multiples = [];
    for (let i = 0, walked = GENERATOR; i < most; i++, walked = walked.add(GENERATOR)) multiples.push(i % 7 === 3 ? null : walked);
    const hashed = (i) => {
        const bytes = createHash("sha256").update(Buffer.from(new Uint32Array([i]).buffer)).digest();
        return BigInt(`0x${Buffer.from(bytes.reverse()).toString("hex")}`);
    };
    for (const { n, variant, points, planes: wanted, sum } of golden.uploads) {
        const choice = Choice.parse(variant);
        const read = await readPoints(multiples.slice(0, n));
        const kept = keptPoints(read, choice);
        assert.deepEqual(Object.fromEntries(Object.entries(kept).map(([name, bytes]) => [name, sha256(bytes)])), points);
        const values = Array.from({ length: n }, (_, i) => (i % 3 === 0 ? EDGES[Math.floor(i / 3) % EDGES.length] : hashed(i)));
        const le = new Uint8Array(32 * n);
        values.forEach((value, i) => le.set(Buffer.from(value.toString(16).padStart(64, "0"), "hex").reverse(), 32 * i));
        const { geometry } = build(new Request({ n, choice }));
        for (const given of [readScalars(values, "be"), readScalars(le, "le")]) {
            assert.equal(sha256(planes([given], geometry)), wanted, `${n} ${variant}`);
        }
        // The host's own additions, against Python's integers.
        if (n > 40) continue;
        let total = jacobian(INFINITY);
        values.forEach((value, i) => {
            if (multiples[i]) total = addMixed(total, multiple(value % R, multiples[i]));
        });
        assert.deepEqual([affine(total).x, affine(total).y].map((one) => `0x${one.toString(16)}`), sum);
    }
});
