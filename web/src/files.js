// Sections of points in .ptau and .zkey files, read from a Blob by slices: the header first, then what is asked for.
import { BadInput } from "./errors.js";
import { P, readInteger, viewOf } from "./numbers.js";

/**
 * @typedef {{ format: "ptau" | "zkey", power: number | null, sections: Record<string, number> }} FileContents
 * sections: points of each section by name
 * @typedef {{ kind: number, start: number, size: number }} Section
 */

/** @type {Record<string, Record<string, number>>} */
const SECTIONS = {
    ptau: { tau: 2, alpha: 4, beta: 5, "lagrange-tau": 12, "lagrange-alpha": 14, "lagrange-beta": 15 },
    groth16: { ic: 3, a: 5, b1: 6, c: 8, h: 9 },
    plonk: { tau: 14 },
    fflonk: { tau: 16 },
};
/** @type {Record<number, string>} */
const PROTOCOLS = { 1: "groth16", 2: "plonk", 10: "fflonk" };
const POINT_BYTES = 64;
const MOST_SECTIONS = 64;
const LARGEST_POWER = 28;

/** Which sections a file has, with their points.
 * @param {Blob} blob
 * @returns {Promise<FileContents>} */
export async function describeFile(blob) {
    const { format, power, names, found } = await open(blob);
    /** @type {[string, number][]} */
    const listed = Object.entries(names).flatMap(([name, kind]) => {
        const section = found.get(kind);
        return section ? [[name, Math.floor(section.size / POINT_BYTES)]] : [];
    });
    return { format, power, sections: Object.fromEntries(listed) };
}

/**
 * `n` points of a section from `offset` on, as the bytes that `form: "ffjavascript"` reads. Only these bytes are read.
 * @param {Blob} blob
 * @param {string} section
 * @param {{ offset?: number, n?: number }} [part]
 */
export async function readSection(blob, section, { offset = 0, n } = {}) {
    const { names, found, counts } = await open(blob);
    const place = names[section] === undefined ? undefined : found.get(names[section]);
    if (!place) throw new BadInput(`the file has no section ${section}`, `sections: ${Object.keys(names).filter((name) => found.has(names[name])).join(", ")}`);
    const all = place.size / POINT_BYTES;
    if (all !== counts[place.kind]) throw new BadInput(`section ${section} has ${place.size} bytes, the header implies ${counts[place.kind]} points`, "the file is damaged: get it again");
    const wanted = n ?? all - offset;
    if (!Number.isInteger(offset) || !Number.isInteger(wanted) || offset < 0 || wanted < 0 || offset + wanted > all) {
        throw new BadInput(`points ${offset} to ${offset + wanted} of a section of ${all}`, "ask for a part of it");
    }
    return bytesOf(blob, place.start + POINT_BYTES * offset, POINT_BYTES * wanted);
}

/**
 * @param {Blob} blob
 * @returns {Promise<{ format: "ptau" | "zkey", power: number | null, names: Record<string, number>, found: Map<number, Section>,
 *                     counts: Record<number, number> }>}   counts: points that the header implies, by section
 */
async function open(blob) {
    const head = viewOf(await bytesOf(blob, 0, 12));
    const magic = String.fromCharCode(...new Uint8Array(head.buffer, 0, 4));
    if (magic !== "ptau" && magic !== "zkey") throw new BadInput("this is neither a .ptau nor a .zkey", "give a file that snarkjs wrote");
    if (head.getUint32(4, true) !== 1) throw new BadInput(`version ${head.getUint32(4, true)} is unknown`, "version 1 is read");
    const found = await sections(blob, head.getUint32(8, true));
    return magic === "ptau" ? ptau(blob, found) : zkey(blob, found);
}

/**
 * @param {Blob} blob
 * @param {Map<number, Section>} found
 */
async function ptau(blob, found) {
    const header = await headerOf(blob, found.get(1), 40);
    const power = header.getUint32(36, true);
    if (power > LARGEST_POWER) throw new BadInput(`power ${power} is above ${LARGEST_POWER}`, "the file is damaged: get it again");
    const size = 2 ** power;
    const counts = { 2: 2 * size - 1, 4: size, 5: size, 12: 4 * size - 1, 14: 2 * size - 1, 15: 2 * size - 1 };
    return { format: /** @type {const} */ ("ptau"), power, names: SECTIONS.ptau, found, counts };
}

/**
 * @param {Blob} blob
 * @param {Map<number, Section>} found
 */
async function zkey(blob, found) {
    const about = found.get(1);
    if (!about || about.size < 4) throw new BadInput("the .zkey does not say its protocol", "get the file again");
    const protocol = PROTOCOLS[viewOf(await bytesOf(blob, about.start, 4)).getUint32(0, true)];
    if (!protocol) throw new BadInput("the .zkey is of an unknown protocol", "groth16, plonk and fflonk are known");
    const header = await headerOf(blob, found.get(2), 84);
    const [variables, open, domain] = [72, 76, 80].map((at) => header.getUint32(at, true));
    const groth16 = { 3: open + 1, 5: variables, 6: variables, 8: variables - open - 1, 9: domain };
    /** @type {Record<number, number>} */
    const counts = protocol === "groth16" ? groth16 : { 14: domain + 6, 16: 9 * domain + 18 };
    return { format: /** @type {const} */ ("zkey"), power: null, names: SECTIONS[protocol], found, counts };
}

/**
 * @param {Blob} blob
 * @param {number} count
 */
async function sections(blob, count) {
    if (count > MOST_SECTIONS) throw new BadInput(`the file states ${count} sections`, "get the file again");
    /** @type {Map<number, Section>} */
    const found = new Map();
    let at = 12;
    for (let i = 0; i < count; i++) {
        const head = viewOf(await bytesOf(blob, at, 12));
        const size = Number(head.getBigUint64(4, true));
        const kind = head.getUint32(0, true);
        if (at + 12 + size > blob.size) throw new BadInput(`section ${kind} goes beyond the end of the file`, "the file is cut off: get it again");
        if (found.has(kind)) throw new BadInput(`section ${kind} comes twice`, "the file is damaged: get it again");
        found.set(kind, { kind, start: at + 12, size });
        at += 12 + size;
    }
    if (at !== blob.size) throw new BadInput(`${blob.size - at} bytes follow the last section`, "the file is damaged: get it again");
    return found;
}

/**
 * The first bytes of a header: the size of the base field and its modulus, which has to be that of BN254, and more.
 * @param {Blob} blob
 * @param {Section | undefined} section
 * @param {number} size
 */
async function headerOf(blob, section, size) {
    if (!section || section.size < size) throw new BadInput("the file has no header", "the file is damaged: get it again");
    const view = viewOf(await bytesOf(blob, section.start, size));
    if (view.getUint32(0, true) !== 32 || readInteger(view, 4, true) !== P) throw new BadInput("the file is not over BN254", "give a file of bn128");
    return view;
}

/**
 * @param {Blob} blob
 * @param {number} start
 * @param {number} size
 */
async function bytesOf(blob, start, size) {
    if (start + size > blob.size) throw new BadInput("the file is cut off", "get it again");
    return new Uint8Array(await blob.slice(start, start + size).arrayBuffer());
}
