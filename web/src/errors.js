// Every refusal is one of these: a cause, and a cure. The names are those of whet.errors.

/** What went wrong and what to do about it. */
export class MsmError extends Error {
    /**
     * @param {string} cause
     * @param {string} cure
     */
    constructor(cause, cure) {
        super(cure ? `${cause}; ${cure}` : cause);
        this.name = new.target.name;
        this.reason = cause;
        this.cure = cure;
    }
}

/** Points, scalars, a file or an option that cannot be meant. `index` is the first bad one, where there is one. */
export class BadInput extends MsmError {
    /**
     * @param {string} cause
     * @param {string} cure
     * @param {number | null} [index]
     */
    constructor(cause, cure, index = null) {
        super(cause, cure);
        this.index = index;
    }
}

/** This browser has no WebGPU, no adapter, or one that is not believed. */
export class Unsupported extends MsmError {}

/** The device failed. The kinds below say how. */
export class DeviceError extends MsmError {}
export class DeviceLost extends DeviceError {}
export class DeviceOutOfMemory extends DeviceError {}
export class ShaderError extends DeviceError {}
/** An answer that cannot be right. */
export class WrongAnswer extends DeviceError {}

/**
 * A fault of the runner, as one of these. Anything else (an aborted signal's reason, a bug) is thrown as it is.
 * @param {any} error
 */
export function typed(error) {
    if (error?.name !== "Fault") return error;
    const first = String(error.message).split("\n")[0];
    switch (error.kind) {
        case "adapter":
            return new Unsupported(`there is no WebGPU here: ${first}`, "give `fallback`, or use a browser with WebGPU on a secure page (https or localhost)");
        case "lost":
            return new DeviceLost(`the device was lost: ${first}`, "call again: a new device is opened");
        case "memory":
            return new DeviceOutOfMemory(`the device is out of memory: ${first}`, "lower memoryBudget, or use fewer points");
        case "shader":
            return new ShaderError(`kernel ${error.more?.kernel} does not compile: ${first}`, "try another variant, or give `fallback`");
        default:
            return new DeviceError(`the device refused: ${first}`, "try another variant, or give `fallback`");
    }
}
