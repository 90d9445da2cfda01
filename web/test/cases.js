// Sums in a page against @noble/curves, which shares nothing with the package. Case `number` is always the same case; kinds
// take turns, so that any run of consecutive numbers covers all of them.
import { bn254 } from "@noble/curves/bn254";
import { Msm } from "@whet/msm";

const G1 = bn254.G1.Point ?? bn254.G1.ProjectivePoint;
const P = bn254.fields.Fp.ORDER;
const R = bn254.fields.Fr.ORDER;
const SCALE = 1n << 256n;
const SIZES = [1, 2, 3, 5, 8, 17, 33, 64, 100];

/** Numbers that hang on a seed alone (xorshift). */
function generator(seed) {
    let state = BigInt(seed) * 0x9e3779b97f4a7c15n + 0x632be59bd9b4e019n;
    const next = () => {
        state ^= (state << 13n) & 0xffffffffffffffffn;
        state ^= state >> 7n;
        state ^= (state << 17n) & 0xffffffffffffffffn;
        return state & 0xffffffffffffffffn;
    };
    const wide = () => (next() << 192n) | (next() << 128n) | (next() << 64n) | next();
    return { below: (bound) => Number(next() % BigInt(bound)), wide, scalar: () => wide() % R };
}

/** Points as noble has them: a walk with a random step, so that each costs one addition. */
function walk(random, n) {
    const step = G1.BASE.multiply(random.scalar() || 1n);
    const made = [];
    for (let i = 0, at = G1.BASE.multiply(random.scalar() || 1n); i < n; i++, at = at.add(step)) made.push(at);
    return made.length ? G1.normalizeZ(made) : made;
}

const few = (random, n, values) => Array.from({ length: n }, () => values[random.below(values.length)]);
const scalars = (random, n) => Array.from({ length: n }, () => random.scalar());
const EDGES = [0n, 1n, 2n, R - 1n, (R - 1n) / 2n, (R + 1n) / 2n, (1n << 253n) - 1n, 1n << 127n];

/** Each gives points and scalars, and how the package gets them. */
export const KINDS = {
    random: (random, n) => ({ points: walk(random, n), scalars: scalars(random, n), form: "be" }),
    equal: (random, n) => ({ points: few(random, n, walk(random, 1)), scalars: few(random, n, scalars(random, 1)), form: "le" }),
    opposite: (random, n) => {
        const half = walk(random, Math.ceil(n / 2));
        const points = half.flatMap((point) => [point, point.negate()]).slice(0, n);
        const factors = scalars(random, half.length).flatMap((one) => [one, one]);
        return { points, scalars: factors.slice(0, n), form: "noble" };
    },
    infinities: (random, n) => {
        const points = walk(random, n).map((point, i) => (i % 3 === 1 ? G1.ZERO : point));
        return { points, scalars: scalars(random, n), form: "pairs" };
    },
    "zero scalars": (random, n) => ({ points: walk(random, n), scalars: few(random, n, n % 2 ? [0n] : [0n, 1n, random.scalar()]), form: "be" }),
    ffjavascript: (random, n) => ({ points: walk(random, n), scalars: scalars(random, n), form: "ffjavascript" }),
    montgomery: (random, n) => ({ points: walk(random, n), scalars: scalars(random, n), form: "be-montgomery", scalarForm: "be-montgomery" }),
    batches: (random, n) => ({ points: walk(random, n), scalars: scalars(random, n), form: "le-montgomery", vectors: 3 }),
    "offset and prefix": (random, n) => ({ points: walk(random, n + 9), scalars: scalars(random, n), form: "le", offset: random.below(10) }),
    edges: (random, n) => ({ points: walk(random, n), scalars: few(random, n, EDGES), form: "le" }),
    unreduced: (random, n) => ({ points: walk(random, n), scalars: Array.from({ length: n }, random.wide), form: "be" }),
    collide: (random, n) => {
        const [base] = walk(random, 1);
        const multiples = [1n, 2n, 3n, 4n].flatMap((k) => [base.multiply(k), base.multiply(k).negate()]);
        return { points: few(random, n, [...multiples, G1.ZERO]), scalars: few(random, n, [1n, 2n, 3n, random.scalar()]), form: "noble" };
    },
    glv: (random, n) => ({ points: walk(random, n), scalars: few(random, n, [...EDGES, random.scalar(), random.scalar()]), form: "be", variant: "walker:glv=true" }),
    // Four batches, and scalars that are sent batch by batch.
    budget: (random) => ({ points: walk(random, 64), scalars: scalars(random, 64), form: "be", tight: true }),
    nothing: (random) => ({ points: walk(random, 3), scalars: [], form: "be" }),
};

function bytes(values, size, little) {
    const made = new Uint8Array(size * values.length);
    values.forEach((value, i) => {
        for (let at = 0; at < size; at++) made[size * i + (little ? at : size - 1 - at)] = Number((value >> BigInt(8 * at)) & 0xffn);
    });
    return made;
}

function encoded(points, form) {
    if (form === "noble") return points;
    const affine = points.map((point) => (point.is0() ? null : point.toAffine()));
    if (form === "pairs") return affine.map((one, i) => (one && i % 2 ? [one.x, one.y] : one));
    const scale = form.endsWith("montgomery") || form === "ffjavascript" ? SCALE : 1n;
    const values = affine.flatMap((one) => (one ? [(one.x * scale) % P, (one.y * scale) % P] : [0n, 0n]));
    return bytes(values, 32, !form.startsWith("be"));
}

function encodedScalars(values, form, scalarForm) {
    if (form === "noble" || form === "pairs") return values;
    const scale = scalarForm?.endsWith("montgomery") ? SCALE : 1n;
    return bytes(values.map((one) => (scale === 1n ? one : (one * scale) % R)), 32, !form.startsWith("be"));
}

/** By noble: an independent library's own multi-scalar multiplication. */
export function expected(points, factors) {
    const terms = points.map((point, i) => [point, factors[i] % R]).filter(([point, factor]) => factor && !point.is0());
    if (!terms.length) return { x: 0n, y: 0n };
    const sum = G1.msm(terms.map(([point]) => point), terms.map(([, factor]) => factor));
    return sum.is0() ? { x: 0n, y: 0n } : sum.toAffine();
}

const total = (msm) => msm.memoryMap().reduce((sum, row) => sum + row.bytes, 0);

/** One case: what was wrong with it, or null. */
export async function run(number, { seed = 1, n, variant = "walker" } = {}) {
    const random = generator(1000003 * seed + number);
    const names = Object.keys(KINDS);
    const kind = names[number % names.length];
    const size = n ?? SIZES[(Math.floor(number / names.length) + number) % SIZES.length];
    const made = KINDS[kind](random, size);
    const vectors = Array.from({ length: made.vectors ?? 1 }, (_, i) => (i ? scalars(random, made.scalars.length) : made.scalars));
    const options = { form: made.form, scalarForm: made.scalarForm, variant: made.variant ?? variant };
    if (made.form === "noble" || made.form === "pairs") delete options.form;
    const points = encoded(made.points, made.form);
    if (made.tight) {
        const whole = await Msm.create(points, options);
        // Pairs have more that does not become less with more batches.
        options.memoryBudget = (options.variant.startsWith("pairs") ? 0.75 : 0.7) * total(whole);
        whole.close();
    }
    const msm = await Msm.create(points, options);
    if (made.tight && total(msm) > options.memoryBudget) return `case ${number}: ${total(msm)} bytes, the budget is ${options.memoryBudget}`;
    try {
        const offset = made.offset ?? 0;
        const found = await msm.batch(vectors.map((one) => encodedScalars(one, made.form, made.scalarForm)), { offset });
        for (const [i, vector] of vectors.entries()) {
            const want = expected(made.points.slice(offset, offset + vector.length), vector);
            if (found[i].x !== want.x || found[i].y !== want.y) return `case ${number} of seed ${seed} (${kind}, n=${size}, ${variant}), vector ${i}: ${found[i]}`;
        }
        return null;
    } finally {
        msm.close();
    }
}

/** Several cases; the device stays open over them. */
export async function runAll(first, count, options = {}) {
    const held = await Msm.create([[1n, 2n]], { variant: options.variant ?? "walker" });
    const wrong = [];
    try {
        for (let number = first; number < first + count; number++) {
            const said = await run(number, options);
            if (said) wrong.push(said);
        }
    } finally {
        held.close();
    }
    return wrong;
}
