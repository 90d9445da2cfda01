// Task bodies that come with the runtime: for overhead, for order checks, and the real work of the named workloads.
//
// All have the signature of a task body. Sizes come as scalar words; a double travels as its bits.
#pragma once

#include <cstdint>
#include <span>

namespace whet::graph {

struct Kernel {
    const char* name;
    int (*call)(void* const* tensors, const std::uint64_t* scalars, void* user);
    const char* tensors;  // what it expects, in order
    const char* scalars;
};

// Every kernel, by name.
std::span<const Kernel> kernels();

namespace kernel {

using Tensors = void* const*;
using Scalars = const std::uint64_t*;

// overhead and order: probe.cpp
int empty(Tensors, Scalars, void*);
int spin(Tensors, Scalars, void* duration_ns);
int spin_tail(Tensors, Scalars scalars, void* mean_ns);
int device(Tensors, Scalars scalars, void* state);
int mix(Tensors, Scalars, void* state);

// paged attention, bfloat16 in and float32 sums: attention.cpp
int scores(Tensors, Scalars, void*);
int softmax(Tensors, Scalars, void*);
int weighted_values(Tensors, Scalars, void*);
int update(Tensors, Scalars, void*);

// tiles, row-major: tile.cpp
int product(Tensors, Scalars, void*);
int add(Tensors, Scalars, void*);
int potrf(Tensors, Scalars, void*);
int trsm(Tensors, Scalars, void*);
int syrk(Tensors, Scalars, void*);
int gemm(Tensors, Scalars, void*);

}  // namespace kernel

}  // namespace whet::graph
