// @whet/msm: multi-scalar multiplication over BN254 G1 on WebGPU.
export { Closed, Msm } from "./msm.js";
export { Point } from "./point.js";
export { BadInput, DeviceError, DeviceLost, DeviceOutOfMemory, MsmError, ShaderError, Unsupported, WrongAnswer } from "./errors.js";
export { ffjavascriptFallback, nobleFallback } from "./fallback.js";
export { describeFile, readSection } from "./files.js";
export { DIGEST, SHA256, VERSION } from "./generated/wgsl.js";
