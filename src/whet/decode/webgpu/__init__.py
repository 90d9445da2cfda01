"""The decode layer on WebGPU: own WGSL, one dispatch per dependency, the same text in a browser."""
