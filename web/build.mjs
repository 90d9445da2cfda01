// Makes src/generated: the kernels of whet.msm as a module, with the SHA-256 of every file, and a copy of the runner.
// Nothing of it is kept in the repository, so there is one source of each. No dependencies.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const whet = join(here, "..", "src", "whet");
const kernels = join(whet, "msm", "webgpu", "wgsl");
const runner = join(whet, "gpu", "runner.js");
const target = join(here, "src", "generated");
// Browsers have no 64-bit integers in shaders; the chain is for trials of the multiply.
const LEFT_OUT = new Set(["generated/multiply_wide", "chain"]);

/** @param {string | Buffer} bytes */
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** @param {string} folder @returns {string[]} */
function wgsl(folder) {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
        const path = join(folder, entry.name);
        return entry.isDirectory() ? wgsl(path) : entry.name.endsWith(".wgsl") ? [path] : [];
    });
}

const files = Object.fromEntries(
    wgsl(kernels)
        .map((path) => [relative(kernels, path).replaceAll("\\", "/").replace(/\.wgsl$/, ""), readFileSync(path, "utf8")])
        .filter(([name]) => !LEFT_OUT.has(name))
        .sort(([a], [b]) => (a < b ? -1 : 1)),
);
const hashes = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, sha256(text)]));
const text = readFileSync(runner, "utf8");
hashes["runner.js"] = sha256(text);
const all = sha256(Object.entries(hashes).map(([name, hash]) => `${hash}  ${name}\n`).join(""));
const { version } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));

mkdirSync(target, { recursive: true });
writeFileSync(
    join(target, "wgsl.js"),
    `// Made by build.mjs from src/whet/msm/webgpu/wgsl; SHA256 names each file as it was.
export const VERSION = ${JSON.stringify(version)};
/** @type {Record<string, string>} */
export const FILES = ${JSON.stringify(files, null, 1)};
/** @type {Record<string, string>} */
export const SHA256 = ${JSON.stringify(hashes, null, 1)};
/** Of all of them together. */
export const DIGEST = ${JSON.stringify(all)};
`,
);
writeFileSync(join(target, "runner.js"), text);
