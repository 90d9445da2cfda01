// Keys and values as they are computed with: four are sixteen bytes.
@group(0) @binding(2) var<storage, read> keys: array<vec4u>;
@group(0) @binding(3) var<storage, read> values: array<vec4u>;

fn from_kv(words: vec4u) -> vec4f { return bitcast<vec4f>(words); }
