// Keys and values as e4m3: four are one word, the lowest byte first.
//# import e4m3

@group(0) @binding(2) var<storage, read> keys: array<u32>;
@group(0) @binding(3) var<storage, read> values: array<u32>;

fn from_kv(word: u32) -> vec4f { return from_e4m3(word); }
