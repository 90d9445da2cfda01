// The form in which anything travels: the header's length, the header as JSON, the bytes of its parts back to back.

/** One body of a header and named parts (Uint8Array each). */
export function pack(header, parts = {}) {
    const named = Object.entries(parts).map(([name, bytes]) => [name, bytes.byteLength]);
    const head = new TextEncoder().encode(JSON.stringify(named.length ? { ...header, parts: named } : header));
    const body = new Uint8Array(4 + head.length + named.reduce((sum, [, size]) => sum + size, 0));
    new DataView(body.buffer).setUint32(0, head.length, true);
    body.set(head, 4);
    let at = 4 + head.length;
    for (const bytes of Object.values(parts)) {
        body.set(bytes, at);
        at += bytes.byteLength;
    }
    return body;
}

/** Header and parts of a body; the parts are views of it. */
export function unpack(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    const parts = {};
    let at = 4 + size;
    for (const [name, length] of header.parts ?? []) {
        // A copy starts where WebGPU wants it: at a multiple of four.
        parts[name] = new Uint8Array(buffer.slice(at, at + length));
        at += length;
    }
    return { header, parts };
}
