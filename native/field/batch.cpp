#include "field/batch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

namespace whet {
namespace {

template <class Field>
void invert(Field* out, const Field* a, std::size_t n) {
    constexpr std::size_t slice = 1024;  // 32 KB of scratch; the shared inversion is then 2 % of the work
    std::vector<Field> scratch(std::min(slice, n));
    for (std::size_t start = 0; start < n; start += slice) {
        const std::size_t count = std::min(slice, n - start);
        if (out != a) std::copy_n(a + start, count, out + start);
        invert_all<Field>({out + start, count}, {scratch.data(), count});
    }
}

template <class Field>
constexpr BatchOperations<Field> portable = {
    .name = "portable",
    .usable = [] { return true; },
    .add =
        [](Field* out, const Field* a, const Field* b, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
        },
    .subtract =
        [](Field* out, const Field* a, const Field* b, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) out[i] = a[i] - b[i];
        },
    .multiply =
        [](Field* out, const Field* a, const Field* b, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
        },
    .square =
        [](Field* out, const Field* a, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) out[i] = a[i].squared();
        },
    .invert = invert<Field>,
};

template <class Field>
constexpr std::array<const BatchOperations<Field>*, 1> backends = {&portable<Field>};

template <class Field>
std::atomic<const BatchOperations<Field>*> chosen = nullptr;

}  // namespace

template <class Field>
std::span<const BatchOperations<Field>* const> batch_backends() {
    return backends<Field>;
}

template <class Field>
const BatchOperations<Field>& batch_operations() {
    if (const auto* operations = chosen<Field>.load(std::memory_order_relaxed)) return *operations;
    for (const auto* candidate : backends<Field>) {
        if (candidate->usable()) return *candidate;
    }
    return portable<Field>;
}

template <class Field>
bool select_batch_backend(std::string_view name) {
    for (const auto* candidate : backends<Field>) {
        if (name == candidate->name && candidate->usable()) {
            chosen<Field>.store(candidate, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

template std::span<const BatchOperations<Fp>* const> batch_backends<Fp>();
template std::span<const BatchOperations<Fr>* const> batch_backends<Fr>();
template const BatchOperations<Fp>& batch_operations<Fp>();
template const BatchOperations<Fr>& batch_operations<Fr>();
template bool select_batch_backend<Fp>(std::string_view);
template bool select_batch_backend<Fr>(std::string_view);

}  // namespace whet
