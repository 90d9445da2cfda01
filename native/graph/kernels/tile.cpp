// Square tiles, row-major: the batched product with its sum (float32), and the four steps of a lower Cholesky
// (float64). Plain loops in an order that the compiler vectorises; no blocking below the tile, which fits the first
// cache.
#include <cmath>
#include <cstddef>

#include "graph/kernels/kernels.hpp"

namespace whet::graph::kernel {

int product(Tensors tensors, Scalars scalars, void*) {
    const std::size_t rows = scalars[0], tile = scalars[1];
    for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t offset = r * tile * tile;
        const float* a = static_cast<const float*>(tensors[0]) + offset;
        const float* b = static_cast<const float*>(tensors[1]) + offset;
        float* out = static_cast<float*>(tensors[3]) + offset;
        for (std::size_t i = 0; i < tile; ++i) {
            for (std::size_t j = 0; j < tile; ++j) out[i * tile + j] = 0;
            for (std::size_t k = 0; k < tile; ++k) {
                const float factor = a[i * tile + k];
                for (std::size_t j = 0; j < tile; ++j) out[i * tile + j] += factor * b[k * tile + j];
            }
        }
    }
    return 0;
}

int add(Tensors tensors, Scalars scalars, void*) {
    const std::size_t count = scalars[0] * scalars[1] * scalars[1];
    auto* c = static_cast<float*>(tensors[0]);
    const auto* partial = static_cast<const float*>(tensors[1]);
    for (std::size_t i = 0; i < count; ++i) c[i] += partial[i];
    return 0;
}

// Fails with the row (from 1) whose pivot is not positive: the matrix is not positive definite.
int potrf(Tensors tensors, Scalars scalars, void*) {
    const std::size_t n = scalars[0];
    auto* a = static_cast<double*>(tensors[0]);
    for (std::size_t j = 0; j < n; ++j) {
        double pivot = a[j * n + j];
        for (std::size_t k = 0; k < j; ++k) pivot -= a[j * n + k] * a[j * n + k];
        if (!(pivot > 0)) return static_cast<int>(j) + 1;
        pivot = std::sqrt(pivot);
        a[j * n + j] = pivot;
        for (std::size_t i = j + 1; i < n; ++i) {
            double sum = a[i * n + j];
            for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = sum / pivot;
            a[j * n + i] = 0;
        }
    }
    return 0;
}

// below := below * diagonal^-T
int trsm(Tensors tensors, Scalars scalars, void*) {
    const std::size_t n = scalars[0];
    const auto* l = static_cast<const double*>(tensors[0]);
    auto* b = static_cast<double*>(tensors[1]);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            double sum = b[i * n + j];
            for (std::size_t k = 0; k < j; ++k) sum -= b[i * n + k] * l[j * n + k];
            b[i * n + j] = sum / l[j * n + j];
        }
    }
    return 0;
}

// target := target - row * column^T
int gemm(Tensors tensors, Scalars scalars, void*) {
    const std::size_t n = scalars[0];
    const auto* row = static_cast<const double*>(tensors[0]);
    const auto* column = static_cast<const double*>(tensors[1]);
    auto* target = static_cast<double*>(tensors[2]);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::size_t k = 0; k < n; ++k) sum += row[i * n + k] * column[j * n + k];
            target[i * n + j] -= sum;
        }
    }
    return 0;
}

// diagonal := diagonal - row * row^T
int syrk(Tensors tensors, Scalars scalars, void* user) {
    void* const all[] = {tensors[0], tensors[0], tensors[1]};
    return gemm(all, scalars, user);
}

}  // namespace whet::graph::kernel
