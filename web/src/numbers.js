// Integers: the two moduli, and bytes to BigInt and back. Nothing here is constant time.

export const P = 0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n;
export const R = 0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001n;
export const B = 3n;
const LOW = (1n << 64n) - 1n;

/**
 * @param {number} a
 * @param {number} b
 */
export const ceilDiv = (a, b) => Math.floor((a + b - 1) / b);

/** @param {bigint} a */
export const modP = (a) => {
    const rest = a % P;
    return rest < 0n ? rest + P : rest;
};

/**
 * a^-1 modulo an odd m, by Euclid.
 * @param {bigint} a
 * @param {bigint} [m]
 */
export function inverse(a, m = P) {
    let [low, high] = [((a % m) + m) % m, m];
    let [x, y] = [1n, 0n];
    while (low > 1n) {
        const quotient = high / low;
        [low, high] = [high - quotient * low, low];
        [x, y] = [y - quotient * x, x];
    }
    return ((x % m) + m) % m;
}

/**
 * 32 bytes as an integer.
 * @param {DataView} view
 * @param {number} at
 * @param {boolean} little
 */
export function readInteger(view, at, little) {
    const [a, b, c, d] = little ? [24, 16, 8, 0] : [0, 8, 16, 24];
    const high = (view.getBigUint64(at + a, little) << 64n) | view.getBigUint64(at + b, little);
    return (((high << 64n) | view.getBigUint64(at + c, little)) << 64n) | view.getBigUint64(at + d, little);
}

/**
 * @param {DataView} view
 * @param {number} at
 * @param {bigint} value
 * @param {boolean} [little]
 */
export function writeInteger(view, at, value, little = true) {
    for (let limb = 0; limb < 4; limb++) {
        view.setBigUint64(at + 8 * (little ? limb : 3 - limb), (value >> BigInt(64 * limb)) & LOW, little);
    }
}

/** @param {Uint8Array} bytes */
export const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
