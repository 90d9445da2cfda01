// Runs what the server asks for on this page's WebGPU and times it. It knows programs, not engines.
import { Fault, Session } from "./runner.js";

const REFERENCE = {
    source: `@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64) fn reference(@builtin(global_invocation_id) id: vec3u) {
    var x = id.x + 1u;
    for (var i = 0u; i < 2000u; i++) { x = x * 1664525u + 1013904223u; }
    out[id.x] = x;
}`,
    entry: "reference",
    constants: {},
};
const REFERENCE_THREADS = 1024;
// A browser whose GPU process has just died gives no adapter for a while.
const OPEN_TRIES = 8;
const FIRST_PAUSE_MS = 100;
const SETTLE_MS = 500;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const nanoseconds = (since) => Math.max(0, Math.round(1e6 * (performance.now() - since)));

/** The smallest step of this page's clock, in nanoseconds. */
export function clockStep() {
    let [smallest, last] = [Infinity, performance.now()];
    for (let seen = 0, turns = 0; seen < 40 && turns < 1e6; turns++) {
        const now = performance.now();
        if (now === last) continue;
        smallest = Math.min(smallest, now - last);
        last = now;
        seen++;
    }
    return Number.isFinite(smallest) ? Math.max(1, Math.round(1e6 * smallest)) : 1e6;
}

export class Device {
    constructor() {
        this.session = null;
        this.arms = new Map();
        this.ran = new Set();
        this.opened = false;
    }

    /** The session, opened anew after a loss; programs that were on a lost one are gone. */
    async open() {
        if (this.session && !this.session.lost) return this.session;
        this.arms.clear();
        this.ran.clear();
        const tries = this.opened ? OPEN_TRIES : 1;
        for (let left = tries - 1, wait = FIRST_PAUSE_MS; ; left--, wait *= 2) {
            try {
                this.session = await Session.open();
                this.opened = true;
                return this.session;
            } catch (error) {
                if (!left) throw this.opened ? new Fault("adapter", error.message) : error;
                await pause(wait);
            }
        }
    }

    /** What an error comes to: on a device that is gone any of them means no more than that, and some come first. */
    async faultOf(error) {
        const fault = Fault.of(error);
        const { session } = this;
        if (fault.kind === "lost" || fault.kind === "adapter" || fault.kind === "forgotten" || !session) return fault;
        await Promise.race([session.gone.catch(() => null), pause(SETTLE_MS)]);
        return session.lost ? new Fault("lost", session.lost.message || "the device is gone") : fault;
    }

    close() {
        this.session?.close();
        this.session = null;
        this.arms.clear();
        this.ran.clear();
    }

    async facts() {
        const { device, adapter, timed } = await this.open();
        const limits = {};
        for (const name in device.limits) if (typeof device.limits[name] === "number") limits[name] = device.limits[name];
        const text = Object.entries(adapter).map(([name, value]) => [name, typeof value === "string" ? value.slice(0, 400) : value]);
        return {
            ...Object.fromEntries(text),
            fallback: Boolean(adapter.fallback),
            agent: navigator.userAgent.slice(0, 400),
            timestamps: timed,
            isolated: Boolean(globalThis.crossOriginIsolated),
            clock_step_ns: clockStep(),
            features: [...device.features].slice(0, 100),
            limits,
        };
    }

    /** A program with buffers of its own: compiled, filled, and run once. What it is told apart from the trial. */
    async prepare({ arm, program }, parts, stage) {
        const session = await this.open();
        this.drop(arm);
        if (!program) {
            this.arms.set(arm, null);
            return { compile_ns: 0, first_ns: 0 };
        }
        stage(`compiling ${program.kernels.length} kernels of ${arm}`);
        const began = performance.now();
        const pipelines = await session.compile(program.kernels);
        const compile_ns = nanoseconds(began);
        const buffers = await session.allocate(program.buffers);
        const made = { program, pipelines, buffers, warm: named(parts, "warm/") };
        this.arms.set(arm, made);
        for (const [name, bytes] of Object.entries(named(parts, "kept/"))) await session.write(buffers[name], bytes);
        // A block gets buffers anew; what is the same program has had its first run.
        const key = JSON.stringify([arm, program]);
        if (this.ran.has(key)) return { compile_ns, first_ns: 0 };
        stage(`first run of ${arm}`);
        const first = performance.now();
        await this.#call(made, made.warm, false);
        this.ran.add(key);
        return { compile_ns, first_ns: nanoseconds(first) };
    }

    drop(arm) {
        const made = this.arms.get(arm);
        if (made) this.session.release(made.buffers);
        this.arms.delete(arm);
    }

    /** Several calls, each on inputs of its own; outputs that are no inputs are poisoned before each. */
    async turn({ arm, calls, timing, poison }, parts) {
        if (!this.arms.has(arm) || !this.session || this.session.lost) throw new Fault("forgotten", "the program is not here");
        const made = this.arms.get(arm);
        const answer = { walls_ns: [], regions_ns: {}, device_ns: made && this.session.timed && timing ? 0 : null };
        const read = {};
        for (let i = 0; i < calls; i++) {
            const fed = named(parts, `${i}/`);
            if (made) await this.#poison(made, fed, poison);
            const began = performance.now();
            const { passes, outputs } = made ? await this.#call(made, fed, timing) : await this.#nothing();
            // A clock that stood still says that less than one step passed, not that nothing did.
            answer.walls_ns.push(Math.max(1, nanoseconds(began)));
            for (const [name, bytes] of Object.entries(outputs)) read[`${i}/${name}`] = bytes;
            // Its own clock is told of the last call.
            answer.regions_ns = {};
            if (answer.device_ns !== null) answer.device_ns = 0;
            for (const [name, ns] of passes) {
                if (ns === null) continue;
                answer.regions_ns[name] = (answer.regions_ns[name] ?? 0) + Math.max(0, ns);
                if (answer.device_ns !== null) answer.device_ns += Math.max(0, ns);
            }
        }
        if (this.session?.lost) throw new Fault("lost", this.session.lost.message);
        return [answer, read];
    }

    /** A small kernel that never changes. */
    async reference() {
        const session = await this.open();
        const [pipelines, buffers] = [await session.compile([REFERENCE]), await session.allocate({ out: 4 * REFERENCE_THREADS })];
        try {
            const pass = { pass: "reference", kernel: 0, bindings: [{ buffer: "out" }], workgroups: [REFERENCE_THREADS / 64, 1, 1] };
            const { walls } = await session.run({ submissions: [{ writes: [], steps: [pass] }], pipelines, buffers });
            return { walls_ns: [Math.max(1, walls[0])] };
        } finally {
            session.release(buffers);
        }
    }

    async #call({ program, pipelines, buffers }, fed, timed) {
        const { session } = this;
        const uploads = {};
        for (const [name, bytes] of Object.entries(fed)) {
            if (name in buffers) session.device.queue.writeBuffer(buffers[name], 0, bytes);
            else uploads[name] = bytes;
        }
        const { submissions } = program;
        const { passes } = await session.run({ submissions, pipelines, buffers, uploads, timed });
        const outputs = {};
        for (const name of program.outputs) outputs[name] = await session.read(buffers[name]);
        return { passes, outputs };
    }

    async #nothing() {
        await this.session.device.queue.onSubmittedWorkDone();
        return { passes: [], outputs: {} };
    }

    async #poison({ program, buffers }, fed, word) {
        const { queue } = this.session.device;
        for (const name of program.outputs) {
            if (name in fed) continue;
            queue.writeBuffer(buffers[name], 0, new Uint32Array(buffers[name].size / 4).fill(word));
        }
        await queue.onSubmittedWorkDone();
    }
}

function named(parts, prefix) {
    const found = Object.entries(parts).filter(([name]) => name.startsWith(prefix));
    return Object.fromEntries(found.map(([name, bytes]) => [name.slice(prefix.length), bytes]));
}
