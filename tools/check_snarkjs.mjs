// Makes a ceremony, keys for all three protocols and a witness with snarkjs in the current folder, and writes what its
// own libraries read in them to expected.json: the points of each section as [x, y], and sums of some with the witness.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.cwd()}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { powersOfTau, zKey, plonk, fflonk, wtns } = await load("snarkjs");
const { getCurveFromName } = await load("ffjavascript");
const { readBinFile, readSection } = await load("@iden3/binfileutils");

const POWER = 11; // fflonk wants nine times the domain of the circuit
const curve = await getCurveFromName("bn128");
await powersOfTau.newAccumulator(curve, POWER, "start.ptau");
await powersOfTau.contribute("start.ptau", "raw.ptau", "one", "entropy");
await powersOfTau.preparePhase2("raw.ptau", "final.ptau");
await wtns.calculate(JSON.parse(readFileSync("input.json")), "circuit_js/circuit.wasm", "witness.wtns");
await zKey.newZKey("circuit.r1cs", "final.ptau", "start.zkey");
await zKey.contribute("start.zkey", "groth16.zkey", "one", "entropy");
await plonk.setup("circuit.r1cs", "final.ptau", "plonk.zkey");
await fflonk.setup("circuit.r1cs", "final.ptau", "fflonk.zkey");

async function sections(path, type, version, numbers) {
  const { fd, sections } = await readBinFile(path, type, version, 1 << 22, 1 << 24);
  const contents = {};
  for (const number of numbers) contents[number] = await readSection(fd, sections, number);
  await fd.close();
  return contents;
}

const text = (point) => curve.G1.toObject(point).slice(0, 2).map(String);
function points(content) {
  const found = [];
  for (let at = 0; at < content.length; at += 64) {
    const point = content.slice(at, at + 64);
    found.push(curve.G1.isZero(point) ? ["0", "0"] : text(point));
  }
  return found;
}

const ptau = { tau: 2, alpha: 4, beta: 5, "lagrange-tau": 12, "lagrange-alpha": 14, "lagrange-beta": 15 };
const wanted = [
  ["raw.ptau", "ptau", { tau: 2, alpha: 4, beta: 5 }],
  ["final.ptau", "ptau", ptau],
  ["groth16.zkey", "zkey", { ic: 3, a: 5, b1: 6, c: 8, h: 9 }],
  ["plonk.zkey", "zkey", { tau: 14 }],
  ["fflonk.zkey", "zkey", { tau: 16 }],
];
const witness = (await sections("witness.wtns", "wtns", 2, [2]))[2];
const expected = { sections: [], sums: [], witness: [] };
for (let at = 0; at < witness.length; at += 32) {
  let value = 0n;
  for (let i = 31; i >= 0; i--) value = (value << 8n) | BigInt(witness[at + i]);
  expected.witness.push(String(value));
}
for (const [path, type, names] of wanted) {
  const contents = await sections(path, type, 1, Object.values(names));
  for (const [name, number] of Object.entries(names)) {
    const content = contents[number];
    expected.sections.push({ path, name, points: points(content) });
    const size = Math.min(content.length / 64, witness.length / 32);
    const sum = await curve.G1.multiExpAffine(content.slice(0, 64 * size), witness.slice(0, 32 * size));
    expected.sums.push({ path, name, size, point: curve.G1.isZero(sum) ? ["0", "0"] : text(curve.G1.toAffine(sum)) });
  }
}
writeFileSync("expected.json", JSON.stringify(expected));
await curve.terminate();
process.exit(0);
