// Many tasks of one body along the first axis of arrays. What differs from row to row is one distance per array, so
// nothing is written down for each task.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/runtime.hpp"
#include "graph_batch.hpp"

namespace whet::bind {

class Rows {
  public:
    // What a task touches of one array: the buffer, and in it runs of bytes at one distance. `step` is how far the next
    // task's lie from these. As in whet.graph.mapping.
    enum Column { address, buffer_bytes, offset, step, runs, run_bytes, distance, direction, columns };
    using Tensors = nb::ndarray<const std::int64_t, nb::shape<-1, -1, columns>, nb::c_contig, nb::device::cpu>;
    using Words = nb::ndarray<const std::uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

    // `tensors`: all arrays of the first task, or of every task. `words`: the scalars of every task, or of all alike.
    // Raises bad_argument if they are not that many, or reach beyond their buffers.
    Rows(std::size_t tasks, Tensors tensors, Words words);

    // Submits every task in order. After an interrupt the rest is not submitted. Once per object.
    graph::Status submit(graph::Runtime& runtime, const Batch::Row& body, graph::Watch watch, graph::TaskId& last);
    const TaskIds& ids() const { return ids_; }

  private:
    void check(std::size_t row, std::size_t last) const;
    void place(const std::int64_t* access, std::size_t task, graph::TensorArg& tensor, graph::View& view) const;
    graph::Code submit_all(graph::Runtime::Turn& turn, const Batch::Row& body);

    const std::size_t tasks_;
    const Tensors tensors_;
    const Words words_;
    TaskIds ids_;
};

}  // namespace whet::bind
