// Other libraries as fallbacks. A fallback gets the terms of one sum, points as 64 and scalars as 32 bytes, big-endian and
// canonical, and gives a point in any form that Msm takes; null is infinity.

/**
 * @typedef {{ x: bigint, y: bigint } | readonly [bigint, bigint] | null} Given
 * @typedef {(points: Uint8Array, scalars: Uint8Array, signal?: AbortSignal) => Given | Promise<Given>} Fallback
 */

/**
 * With the curve of @noble/curves: `nobleFallback(bn254)`.
 * @param {any} bn254
 * @returns {Fallback}
 */
export function nobleFallback(bn254) {
    const Point = bn254.G1.Point ?? bn254.G1.ProjectivePoint;
    return (points, scalars, signal) => {
        const [used, factors] = [[], /** @type {bigint[]} */ ([])];
        for (let i = 0; i < scalars.length / 32; i++) {
            if (i % 1024 === 0) signal?.throwIfAborted();
            const scalar = integer(scalars, 32 * i);
            const [x, y] = [integer(points, 64 * i), integer(points, 64 * i + 32)];
            if (!scalar || (!x && !y)) continue;
            /** @type {any[]} */ (used).push(Point.fromAffine({ x, y }));
            factors.push(scalar);
        }
        if (!used.length) return null;
        const sum = Point.msm(used, factors);
        return sum.is0() ? null : sum.toAffine();
    };
}

/**
 * With a curve of ffjavascript: `ffjavascriptFallback(await buildBn128())`.
 * @param {any} curve
 * @returns {Fallback}
 */
export function ffjavascriptFallback(curve) {
    const { G1 } = curve;
    return async (points, scalars) => {
        const n = scalars.length / 32;
        const [bases, factors] = [new Uint8Array(64 * n), new Uint8Array(32 * n)];
        for (let i = 0; i < n; i++) {
            const [x, y] = [integer(points, 64 * i), integer(points, 64 * i + 32)];
            bases.set(x || y ? G1.toAffine(G1.fromObject([x, y])) : new Uint8Array(64), 64 * i);
            factors.set(scalars.slice(32 * i, 32 * i + 32).reverse(), 32 * i);
        }
        const sum = await G1.multiExpAffine(bases, factors);
        if (G1.isZero(sum)) return null;
        const [x, y] = G1.toObject(G1.toAffine(sum));
        return { x, y };
    };
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 */
function integer(bytes, at) {
    let text = "0x";
    for (let i = at; i < at + 32; i++) text += bytes[i].toString(16).padStart(2, "0");
    return BigInt(text);
}
