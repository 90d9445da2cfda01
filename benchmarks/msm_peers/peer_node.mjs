// One peer from npm behind lines of JSON, as peer_python.py. Runs with build/peers/js as its module folder.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const R = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;
const [, , name, home] = process.argv;
const require = createRequire(pathToFileURL(`${home}/package.json`));

function integers(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const out = [];
  for (let i = 0; i < data.length; i += 32) {
    let value = 0n;
    for (let k = 3; k >= 0; k--) value = (value << 64n) | view.getBigUint64(i + 8 * k, true);
    out.push(value);
  }
  return out;
}

function inverse(a) {
  let [r0, r1, s0, s1] = [P, ((a % P) + P) % P, 0n, 1n];
  while (r1) [r0, r1, s0, s1] = [r1, r0 % r1, s1, s0 - (r0 / r1) * s1];
  return ((s0 % P) + P) % P;
}

const peers = {
  ffjavascript: {
    async load(files, threads) {
      const { buildBn128 } = await import(pathToFileURL(require.resolve("ffjavascript")));
      this.curve = await (buildBn128.default ?? buildBn128)(threads === 1);
      this.points = new Uint8Array(files.points_montgomery);
    },
    scalars: (files) => new Uint8Array(files.scalars),
    run(scalars) { return this.curve.G1.multiExpAffine(this.points, scalars); },
    affine(result) {
      const [x, y] = this.curve.G1.toObject(this.curve.G1.toAffine(result));
      return [x, y];
    },
  },
  noble: {
    async load(files, threads) {
      if (threads > 1) throw new Error("it has one thread");
      const { bn254 } = await import(pathToFileURL(require.resolve("@noble/curves/bn254.js")));
      this.Point = bn254.G1.Point ?? bn254.G1.ProjectivePoint;
      const { pippenger } = await import(pathToFileURL(require.resolve("@noble/curves/abstract/curve.js")));
      this.pippenger = pippenger;
      const flat = integers(files.points);
      this.points = [];
      for (let i = 0; i < flat.length; i += 2) this.points.push(this.Point.fromAffine({ x: flat[i], y: flat[i + 1] }));
    },
    scalars: (files) => integers(files.scalars).map((v) => v % R),
    run(scalars) {
      return this.pippenger.length === 4
        ? this.pippenger(this.Point, this.Point.Fn, this.points, scalars)
        : this.pippenger(this.Point, this.points, scalars);
    },
    affine(result) { const { x, y } = result.toAffine(); return [x, y]; },
  },
  // It wants points as in an Ignition transcript (canonical, words from low to high, big-endian inside), puts the
  // generator first by itself and drops the last point it is given. Its own pippengerUnsafe() on the main thread hands
  // the heap a wrapper for workers instead of the scalars, so that they are never copied and the sum is infinity: one
  // thread therefore makes the same calls by hand; several threads go through its worker pool.
  barretenberg: {
    async load(files, threads) {
      const dest = `${home}/node_modules/@aztec/barretenberg/dest`;
      const { BarretenbergWasm, WorkerPool } = await import(pathToFileURL(`${dest}/wasm/index.js`));
      const { SinglePippenger, PooledPippenger } = await import(pathToFileURL(`${dest}/pippenger/index.js`));
      const points = Buffer.alloc(files.points.length);
      files.points.copy(points, 0, 64);
      points.swap64();
      this.n = points.length / 64;
      this.wasm = await BarretenbergWasm.new("bench");
      this.pooled = threads > 1;
      this.pippenger = this.pooled
        ? new PooledPippenger(await WorkerPool.new(this.wasm, threads))
        : new SinglePippenger(this.wasm);
      await this.pippenger.init(points);
    },
    scalars: (files) => new Uint8Array(files.scalars_montgomery),
    async run(scalars) {
      if (this.pooled) return this.pippenger.pippengerUnsafe(scalars, 0, this.n);
      const at = this.wasm.call("bbmalloc", scalars.length);
      this.wasm.transferToHeap(scalars, at);
      this.wasm.call("pippenger_unsafe", this.pippenger.getPointer(), at, 0, this.n, 0);
      this.wasm.call("bbfree", at);
      return this.wasm.sliceMemory(0, 96);
    },
    affine(result) {
      const unit = inverse(1n << 256n);
      const [x, y, z] = integers(new Uint8Array(result)).map((v) => (v * unit) % P);
      const zi = inverse(z);
      return [(x * zi * zi) % P, (y * zi * zi * zi) % P];
    },
  },
};

const peer = peers[name];
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    const files = {};
    for (const [key, path] of Object.entries(request.files)) files[key] = readFileSync(path);
    if ("load" in request) {
      const start = performance.now();
      await peer.load(files, request.load);
      answer = { wall_ms: performance.now() - start };
    } else {
      const scalars = peer.scalars(files);
      const cpu = process.cpuUsage();
      const start = performance.now();
      let result;
      for (let call = 0; call < request.calls; call++) result = await peer.run(scalars);
      const wall_ms = (performance.now() - start) / request.calls;
      const used = process.cpuUsage(cpu);
      const cpu_ms = (used.user + used.system) / 1e3 / request.calls;
      const [x, y] = peer.affine(result);
      answer = { wall_ms, cpu_ms, x: x.toString(), y: y.toString() };
    }
  } catch (error) {
    answer = { error: String(error).split("\n")[0].replace(/^(Error: )+/, "").slice(0, 120) };
  }
  console.log(JSON.stringify(answer));
}
process.exit(0);
