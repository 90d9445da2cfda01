// Arrays of limbs between numpy and the core. Inputs are read in place; outputs own their memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace whet::bind {

namespace nb = nanobind;

// (n, Columns) of uint64, C-contiguous, on the host.
template <std::size_t Columns>
using Rows =
    nb::ndarray<const std::uint64_t, nb::shape<-1, static_cast<nb::ssize_t>(Columns)>, nb::c_contig, nb::device::cpu>;

// Views the rows as elements of T, whose bytes are exactly one row.
template <class T>
std::span<const T> elements(const Rows<sizeof(T) / sizeof(std::uint64_t)>& rows) {
    static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
    const auto* data = rows.data();
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0) {
        throw nb::value_error("array is not aligned to 8 bytes");
    }
    return {reinterpret_cast<const T*>(data), rows.shape(0)};
}

template <class A, class B>
void require_same_length(const A& a, const B& b) {
    if (a.size() != b.size()) throw nb::value_error("arrays differ in length");
}

// A fresh numpy array of n elements of T and the span that fills it.
template <class T, class Element = std::uint64_t>
struct Output {
    static constexpr std::size_t columns = sizeof(T) / sizeof(Element);

    explicit Output(std::size_t n) : size_(n), data_(new T[n]()) {}
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    ~Output() { delete[] data_; }

    std::span<T> span() { return {data_, size_}; }

    nb::ndarray<nb::numpy, Element> release() {
        nb::capsule owner(data_, [](void* p) noexcept { delete[] static_cast<T*>(p); });
        auto* first = reinterpret_cast<Element*>(data_);
        data_ = nullptr;
        if constexpr (columns == 1) return nb::ndarray<nb::numpy, Element>(first, {size_}, owner);
        return nb::ndarray<nb::numpy, Element>(first, {size_, columns}, owner);
    }

  private:
    std::size_t size_;
    T* data_;
};

}  // namespace whet::bind
