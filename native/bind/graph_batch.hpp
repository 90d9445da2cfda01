// A whole batch of submissions as arrays: the loop that a C++ program would write, fed from numpy.
#pragma once

#include <nanobind/ndarray.h>

#include <functional>
#include <vector>

#include "graph/runtime.hpp"

namespace whet::bind {

namespace nb = nanobind;

template <class T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class Batch {
  public:
    // Columns of `accesses`, as in whet.graph.workloads.
    enum Column { task, buffer, offset, rows, row_bytes, stride, direction, columns };
    using Accesses = nb::ndarray<const std::int64_t, nb::shape<-1, columns>, nb::c_contig, nb::device::cpu>;

    // Takes the arrays out of a dict; they have been checked by the caller and stay alive in it.
    explicit Batch(const nb::dict& given);

    // Submits every task in order. `interrupted` is asked now and then; if it says yes the rest is not submitted.
    graph::Status submit(graph::Runtime& runtime, const std::function<bool()>& interrupted);

  private:
    graph::Status submit_with_tensors(graph::Runtime& runtime, const std::function<bool()>& interrupted);
    bool fill_tensors(std::size_t index, graph::TaskId base, std::vector<graph::TensorArg>& tensors,
                      std::vector<graph::View>& views);
    graph::Status submit_given(graph::Runtime& runtime, const std::function<bool()>& interrupted);
    graph::Status move_scopes(graph::Runtime& runtime, std::size_t index);
    void fill(graph::TaskSpec& spec, std::size_t index, std::uint64_t& number) const;

    struct Row {
        graph::Body body;
        void* user;
        graph::Kind kind;
        std::uint32_t name;
    };
    std::vector<Row> table_;
    std::size_t tasks_ = 0;
    bool manual_ = false;
    bool with_tensors_ = false;
    bool with_dependencies_ = false;
    // Borrowed from the arrays in the dict. Null where a batch has none of it.
    const std::uint16_t* kinds_ = nullptr;
    const std::int64_t* accesses_ = nullptr;  // rows of `columns`
    const std::int64_t* access_start_ = nullptr;
    std::uint64_t* buffer_base_ = nullptr;  // filled in for the buffers that the runtime allocates
    const std::int64_t* buffer_bytes_ = nullptr;
    const std::int64_t* buffer_creator_ = nullptr;
    const std::int64_t* dependency_start_ = nullptr;
    const std::int64_t* dependencies_ = nullptr;
    const std::uint64_t* scalars_ = nullptr;
    const std::int64_t* scalar_start_ = nullptr;
    const std::int8_t* opens_ = nullptr;
    const std::int8_t* closes_ = nullptr;
};

}  // namespace whet::bind
