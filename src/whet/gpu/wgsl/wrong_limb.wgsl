// Changes one word of a buffer between two passes, as a driver might that answers wrongly: for tests of the checks.

override word: u32;
override mask: u32;

@group(0) @binding(0) var<storage, read_write> memory: array<u32>;

@compute @workgroup_size(1) fn wrong_limb() { memory[word] ^= mask; }
