// Paged attention of one query head per workgroup: 256 tokens at a time, online softmax from tile to tile.
// Against one workgroup per KV head, the query heads of a group read its keys and values again, from the cache.
// Should buy `group` times as many workgroups, of which batch 1 has few; an invocation scores a token of its own, and
// then a slice of tokens and four dimensions. Presses on workgroup memory: 14 KiB at up to 1,024 dimensions.

//# import kv_${kv_type}
//# import exponential

struct Params {
    group: u32,        // query heads of a KV head
    quads: u32,        // head_dim / 4
    kv_heads: u32,
    q_quads: u32,      // q_heads * head_dim / 4
    qkv_quads: u32,    // a row of q, k and v
    page_size: u32,
    table_width: u32,
    batch: u32,
    own_token: u32,
    rotary: u32,
    gated: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> qkv: array<vec4f>;
@group(0) @binding(4) var<storage, read> index: array<u32>;   // lengths, then the page table
@group(0) @binding(5) var<storage, read> extras: array<vec4f>;  // gate (batch, q_size), cosine, sine, if there
@group(0) @binding(6) var<storage, read_write> attended: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> own: array<vec4f>;  // k, then v of the new token

const SIZE = 256u;
const OWN = 0xffffffffu;
const LOWEST = -3.4028234e38;  // finite: what a shader makes of infinities is the device's affair

var<workgroup> query: array<vec4f, SIZE>;
var<workgroup> own_key: array<vec4f, SIZE>;
var<workgroup> merged: array<vec4f, SIZE>;
var<workgroup> weight: array<f32, SIZE>;
var<workgroup> place: array<u32, SIZE>;
var<workgroup> highest: array<f32, 16>;

// Four elements of the vector at `origin`, turned by the angles of sequence b.
fn rotated(origin: u32, quad: u32, b: u32) -> vec4f {
    let value = qkv[origin + quad];
    if (params.rotary == 0u) { return value; }
    let half = params.quads / 2u;
    let angles = select(0u, params.batch * params.q_quads, params.gated != 0u);
    let at = angles + b * half + quad % half;
    let cosine = extras[at];
    let sine = extras[at + params.batch * half];
    let first = quad < half;
    let other = qkv[origin + select(quad - half, quad + half, first)];
    return value * cosine + other * select(sine, -sine, first);
}

// exp(score - top), 0 where that is too small and for a score of -infinity.
fn softened(score: f32, top: f32) -> f32 { return exponential(score - top); }

@compute @workgroup_size(256)
fn attend(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let b = group.y;
    let kv_head = head / params.group;
    let quads = params.quads;
    let row = b * params.qkv_quads;
    let key_at = row + params.q_quads + kv_head * quads;
    let value_at = key_at + params.kv_heads * quads;
    if (local < quads) {
        query[local] = rotated(row + head * quads, local, b);
        if (params.own_token != 0u) {
            let key = rotated(key_at, local, b);
            own_key[local] = key;
            if (head % params.group == 0u) {
                let at = (b * params.kv_heads + kv_head) * quads + local;
                own[at] = key;
                own[params.batch * params.kv_heads * quads + at] = qkv[value_at + local];
            }
        }
    }
    let cached = index[b];
    let tokens = cached + params.own_token;
    // In the second half of a tile an invocation is one of `quads` lanes of one of `slices` of the tokens.
    let slices = SIZE / quads;
    let slice = local / quads;
    let lane = local % quads;
    var top = LOWEST;
    var total = 0.0;
    var sum = vec4f();
    workgroupBarrier();
    for (var start = 0u; start < tokens; start += SIZE) {
        let count = min(SIZE, tokens - start);
        let token = start + local;
        var score = LOWEST;
        if (token < tokens) {
            var products = vec4f();
            if (token == cached) {
                place[local] = OWN;
                for (var quad = 0u; quad < quads; quad++) { products += own_key[quad] * query[quad]; }
            } else {
                let page = index[params.batch + b * params.table_width + token / params.page_size];
                let origin = ((page * params.page_size + token % params.page_size) * params.kv_heads + kv_head) * quads;
                place[local] = origin;
                for (var quad = 0u; quad < quads; quad++) { products += from_kv(keys[origin + quad]) * query[quad]; }
            }
            score = ((products.x + products.y) + (products.z + products.w)) * params.scale;
        }
        weight[local] = score;
        workgroupBarrier();
        // Bounds that are no constants: unrolled, the two loops take a third of the time to compile the kernel.
        let sixteens = (count + 15u) / 16u;
        if (local < sixteens) {
            var most = LOWEST;
            for (var i = 16u * local; i < min(16u * local + 16u, count); i++) { most = max(most, weight[i]); }
            highest[local] = most;
        }
        workgroupBarrier();
        var most = top;
        for (var i = 0u; i < sixteens; i++) { most = max(most, highest[i]); }
        let keep = softened(top, most);
        top = most;
        weight[local] = select(0.0, softened(score, top), token < tokens);
        workgroupBarrier();
        total *= keep;
        sum *= keep;
        if (slice < slices) {
            for (var i = slice; i < count; i += slices) {
                total += weight[i];
                if (place[i] == OWN) {
                    sum += weight[i] * qkv[value_at + lane];
                } else {
                    sum += weight[i] * from_kv(values[place[i] + lane]);
                }
            }
        }
        workgroupBarrier();
    }
    merged[local] = sum;
    weight[local] = total;
    workgroupBarrier();
    if (local < quads) {
        for (var s = 1u; s < slices; s++) {
            sum += merged[s * quads + local];
            total += weight[s * quads + local];
        }
        // Without a token there is nothing to attend to.
        var answer = vec4f();
        if (total != 0.0) { answer = sum / total; }
        let at = b * params.q_quads + head * quads + local;
        if (params.gated != 0u) {
            let gate = extras[at];
            answer *= vec4f(sigmoid(gate.x), sigmoid(gate.y), sigmoid(gate.z), sigmoid(gate.w));
        }
        attended[at] = answer;
    }
}
