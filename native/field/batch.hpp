// Field operations on whole arrays, behind a table of functions that is chosen once at run time: a backend for one
// instruction set adds a table, nobody else changes. Results may overwrite inputs element for element.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "field/bn254.hpp"

namespace whet {

template <class Field>
struct BatchOperations {
    const char* name;
    bool (*usable)();  // on this processor
    void (*add)(Field* out, const Field* a, const Field* b, std::size_t n);
    void (*subtract)(Field* out, const Field* a, const Field* b, std::size_t n);
    void (*multiply)(Field* out, const Field* a, const Field* b, std::size_t n);
    void (*square)(Field* out, const Field* a, std::size_t n);
    void (*invert)(Field* out, const Field* a, std::size_t n);  // zeros stay zero
};

// Every backend in this build, the fastest first; the last one is "portable" and always usable.
template <class Field>
std::span<const BatchOperations<Field>* const> batch_backends();

// The backend in use: the first usable one, until select_batch_backend names another.
template <class Field>
const BatchOperations<Field>& batch_operations();

// False when there is no such backend or this processor cannot run it; then nothing changes.
template <class Field>
bool select_batch_backend(std::string_view name);

}  // namespace whet
