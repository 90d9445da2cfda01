/* A dot product twice: one sum in order, and four sums side by side that the compiler can keep in vector registers. */
#include <stddef.h>

void dot_plain(const double* x, const double* y, size_t n, double* result) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    *result = sum;
}

void dot_four(const double* x, const double* y, size_t n, double* result) {
    double sums[4] = {0, 0, 0, 0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t lane = 0; lane < 4; lane++) sums[lane] += x[i + lane] * y[i + lane];
    for (; i < n; i++) sums[0] += x[i] * y[i];
    *result = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
