// Runs programs on this page's WebGPU: one module for the Chromium that whet.gpu.browser drives, for a page that a device
// opens, and for the package in web/. It knows no engine. Plain data in, bytes out; every failure is a Fault with a kind.
//
//   const session = await Session.open();                    one device; its pipelines and buffers stay until close()
//   const pipelines = await session.compile(kernels);        side by side, each once per session
//   const buffers = await session.allocate({ a: 256 });      all of them or none
//   const ran = await session.run({ submissions, pipelines, buffers, uploads, timed, signal });
//   const bytes = await session.read(buffers.a);
//
// `runRequest` does all of that for what whet.gpu.portable encodes, `runProgram` the same on one session of the page with
// answers as base64. Submissions are recorded exactly as whet.gpu.device records them.

/**
 * @typedef {{ source: string, entry: string, constants?: Record<string, number> }} Kernel
 * @typedef {{ buffer: string, offset?: number, size?: number | null }} Binding
 * @typedef {{ pass: string, kernel: number, bindings: Binding[], workgroups: number[] | null,
 *             indirect?: [string, number] | null }} PassStep
 * @typedef {{ clear: string, offset?: number, size?: number | null }} ClearStep
 * @typedef {{ copy: string, target: string, size: number, source_offset: number, target_offset: number }} CopyStep
 * @typedef {PassStep | ClearStep | CopyStep} Step
 * @typedef {{ upload: string, buffer: string, size_bytes: number, upload_offset: number, buffer_offset: number }} Write
 * @typedef {{ writes: Write[], steps: Step[] }} Submission
 * @typedef {{ pipeline: GPUComputePipeline, messages: string[] }} Compiled
 * @typedef {Record<string, GPUBuffer>} Buffers
 * @typedef {{ submissions: Iterable<Submission>, pipelines: Compiled[], buffers: Buffers,
 *             uploads?: Record<string, Uint8Array>, timed?: boolean, signal?: AbortSignal,
 *             observe?: (submission: Submission, wallNs: number) => void }} Work
 * @typedef {{ passes: [string, number | null][], walls: number[] }} Ran   nanoseconds
 * @typedef {string | Uint8Array | { url: string }} Carried   base64, the bytes, or where they are to be had
 * @typedef {{ buffers: Record<string, number>, contents: Record<string, Carried>, uploads: Record<string, Carried>,
 *             kernels: Kernel[], submissions: Submission[], timed: boolean, outputs: string[] }} Request
 * @typedef {"adapter" | "lost" | "memory" | "shader" | "device"} FaultKind
 */

/** What a device refused, as data: `kind` says what it is, a shader's fault also which kernel, its number and line. */
export class Fault extends Error {
    /**
     * @param {FaultKind} kind
     * @param {string} message
     * @param {{ kernel?: string, number?: number, line?: number | null }} [more]
     */
    constructor(kind, message, more = {}) {
        super(message);
        this.name = "Fault";
        this.kind = kind;
        this.more = more;
    }

    /** As it goes to whoever asked from outside the page. */
    toJSON() {
        return { kind: this.kind, message: this.message, ...this.more };
    }

    /**
     * Any error as a fault.
     * @param {any} error
     */
    static of(error) {
        return error instanceof Fault ? error : new Fault("device", String(error?.message || error));
    }
}

/** One device, kept open, with the pipelines that it has compiled and the buffers that are on it. */
export class Session {
    /**
     * @param {GPUAdapter} adapter
     * @param {GPUDevice} device
     * @param {boolean} timed
     */
    constructor(adapter, device, timed) {
        this.device = device;
        this.timed = timed;
        this.info = adapter.info;
        /** @type {GPUDeviceLostInfo | null} */
        this.lost = null;
        /** @type {Map<string, Promise<Compiled>>} */
        this.pipelines = new Map();
        /** Bytes of every live buffer, staging included.
         * @type {Map<GPUBuffer, number>} */
        this.live = new Map();
        this.peakBytes = 0;
        /** Rejects when the device is gone, so that no wait outlives it.
         * @type {Promise<never>} */
        this.gone = device.lost.then((info) => {
            this.lost = info;
            throw new Fault("lost", info.message || "the device is gone");
        });
        this.gone.catch(() => null);
    }

    /**
     * No limits are asked for: what runs here runs within what every browser grants.
     * @param {GPU | undefined} [gpu]
     * @param {GPURequestAdapterOptions} [options]
     */
    static async open(gpu = globalThis.navigator?.gpu, options = undefined) {
        const adapter = gpu && (await gpu.requestAdapter(options));
        if (!adapter) throw new Fault("adapter", gpu ? "requestAdapter gave none" : "no navigator.gpu");
        const timed = adapter.features.has("timestamp-query");
        try {
            const device = await adapter.requestDevice({ requiredFeatures: timed ? ["timestamp-query"] : [] });
            return new Session(adapter, device, timed);
        } catch (error) {
            throw Fault.of(error);
        }
    }

    /** What the adapter says of itself. */
    get adapter() {
        const { vendor, architecture, device, description } = this.info;
        // isFallbackAdapter moved from the adapter to its description; older typings know neither.
        return { vendor, architecture, device, description, fallback: /** @type {any} */ (this.info).isFallbackAdapter };
    }

    get liveBytes() {
        return [...this.live.values()].reduce((sum, size) => sum + size, 0);
    }

    /** Gives up the device with all that is on it, whatever it is doing. */
    close() {
        this.device.destroy();
        this.live.clear();
    }

    /**
     * Kernels are compiled side by side, each once per session. A fault names the kernel's number.
     * @param {Kernel[]} kernels
     * @param {AbortSignal} [signal]
     */
    async compile(kernels, signal) {
        return this.#alive(Promise.all(kernels.map((kernel, number) => this.#compiled(kernel, number))), signal);
    }

    /**
     * All of them, or none and a fault.
     * @param {Record<string, number>} sizes
     * @returns {Promise<Buffers>}
     */
    async allocate(sizes) {
        const use = GPUBufferUsage;
        const usage = use.COPY_SRC | use.COPY_DST | use.STORAGE | use.UNIFORM | use.INDIRECT;
        /** @type {Buffers} */
        const made = {};
        try {
            await this.#checked(() => {
                for (const [label, size] of Object.entries(sizes)) made[label] = this.#buffer({ label, size, usage });
            });
        } catch (fault) {
            this.release(made);
            throw fault;
        }
        return made;
    }

    /** @param {Buffers} buffers */
    release(buffers) {
        for (const buffer of Object.values(buffers)) this.#drop(buffer);
    }

    /**
     * @param {GPUBuffer} buffer
     * @param {Uint8Array} bytes
     * @param {number} [offset]
     */
    async write(buffer, bytes, offset = 0) {
        await this.#checked(() => this.device.queue.writeBuffer(buffer, offset, plain(bytes)));
    }

    /**
     * Submission by submission; between two of them the signal is looked at. `observe` gets the wall time of each before
     * the next one is asked for, so that they can be made one by one.
     * @param {Work} work
     * @returns {Promise<Ran>}
     */
    async run({ submissions, pipelines, buffers, uploads = {}, timed = false, signal, observe }) {
        /** @type {Ran} */
        const ran = { passes: [], walls: [] };
        for (const submission of submissions) {
            signal?.throwIfAborted();
            const { passes, wall } = await this.#submit(submission, pipelines, buffers, uploads, timed);
            ran.passes.push(...passes);
            ran.walls.push(wall);
            observe?.(submission, wall);
        }
        return ran;
    }

    /**
     * The bytes of a buffer.
     * @param {GPUBuffer} buffer
     * @param {number} [size]
     */
    async read(buffer, size = buffer.size) {
        /** @type {GPUBuffer | undefined} */
        let staging;
        try {
            await this.#checked(() => {
                staging = this.#buffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
                const encoder = this.device.createCommandEncoder();
                encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
                this.device.queue.submit([encoder.finish()]);
            });
            const mapped = /** @type {GPUBuffer} */ (/** @type {unknown} */ (staging));
            await this.#alive(mapped.mapAsync(GPUMapMode.READ));
            return new Uint8Array(mapped.getMappedRange().slice(0));
        } catch (error) {
            throw this.lost ? new Fault("lost", this.lost.message) : Fault.of(error);
        } finally {
            if (staging) this.#drop(staging);
        }
    }

    /**
     * What `work` does at once, in error scopes of its own: nothing else can come between push and pop.
     * @param {() => void} work
     */
    async #checked(work) {
        const { device } = this;
        device.pushErrorScope("out-of-memory");
        device.pushErrorScope("validation");
        let failed = null;
        try {
            work();
        } catch (error) {
            failed = error;
        }
        const said = Promise.all([device.popErrorScope(), device.popErrorScope()]);
        const [invalid, full] = await this.#alive(said);
        if (this.lost) throw new Fault("lost", this.lost.message);
        if (full) throw new Fault("memory", full.message);
        if (invalid) throw new Fault("device", invalid.message);
        if (failed instanceof RangeError) throw new Fault("memory", failed.message);
        if (failed) throw Fault.of(failed);
    }

    /**
     * @template T
     * @param {Promise<T>} promise
     * @param {AbortSignal} [signal]
     * @returns {Promise<T>}
     */
    async #alive(promise, signal) {
        signal?.throwIfAborted();
        promise.catch(() => null);
        /** @type {(() => void) | undefined} */
        let stop;
        const stopped = new Promise((_, reject) => {
            stop = () => reject(signal?.reason);
            signal?.addEventListener("abort", stop);
        });
        try {
            return /** @type {T} */ (await Promise.race([promise, this.gone, stopped]));
        } finally {
            if (stop) signal?.removeEventListener("abort", stop);
        }
    }

    /** @param {GPUBufferDescriptor} descriptor */
    #buffer(descriptor) {
        const buffer = this.device.createBuffer(descriptor);
        this.live.set(buffer, descriptor.size);
        this.peakBytes = Math.max(this.peakBytes, this.liveBytes);
        return buffer;
    }

    /** @param {GPUBuffer} buffer */
    #drop(buffer) {
        buffer.destroy();
        this.live.delete(buffer);
    }

    /**
     * @param {Kernel} kernel
     * @param {number} number
     */
    async #compiled(kernel, number) {
        const key = JSON.stringify([kernel.source, kernel.entry, kernel.constants]);
        let built = this.pipelines.get(key);
        if (!built) {
            built = build(this.device, kernel);
            built.catch(() => this.pipelines.delete(key));
            this.pipelines.set(key, built);
        }
        try {
            return await built;
        } catch (error) {
            throw error instanceof Fault ? new Fault(error.kind, error.message, { ...error.more, number }) : error;
        }
    }

    /**
     * @param {Submission} submission
     * @param {Compiled[]} pipelines
     * @param {Buffers} buffers
     * @param {Record<string, Uint8Array>} uploads
     * @param {boolean} timed
     */
    async #submit({ writes, steps }, pipelines, buffers, uploads, timed) {
        const { device } = this;
        const names = steps.flatMap((step) => ("pass" in step ? [step.pass] : []));
        /** @type {Clock | null} */
        let clock = null;
        let start = 0;
        try {
            const accepted = this.#checked(() => {
                for (const { upload, buffer, size_bytes, upload_offset, buffer_offset } of writes) {
                    const bytes = plain(uploads[upload]);
                    device.queue.writeBuffer(buffers[buffer], buffer_offset, bytes, upload_offset, size_bytes);
                }
                if (this.timed && timed && names.length) clock = makeClock(device, names.length);
                const encoder = device.createCommandEncoder();
                record(device, encoder, steps, buffers, pipelines, clock);
                if (clock) encoder.resolveQuerySet(clock.queries, 0, 2 * names.length, clock.ticks, 0);
                const commands = encoder.finish();
                start = performance.now();
                device.queue.submit([commands]);
            });
            const done = device.queue.onSubmittedWorkDone().then(() => Math.round(1e6 * (performance.now() - start)));
            const [wall] = await Promise.all([this.#alive(done), accepted]);
            const ticks = clock && new BigInt64Array((await this.read(/** @type {Clock} */ (clock).ticks)).buffer);
            /** @type {[string, number | null][]} */
            const passes = names.map((name, i) => [name, ticks && Number(ticks[2 * i + 1] - ticks[2 * i])]);
            return { passes, wall };
        } finally {
            const used = /** @type {Clock | null} */ (/** @type {unknown} */ (clock));
            used?.queries.destroy();
            used?.ticks.destroy();
        }
    }
}

/** @typedef {{ queries: GPUQuerySet, ticks: GPUBuffer }} Clock */

/**
 * Runs what whet.gpu.portable encoded on a session that stays open. Its buffers are gone afterwards.
 * @param {Session} session
 * @param {Request} request
 * @param {AbortSignal} [signal]
 */
export async function runRequest(session, request, signal) {
    const pipelines = await session.compile(request.kernels, signal);
    const [contents, uploads] = await Promise.all([fetched(request.contents), fetched(request.uploads)]);
    const buffers = await session.allocate(request.buffers);
    try {
        for (const [name, bytes] of Object.entries(contents)) await session.write(buffers[name], bytes);
        const { submissions, timed } = request;
        const ran = await session.run({ submissions, pipelines, buffers, uploads, timed, signal });
        /** @type {Record<string, Uint8Array>} */
        const outputs = {};
        for (const name of request.outputs) outputs[name] = await session.read(buffers[name]);
        const messages = pipelines.flatMap((one) => one.messages);
        return { outputs, ...ran, adapter: session.adapter, messages };
    } finally {
        session.release(buffers);
    }
}

/** The session of this page, opened by its first run; runs take turns on it.
 * @type {Session | null} */
let session = null;
/** @type {GPU | undefined} */
let sessionOf;
/** @type {Promise<unknown>} */
let turn = Promise.resolve();

export function currentSession() {
    return session;
}

/** Gives the page's device up, whatever it is doing: the next run opens a new one. */
export function resetSession() {
    session?.close();
    session = null;
    turn = Promise.resolve();
}

/**
 * `runRequest` on the page's session, answered as JSON: outputs as base64, a failure as `{ fault }`.
 * @param {Request} request
 * @param {GPU | undefined} [gpu]
 */
export function runProgram(request, gpu = globalThis.navigator?.gpu) {
    const mine = turn.then(async () => {
        try {
            if (!session || session.lost || sessionOf !== gpu) [session, sessionOf] = [await Session.open(gpu), gpu];
            const answer = await runRequest(session, request);
            const outputs = Object.entries(answer.outputs).map(([name, bytes]) => [name, toBase64(bytes)]);
            return { ...answer, outputs: Object.fromEntries(outputs) };
        } catch (error) {
            return { fault: Fault.of(error).toJSON() };
        }
    });
    turn = mine.catch(() => null);
    return mine;
}

/**
 * @param {GPUDevice} device
 * @param {Kernel} kernel
 * @returns {Promise<Compiled>}
 */
async function build(device, { source, entry, constants }) {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label: entry, code: source });
    const complaint = device.popErrorScope();
    const messages = [];
    // Read first: building a pipeline from a module that did not compile wedges some devices.
    for (const said of (await module.getCompilationInfo()).messages) {
        if (said.type === "error") throw new Fault("shader", said.message, { kernel: entry, line: said.lineNum });
        messages.push(`${entry}:${said.lineNum}: ${said.type}: ${said.message}`);
    }
    const invalid = await complaint;
    if (invalid) throw new Fault("shader", invalid.message, { kernel: entry, line: null });
    try {
        const compute = { module, entryPoint: entry, constants };
        return { pipeline: await device.createComputePipelineAsync({ label: entry, layout: "auto", compute }), messages };
    } catch (error) {
        throw new Fault("shader", String(/** @type {any} */ (error).message), { kernel: entry, line: null });
    }
}

/**
 * @param {GPUDevice} device
 * @param {number} passes
 * @returns {Clock}
 */
function makeClock(device, passes) {
    const queries = device.createQuerySet({ type: "timestamp", count: 2 * passes });
    const ticks = device.createBuffer({ size: 16 * passes, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    return { queries, ticks };
}

/**
 * @param {GPUDevice} device
 * @param {GPUCommandEncoder} encoder
 * @param {Step[]} steps
 * @param {Buffers} buffers
 * @param {Compiled[]} pipelines
 * @param {Clock | null} clock
 */
function record(device, encoder, steps, buffers, pipelines, clock) {
    /** @type {GPUComputePassEncoder | null} */
    let pass = null;
    let index = 0;
    for (const step of steps) {
        if ("pass" in step) {
            pass ??= encoder.beginComputePass({ label: step.pass, ...(clock && { timestampWrites: stamps(clock, index) }) });
            dispatch(device, pass, step, buffers, pipelines[step.kernel].pipeline);
            index++;
        }
        // A pass is timed alone, and neither clears nor copies can be inside one.
        if (pass && (clock || !("pass" in step))) {
            pass.end();
            pass = null;
        }
        if ("clear" in step) {
            encoder.clearBuffer(buffers[step.clear], step.offset, step.size ?? undefined);
        } else if ("copy" in step) {
            const { copy, source_offset, target, target_offset, size } = step;
            encoder.copyBufferToBuffer(buffers[copy], source_offset, buffers[target], target_offset, size);
        }
    }
    if (pass) pass.end();
}

/**
 * @param {Clock} clock
 * @param {number} index
 */
function stamps({ queries }, index) {
    return { querySet: queries, beginningOfPassWriteIndex: 2 * index, endOfPassWriteIndex: 2 * index + 1 };
}

/**
 * @param {GPUDevice} device
 * @param {GPUComputePassEncoder} pass
 * @param {PassStep} step
 * @param {Buffers} buffers
 * @param {GPUComputePipeline} pipeline
 */
function dispatch(device, pass, step, buffers, pipeline) {
    const entries = step.bindings.map(({ buffer, offset, size }, binding) => ({
        binding,
        resource: { buffer: buffers[buffer], offset, size: size ?? undefined },
    }));
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    if (step.indirect) pass.dispatchWorkgroupsIndirect(buffers[step.indirect[0]], step.indirect[1]);
    else if (step.workgroups) pass.dispatchWorkgroups(step.workgroups[0], step.workgroups[1], step.workgroups[2]);
}

/**
 * The bytes of each buffer, from base64, as they are, or from where they are to be had.
 * @param {Record<string, Carried>} sent
 */
async function fetched(sent) {
    /** @type {(one: [string, Carried]) => Promise<[string, Uint8Array]>} */
    const one = async ([name, from]) => [name, await bytesOf(from)];
    return Object.fromEntries(await Promise.all(Object.entries(sent).map(one)));
}

/** @param {Carried} from */
async function bytesOf(from) {
    if (from instanceof Uint8Array) return from;
    if (typeof from === "string") return Uint8Array.from(atob(from), (c) => c.charCodeAt(0));
    const answer = await fetch(from.url);
    if (!answer.ok) throw new Error(`${from.url} gave ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
}

/**
 * Typings tell a buffer that several threads share apart; WebGPU takes it as well.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array<ArrayBuffer>}
 */
function plain(bytes) {
    return /** @type {Uint8Array<ArrayBuffer>} */ (bytes);
}

/** @param {Uint8Array} bytes */
function toBase64(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
}
