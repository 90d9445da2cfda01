// Runs a program that whet.gpu.portable encoded, on this page's WebGPU, and answers in the form its decode reads.
// Submissions are those of the request; each is recorded exactly as whet.gpu.device records it.

// One device for the page, with the pipelines that it has compiled; runs take turns on it.
let session = null;
let turn = Promise.resolve();

function runProgram(request, gpu = navigator.gpu) {
    const mine = turn.then(() => runOnce(request, gpu));
    turn = mine.catch(() => null);
    return mine;
}

// Gives the device up, whatever it is doing: the next run opens a new one.
function resetSession() {
    if (session) session.device.destroy();
    session = null;
    turn = Promise.resolve();
}

async function openSession(gpu) {
    if (session && session.gpu === gpu && !session.lost) return session;
    const adapter = gpu && (await gpu.requestAdapter());
    if (!adapter) throw { kind: "adapter", message: gpu ? "requestAdapter gave none" : "no navigator.gpu" };
    const timed = adapter.features.has("timestamp-query");
    // No limits are asked for: what runs here runs within what every browser grants.
    const device = await adapter.requestDevice({ requiredFeatures: timed ? ["timestamp-query"] : [] });
    const opened = { gpu, device, timed, info: adapter.info, lost: null, pipelines: new Map() };
    device.lost.then((info) => (opened.lost = info));
    return (session = opened);
}

async function runOnce(request, gpu) {
    let opened = null;
    const made = [];
    try {
        opened = await openSession(gpu);
        const { device, info } = opened;
        const compiled = await Promise.all(request.kernels.map((kernel, number) => compile(opened, kernel, number)));
        const pipelines = compiled.map((one) => one.pipeline);
        const sent = { contents: await fetched(request.contents), uploads: await fetched(request.uploads) };
        const [passes, walls, outputs] = await guarded(opened, () => execute(opened, request, sent, pipelines, made));
        return {
            outputs,
            passes,
            walls,
            adapter: {
                vendor: info.vendor,
                architecture: info.architecture,
                device: info.device,
                description: info.description,
                fallback: info.isFallbackAdapter,
            },
            messages: compiled.flatMap((one) => one.messages),
        };
    } catch (error) {
        if (opened?.lost) return { fault: { kind: "lost", message: opened.lost.message } };
        return { fault: error.kind ? error : { kind: "device", message: String(error.message || error) } };
    } finally {
        for (const one of made) one.destroy();
    }
}

// What `work` gives, unless the device complained meanwhile. The scopes are taken off again whatever happens.
async function guarded(opened, work) {
    const { device } = opened;
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    let failed = null;
    const given = await work().catch((error) => ((failed = error), null));
    const invalid = await device.popErrorScope();
    const full = await device.popErrorScope();
    if (opened.lost) throw { kind: "lost", message: opened.lost.message };
    if (full) throw { kind: "memory", message: full.message };
    if (invalid) throw { kind: "device", message: invalid.message };
    if (failed) throw failed;
    return given;
}

// Compiled once per page and kernel; kernels are compiled side by side. A fault names the kernel's number in the request.
async function compile(opened, kernel, number) {
    const key = JSON.stringify(kernel);
    if (!opened.pipelines.has(key)) {
        const built = build(opened.device, kernel);
        built.catch(() => opened.pipelines.delete(key));
        opened.pipelines.set(key, built);
    }
    try {
        return await opened.pipelines.get(key);
    } catch (fault) {
        throw fault.kind ? { ...fault, number } : fault;
    }
}

async function build(device, { source, entry, constants }) {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label: entry, code: source });
    const complaint = device.popErrorScope();
    const messages = [];
    // Read first: building a pipeline from a module that did not compile wedges some devices.
    for (const said of (await module.getCompilationInfo()).messages) {
        if (said.type === "error") throw { kind: "shader", kernel: entry, line: said.lineNum, message: said.message };
        messages.push(`${entry}:${said.lineNum}: ${said.type}: ${said.message}`);
    }
    const invalid = await complaint;
    if (invalid) throw { kind: "shader", kernel: entry, line: null, message: invalid.message };
    try {
        const compute = { module, entryPoint: entry, constants };
        return { pipeline: await device.createComputePipelineAsync({ label: entry, layout: "auto", compute }), messages };
    } catch (error) {
        throw { kind: "shader", kernel: entry, line: null, message: error.message };
    }
}

async function execute({ device, timed }, request, { contents, uploads }, pipelines, made) {
    const buffers = allocate(device, request, contents, made);
    const passes = [];
    const walls = [];
    for (const { writes, steps } of request.submissions) {
        for (const { upload, buffer, size_bytes, upload_offset, buffer_offset } of writes) {
            device.queue.writeBuffer(buffers[buffer], buffer_offset, uploads[upload], upload_offset, size_bytes);
        }
        const names = steps.filter((step) => "pass" in step).map((step) => step.pass);
        const clock = timed && request.timed && names.length ? makeClock(device, names.length, made) : null;
        const encoder = device.createCommandEncoder();
        record(device, encoder, steps, buffers, pipelines, clock);
        if (clock) encoder.resolveQuerySet(clock.queries, 0, 2 * names.length, clock.ticks, 0);
        const start = performance.now();
        device.queue.submit([encoder.finish()]);
        await device.queue.onSubmittedWorkDone();
        walls.push(1e6 * (performance.now() - start));
        const ticks = clock && new BigInt64Array((await fetchBytes(device, clock.ticks)).buffer);
        names.forEach((name, i) => passes.push([name, ticks ? Number(ticks[2 * i + 1] - ticks[2 * i]) : null]));
    }
    const outputs = {};
    for (const name of request.outputs) outputs[name] = toBase64(await fetchBytes(device, buffers[name]));
    return [passes, walls, outputs];
}

// The bytes of each buffer, from base64 or from where they are to be had.
async function fetched(sent) {
    const one = async ([name, from]) => [name, typeof from === "string" ? fromBase64(from) : await bytesAt(from.url)];
    return Object.fromEntries(await Promise.all(Object.entries(sent).map(one)));
}

async function bytesAt(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url} gave ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
}

function allocate(device, request, contents, made) {
    const use = GPUBufferUsage;
    const usage = use.COPY_SRC | use.COPY_DST | use.STORAGE | use.UNIFORM | use.INDIRECT;
    const buffers = {};
    for (const [label, size] of Object.entries(request.buffers)) {
        buffers[label] = device.createBuffer({ label, size, usage });
        made.push(buffers[label]);
    }
    for (const [name, bytes] of Object.entries(contents)) device.queue.writeBuffer(buffers[name], 0, bytes);
    return buffers;
}

function makeClock(device, passes, made) {
    const queries = device.createQuerySet({ type: "timestamp", count: 2 * passes });
    const ticks = device.createBuffer({ size: 16 * passes, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    made.push(queries, ticks);
    return { queries, ticks };
}

function record(device, encoder, steps, buffers, pipelines, clock) {
    let pass = null;
    let index = 0;
    for (const step of steps) {
        if ("pass" in step) {
            pass ??= encoder.beginComputePass({ label: step.pass, ...(clock && { timestampWrites: stamps(clock, index) }) });
            dispatch(device, pass, step, buffers, pipelines[step.kernel]);
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

function stamps({ queries }, index) {
    return { querySet: queries, beginningOfPassWriteIndex: 2 * index, endOfPassWriteIndex: 2 * index + 1 };
}

function dispatch(device, pass, step, buffers, pipeline) {
    const entries = step.bindings.map(({ buffer, offset, size }, binding) => ({
        binding,
        resource: { buffer: buffers[buffer], offset, size: size ?? undefined },
    }));
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    if (step.indirect) pass.dispatchWorkgroupsIndirect(buffers[step.indirect[0]], step.indirect[1]);
    else pass.dispatchWorkgroups(...step.workgroups);
}

async function fetchBytes(device, buffer) {
    const staging = device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    try {
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
        device.queue.submit([encoder.finish()]);
        await staging.mapAsync(GPUMapMode.READ);
        return new Uint8Array(staging.getMappedRange().slice(0));
    } finally {
        staging.destroy();
    }
}

function fromBase64(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

function toBase64(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
}
