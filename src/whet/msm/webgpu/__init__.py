"""The MSM on WebGPU: own WGSL, the same text in a browser."""
