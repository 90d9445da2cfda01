"""The process that runs one program under Dawn: a request on stdin, its answer on stdout. See whet.gpu.dawn.

pydawn is a thin shell around Dawn's C interface. What it lacks (clearing, indirect dispatch, constants, browser limits)
is called here directly.
"""

from __future__ import annotations

import base64
import ctypes
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from whet.gpu import driver

WHOLE = 2**64 - 1


class Fault(Exception):
    """Becomes the `fault` of the answer."""

    def __init__(self, kind: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.answer = {"fault": {"kind": kind, "message": message, **more}}


class Session:
    """One device with one program on it. The process ends afterwards, so nothing is released."""

    def __init__(self) -> None:
        from pydawn import utils, webgpu

        self.utils, self.c = utils, webgpu
        try:
            self.adapter = utils.request_adapter_sync(webgpu.WGPUPowerPreference_HighPerformance)
        except RuntimeError as error:
            raise Fault("adapter", str(error)) from None
        self.timed = any("TimestampQuery" in name for name in utils.supported_features(self.adapter))
        self.device = self._open()

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.timed = self.timed and request["timed"]
        pipelines = [self._pipeline(kernel, number) for number, kernel in enumerate(request["kernels"])]
        self._push()
        buffers = {name: self._buffer(size) for name, size in request["buffers"].items()}
        # An allocation that failed gives an error buffer; writing to it would only bury the reason.
        self._pop()
        for name, text in request["contents"].items():
            self.utils.write_buffer(self.device, buffers[name], 0, base64.b64decode(text))
        uploads = {name: base64.b64decode(text) for name, text in request["uploads"].items()}
        passes: list[list[Any]] = []
        walls: list[int] = []
        for submission in request["submissions"]:
            for write in submission["writes"]:
                first = write["upload_offset"]
                part = uploads[write["upload"]][first : first + write["size_bytes"]]
                self.utils.write_buffer(self.device, buffers[write["buffer"]], write["buffer_offset"], part)
            names = [step["pass"] for step in submission["steps"] if "pass" in step]
            start_ns = time.monotonic_ns()
            ticks = self._execute(submission["steps"], buffers, pipelines, len(names))
            walls.append(time.monotonic_ns() - start_ns)
            passes += [[name, ticks[2 * i + 1] - ticks[2 * i] if ticks else None] for i, name in enumerate(names)]
        outputs = {name: bytes(self.utils.read_buffer(self.device, buffers[name])) for name in request["outputs"]}
        return {
            "outputs": {name: base64.b64encode(data).decode() for name, data in outputs.items()},
            "passes": passes,
            "walls": walls,
            "adapter": self._facts(),
            "messages": [],
        }

    def _execute(
        self, steps: list[dict[str, Any]], buffers: dict[str, Any], pipelines: list[Any], passes: int
    ) -> list[int]:
        """Submits the steps as one command buffer and waits; returns the ticks in nanoseconds, if there are any."""
        c, utils = self.c, self.utils
        self._push()
        queries = None
        if self.timed and passes:
            queries = utils.create_query_set(self.device, c.WGPUQueryType_Timestamp, 2 * passes)
            usage = c.WGPUBufferUsage_QueryResolve | c.WGPUBufferUsage_CopySrc
            resolved = utils.create_buffer(self.device, 16 * passes, usage)
        encoder = utils.create_command_encoder(self.device)
        index, recorded = 0, None
        for step in steps:
            if "pass" in step:
                writes = queries and {
                    "query_set": queries,
                    "beginning_of_pass_write_index": 2 * index,
                    "end_of_pass_write_index": 2 * index + 1,
                }
                if recorded is None:
                    recorded = utils.begin_compute_pass(encoder, writes)
                self._dispatch(recorded, step, buffers, pipelines[step["kernel"]])
                index += 1
            # A pass is timed alone, and neither clears nor copies can be inside one.
            if recorded is not None and (queries is not None or "pass" not in step):
                utils.end_compute_pass(recorded)
                recorded = None
            if "clear" in step:
                size = WHOLE if step["size"] is None else step["size"]
                c.wgpuCommandEncoderClearBuffer(encoder, buffers[step["clear"]], step["offset"], size)
            elif "copy" in step:
                c.wgpuCommandEncoderCopyBufferToBuffer(
                    encoder,
                    buffers[step["copy"]],
                    step["source_offset"],
                    buffers[step["target"]],
                    step["target_offset"],
                    step["size"],
                )
        if recorded is not None:
            utils.end_compute_pass(recorded)
        if queries is not None:
            utils.resolve_query_set(encoder, queries, 0, 2 * passes, resolved, 0)
        utils.submit(self.device, [utils.command_encoder_finish(encoder)])
        utils.sync(self.device)
        self._pop()
        return list(utils.read_buffer(self.device, resolved).cast("q")) if queries is not None else []

    def _dispatch(self, recorded: Any, step: dict[str, Any], buffers: dict[str, Any], pipeline: Any) -> None:
        c, utils = self.c, self.utils
        entries = [
            {
                "binding": number,
                "resource": {
                    "buffer": buffers[one["buffer"]],
                    "offset": one["offset"],
                    "size": WHOLE if one["size"] is None else one["size"],
                },
            }
            for number, one in enumerate(step["bindings"])
        ]
        layout = c.wgpuComputePipelineGetBindGroupLayout(pipeline, 0)
        bound = utils.create_bind_group(self.device, layout, entries, validate=False)
        utils.set_pipeline(recorded, pipeline)
        utils.set_bind_group(recorded, bound)
        if step["indirect"] is not None:
            name, offset = step["indirect"]
            c.wgpuComputePassEncoderDispatchWorkgroupsIndirect(recorded, buffers[name], offset)
        else:
            utils.dispatch_workgroups(recorded, *step["workgroups"])

    def _open(self) -> Any:
        """A device with the limits that every browser grants: none are asked for."""
        c, utils = self.c, self.utils
        asked = c.WGPUDeviceDescriptor()
        features = (c.WGPUFeatureName * 1)(c.WGPUFeatureName_TimestampQuery)
        asked.requiredFeatureCount = 1 if self.timed else 0
        asked.requiredFeatures = ctypes.cast(features, ctypes.POINTER(c.WGPUFeatureName))
        # Dawn rounds timestamps to 65 microseconds unless told not to.
        names = {which: utils.to_c_string(which) for which in ("allow_unsafe_apis", "timestamp_quantization")}
        toggles = c.WGPUDawnTogglesDescriptor()
        toggles.chain.sType = c.WGPUSType_DawnTogglesDescriptor
        pointers = {name: ctypes.cast(text, ctypes.POINTER(ctypes.c_char)) for name, text in names.items()}
        toggles.enabledToggleCount = toggles.disabledToggleCount = 1
        toggles.enabledToggles = ctypes.pointer(pointers["allow_unsafe_apis"])
        toggles.disabledToggles = ctypes.pointer(pointers["timestamp_quantization"])
        asked.nextInChain = ctypes.cast(ctypes.pointer(toggles), ctypes.POINTER(c.struct_WGPUChainedStruct))
        result = utils.ResultContainer()

        def opened(status: int, device: Any, message: Any, _: Any) -> None:
            result.status, result.value, result.msg = status, device, utils.from_wgpu_str(message)

        told = c.WGPURequestDeviceCallbackInfo()
        told.mode = c.WGPUCallbackMode_WaitAnyOnly
        told.callback = c.WGPURequestDeviceCallback(opened)
        utils.wait(c.wgpuAdapterRequestDeviceF(self.adapter, asked, told))
        if result.status != c.WGPURequestDeviceStatus_Success:
            raise Fault("adapter", f"no device: {result.msg}")
        return result.value

    def _buffer(self, size: int) -> Any:
        c = self.c
        usage = c.WGPUBufferUsage_CopySrc | c.WGPUBufferUsage_CopyDst | c.WGPUBufferUsage_Storage
        usage |= c.WGPUBufferUsage_Uniform | c.WGPUBufferUsage_Indirect
        return self.utils.create_buffer(self.device, size, usage)

    def _pipeline(self, kernel: Mapping[str, Any], number: int) -> Any:
        c, utils = self.c, self.utils
        try:
            # pydawn counts characters where Dawn wants bytes; outside of comments WGSL is ASCII.
            module = utils.create_shader_module(self.device, kernel["source"].encode("ascii", "replace").decode())
        except RuntimeError as error:
            raise _shader_fault(kernel["entry"], number, str(error)) from None
        asked = c.WGPUComputePipelineDescriptor()
        asked.compute.module = module
        asked.compute.entryPoint = utils.to_wgpu_str(kernel["entry"])
        entries = []
        for name, value in kernel["constants"].items():
            entry = c.WGPUConstantEntry()
            entry.key, entry.value = utils.to_wgpu_str(name), float(value)
            entries.append(entry)
        constants = (c.WGPUConstantEntry * max(1, len(entries)))(*entries)
        asked.compute.constantCount = len(entries)
        asked.compute.constants = ctypes.cast(constants, ctypes.POINTER(c.struct_WGPUConstantEntry))
        c.wgpuDevicePushErrorScope(self.device, c.WGPUErrorFilter_Validation)
        pipeline = c.wgpuDeviceCreateComputePipeline(self.device, asked)
        if said := utils.pop_error(self.device):
            raise _shader_fault(kernel["entry"], number, said)
        return pipeline

    def _push(self) -> None:
        self.c.wgpuDevicePushErrorScope(self.device, self.c.WGPUErrorFilter_OutOfMemory)
        self.c.wgpuDevicePushErrorScope(self.device, self.c.WGPUErrorFilter_Validation)

    def _pop(self) -> None:
        invalid, full = self.utils.pop_error(self.device), self.utils.pop_error(self.device)
        if full:
            raise Fault("memory", full)
        if invalid:
            raise Fault("memory" if "exceeds the max buffer size" in invalid else "device", invalid)

    def _facts(self) -> dict[str, Any]:
        info = self.c.WGPUAdapterInfo()
        self.c.wgpuAdapterGetInfo(self.adapter, info)
        text = self.utils.from_wgpu_str
        return {
            "vendor": text(info.vendor),
            "architecture": text(info.architecture),
            "device": text(info.device),
            "description": text(info.description),
            "fallback": info.adapterType == self.c.WGPUAdapterType_CPU,
        }


def _shader_fault(entry: str, number: int, said: str) -> Fault:
    where = re.search(r":(\d+):\d+ error", said)
    return Fault("shader", said, kernel=entry, number=number, line=int(where.group(1)) if where else None)


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read())
    driver.activate()
    try:
        answer = Session().run(request)
    except Fault as fault:
        answer = fault.answer
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
