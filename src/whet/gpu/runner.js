// Runs a program that whet.gpu.portable encoded, on this page's WebGPU, and answers in the form its decode reads.
// Each step is one command in one submission, exactly as whet.gpu.device records it.
async function runProgram(request, gpu = navigator.gpu) {
    const messages = [];
    const adapter = gpu && (await gpu.requestAdapter());
    if (!adapter) return { fault: { kind: "adapter", message: gpu ? "requestAdapter gave none" : "no navigator.gpu" } };
    const timed = adapter.features.has("timestamp-query");
    // No limits are asked for: what runs here runs within what every browser grants.
    const device = await adapter.requestDevice({ requiredFeatures: timed ? ["timestamp-query"] : [] });
    let lost = null;
    device.lost.then((info) => (lost = info));
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    try {
        const pipelines = await compile(device, request.kernels, messages);
        const buffers = allocate(device, request);
        const passes = request.steps.filter((step) => "pass" in step);
        const clock = timed && passes.length ? makeClock(device, passes.length) : null;
        const encoder = device.createCommandEncoder();
        let index = 0;
        for (const step of request.steps) record(device, encoder, step, buffers, pipelines, clock, "pass" in step ? index++ : 0);
        if (clock) encoder.resolveQuerySet(clock.queries, 0, 2 * passes.length, clock.ticks, 0);
        device.queue.submit([encoder.finish()]);
        await device.queue.onSubmittedWorkDone();
        const invalid = await device.popErrorScope();
        const full = await device.popErrorScope();
        if (lost) throw { kind: "lost", message: lost.message };
        if (full) throw { kind: "memory", message: full.message };
        if (invalid) throw { kind: "device", message: invalid.message };
        const outputs = {};
        for (const name of request.outputs) outputs[name] = toBase64(await fetchBytes(device, buffers[name]));
        let spent = passes.map(() => null);
        if (clock) {
            const ticks = new BigInt64Array((await fetchBytes(device, clock.ticks)).buffer);
            spent = passes.map((_, i) => Number(ticks[2 * i + 1] - ticks[2 * i]));
        }
        const { vendor, architecture, device: name, description } = adapter.info;
        return {
            outputs,
            passes: passes.map((step, i) => [step.pass, spent[i]]),
            adapter: { vendor, architecture, device: name, description, fallback: adapter.info.isFallbackAdapter },
            messages,
        };
    } catch (error) {
        if (lost) return { fault: { kind: "lost", message: lost.message } };
        return { fault: error.kind ? error : { kind: "device", message: String(error.message || error) } };
    } finally {
        device.destroy();
    }
}

async function compile(device, kernels, messages) {
    const pipelines = [];
    for (const { source, entry, constants } of kernels) {
        const module = device.createShaderModule({ label: entry, code: source });
        // Read first: building a pipeline from a module that did not compile wedges some devices.
        for (const said of (await module.getCompilationInfo()).messages) {
            if (said.type === "error") throw { kind: "shader", kernel: entry, line: said.lineNum, message: said.message };
            messages.push(`${entry}:${said.lineNum}: ${said.type}: ${said.message}`);
        }
        try {
            const compute = { module, entryPoint: entry, constants };
            pipelines.push(await device.createComputePipelineAsync({ label: entry, layout: "auto", compute }));
        } catch (error) {
            throw { kind: "shader", kernel: entry, line: null, message: error.message };
        }
    }
    return pipelines;
}

function allocate(device, request) {
    const use = GPUBufferUsage;
    const usage = use.COPY_SRC | use.COPY_DST | use.STORAGE | use.UNIFORM | use.INDIRECT;
    const buffers = {};
    for (const [label, size] of Object.entries(request.buffers)) buffers[label] = device.createBuffer({ label, size, usage });
    for (const [name, text] of Object.entries(request.contents)) device.queue.writeBuffer(buffers[name], 0, fromBase64(text));
    return buffers;
}

function makeClock(device, passes) {
    return {
        queries: device.createQuerySet({ type: "timestamp", count: 2 * passes }),
        ticks: device.createBuffer({ size: 16 * passes, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC }),
    };
}

function record(device, encoder, step, buffers, pipelines, clock, index) {
    if ("clear" in step) {
        encoder.clearBuffer(buffers[step.clear], step.offset, step.size ?? undefined);
    } else if ("copy" in step) {
        const { copy, source_offset, target, target_offset, size } = step;
        encoder.copyBufferToBuffer(buffers[copy], source_offset, buffers[target], target_offset, size);
    } else {
        const pipeline = pipelines[step.kernel];
        const entries = step.bindings.map(({ buffer, offset, size }, binding) => ({
            binding,
            resource: { buffer: buffers[buffer], offset, size: size ?? undefined },
        }));
        const bound = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
        const timestampWrites = clock && {
            querySet: clock.queries,
            beginningOfPassWriteIndex: 2 * index,
            endOfPassWriteIndex: 2 * index + 1,
        };
        const pass = encoder.beginComputePass({ label: step.pass, ...(clock && { timestampWrites }) });
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, bound);
        if (step.indirect) pass.dispatchWorkgroupsIndirect(buffers[step.indirect[0]], step.indirect[1]);
        else pass.dispatchWorkgroups(...step.workgroups);
        pass.end();
    }
}

async function fetchBytes(device, buffer) {
    const staging = device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    const bytes = new Uint8Array(staging.getMappedRange().slice(0));
    staging.destroy();
    return bytes;
}

function fromBase64(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

function toBase64(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return btoa(text);
}
