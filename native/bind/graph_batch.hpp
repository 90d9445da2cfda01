// A whole batch of submissions as arrays: the loop that a C++ program would write, fed from numpy.
#pragma once

#include <nanobind/ndarray.h>

#include <vector>

#include "graph/runtime.hpp"

namespace whet::bind {

namespace nb = nanobind;

template <class T>
using Flat = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

[[noreturn]] void raise_status(const graph::Status& status);

// The ids of tasks that were submitted one after the other. As long as all are consecutive nothing is written down.
class TaskIds {
  public:
    // Tasks from `index` on have got the ids from `first` on.
    void note(std::size_t index, graph::TaskId first, std::size_t count, std::size_t all) {
        if (index == 0) first_ = first;
        if (ids_.empty() && first == first_ + index) [[likely]]
            return;
        write_down(index, first, count, all);
    }
    void begin(graph::TaskId first) { first_ = first; }
    graph::TaskId first() const { return first_; }
    bool consecutive() const { return ids_.empty(); }
    graph::TaskId at(std::size_t index) const { return ids_.empty() ? first_ + index : ids_[index]; }
    // As raw words; None if they are consecutive.
    nb::object told() const {
        if (ids_.empty()) return nb::none();
        return nb::bytes(reinterpret_cast<const char*>(ids_.data()), ids_.size() * sizeof(ids_[0]));
    }

  private:
    void write_down(std::size_t index, graph::TaskId first, std::size_t count, std::size_t all);

    graph::TaskId first_ = 0;
    std::vector<graph::TaskId> ids_;  // of all tasks so far, once another thread's task has come in between
};

class Batch {
  public:
    // Columns of `accesses`, as in whet.graph.workloads.
    enum Column { of_task, buffer, offset, rows, row_bytes, stride, direction, columns };
    using Accesses = nb::ndarray<const std::int64_t, nb::shape<-1, columns>, nb::c_contig, nb::device::cpu>;

    struct Row {
        graph::Body body;
        void* user;
        graph::Kind kind;
        std::uint32_t name;
    };
    // From (address, user, built in, name).
    static std::vector<Row> rows_of(const nb::list& bodies);

    // Takes the arrays out of a dict, which it keeps, and checks every number in them: what passes cannot make submit()
    // reach beyond an array. Raises bad_argument with the place. Nobody may change them afterwards.
    explicit Batch(const nb::dict& given);

    // Submits every task in order, one body per kind. After an interrupt the rest is not submitted. Once per object:
    // a batch that is submitted again, or by two threads, is copied for that.
    graph::Status submit(graph::Runtime& runtime, std::vector<Row> table, graph::Watch watch, graph::TaskId& last);
    const TaskIds& ids() const { return ids_; }

  private:
    using Turn = graph::Runtime::Turn;

    void check_sizes(const nb::dict& given) const;
    void check_accesses() const;
    void check_access(std::size_t task, std::size_t row) const;
    void check_scopes() const;
    graph::Code submit_with_tensors(Turn& turn);
    bool fill_tensors(std::size_t index, void* const* made_at, std::vector<graph::TensorArg>& tensors,
                      std::vector<graph::View>& views) const;
    graph::Code submit_given(Turn& turn);
    graph::Code move_scopes(Turn& turn, std::size_t index);
    void fill(graph::TaskSpec& spec, std::size_t index, std::uint64_t& number) const;

    nb::dict arrays_;
    TaskIds ids_;
    std::vector<Row> table_;
    std::size_t tasks_ = 0;
    std::size_t buffers_ = 0;
    bool any_given_ = false;
    bool manual_ = false;
    bool with_tensors_ = false;
    bool with_dependencies_ = false;
    // Borrowed from the arrays in the dict. Null where a batch has none of it.
    const std::uint16_t* kinds_ = nullptr;
    const std::int64_t* accesses_ = nullptr;  // rows of `columns`
    const std::int64_t* access_start_ = nullptr;
    const std::uint64_t* buffer_base_ = nullptr;  // of the buffers that no task makes
    const std::int64_t* buffer_bytes_ = nullptr;
    const std::int64_t* buffer_creator_ = nullptr;
    const std::uint8_t* buffer_given_ = nullptr;  // it has memory that others may know as well
    const std::int64_t* dependency_start_ = nullptr;
    const std::int64_t* dependencies_ = nullptr;
    const std::uint64_t* scalars_ = nullptr;
    const std::int64_t* scalar_start_ = nullptr;
    const std::int8_t* opens_ = nullptr;
    const std::int8_t* closes_ = nullptr;
};

}  // namespace whet::bind
