#include "graph_rows.hpp"

#include <limits>
#include <string>
#include <utility>

namespace whet::bind {

using namespace whet::graph;

namespace {

constexpr std::size_t kAskEvery = 256;  // tasks between two looks at the signals

[[noreturn]] void refuse(const std::string& why) { raise_status({Code::bad_argument, 0, 0, "rows: " + why}); }

}  // namespace

Rows::Rows(std::size_t tasks, Tensors tensors, Words words)
    : tasks_(tasks), tensors_(std::move(tensors)), words_(std::move(words)) {
    if (tasks == 0 || tasks > std::numeric_limits<std::uint32_t>::max()) refuse("no such number of tasks");
    if (tensors_.shape(0) != 1 && tensors_.shape(0) != tasks) refuse("arrays for another number of tasks");
    if (words_.shape(0) != 1 && words_.shape(0) != tasks) refuse("scalars for another number of tasks");
    const std::size_t last = tensors_.shape(0) == 1 ? tasks - 1 : 0;
    for (std::size_t row = 0; row < tensors_.shape(0) * tensors_.shape(1); ++row) check(row, last);
}

void Rows::check(std::size_t row, std::size_t last) const {
    const std::int64_t* const access = tensors_.data() + row * columns;
    for (const Column column : {buffer_bytes, offset, step, run_bytes, distance}) {
        if (access[column] < 0) refuse("a negative number");
    }
    if (access[runs] < 1) refuse("no run of bytes");
    if (access[direction] < 0 || access[direction] > static_cast<std::int64_t>(Direction::nodep) ||
        static_cast<Direction>(access[direction]) == Direction::out) {
        refuse("a direction that does not exist, or that allocates");
    }
    std::int64_t all_runs = 0;
    std::int64_t end = 0;
    const bool over = __builtin_mul_overflow(access[step], static_cast<std::int64_t>(last), &end) ||
                      __builtin_mul_overflow(access[runs] - 1, access[distance], &all_runs) ||
                      __builtin_add_overflow(end, all_runs, &end) ||
                      __builtin_add_overflow(end, access[run_bytes], &end) ||
                      __builtin_add_overflow(end, access[offset], &end);
    if (over || end > access[buffer_bytes]) refuse("bytes beyond their buffer");
}

// What the task touches; base, direction and length of the buffer are as they are.
inline void Rows::place(const std::int64_t* access, std::size_t task, TensorArg& tensor, View& view) const {
    const auto begin = static_cast<std::uint64_t>(access[offset]) + static_cast<std::uint64_t>(access[step]) * task;
    if (access[runs] == 1) {
        tensor.region = {begin, begin + static_cast<std::uint64_t>(access[run_bytes]), nullptr};
        return;
    }
    const std::int64_t shape[] = {access[runs], access[run_bytes]};
    const std::int64_t strides[] = {access[distance], 1};
    make_region(begin, 1, 2, shape, strides, view, tensor.region);
}

Code Rows::submit_all(Runtime::Turn& turn, const Batch::Row& body) {
    const std::size_t arrays = tensors_.shape(1);
    const bool alike = tensors_.shape(0) == 1;
    std::vector<TensorArg> tensors(arrays);
    std::vector<View> views(arrays);
    const auto begin = [&](const std::int64_t* access) {
        for (std::size_t at = 0; at < arrays; ++at, access += columns) {
            tensors[at].base = reinterpret_cast<void*>(access[address]);
            tensors[at].buffer_bytes = static_cast<std::uint64_t>(access[buffer_bytes]);
            tensors[at].direction = static_cast<Direction>(access[direction]);
        }
    };
    TaskSpec spec;
    spec.body = body.body;
    spec.user = body.user;
    spec.kind = body.kind;
    spec.name = body.name;
    spec.tensors = tensors;
    spec.scalars = {words_.data(), words_.shape(1)};
    begin(tensors_.data());
    for (std::size_t task = 0; task < tasks_; ++task) {
        if (task % kAskEvery == kAskEvery - 1 && turn.let_others_or_interrupted()) return Code::interrupted;
        const std::int64_t* const own = tensors_.data() + (alike ? 0 : task * arrays * columns);
        if (!alike) begin(own);
        for (std::size_t at = 0; at < arrays; ++at) {
            place(own + at * columns, alike ? task : 0, tensors[at], views[at]);
        }
        if (words_.shape(0) != 1) spec.scalars = {words_.data() + task * words_.shape(1), words_.shape(1)};
        TaskId id = 0;
        if (const Code code = turn.submit(spec, id); code != Code::ok) return code;
        ids_.note(task, id, 1, tasks_);
    }
    return Code::ok;
}

Status Rows::submit(Runtime& runtime, const Batch::Row& body, Watch watch, TaskId& last) {
    Runtime::Turn turn(runtime, watch);
    const Code code = submit_all(turn, body);
    Status status;
    if (code == Code::interrupted) {
        status.code = code;
    } else if (code != Code::ok) {
        status = turn.refusal();
    }
    turn.flush();
    last = turn.next_id() - 1;
    return status;
}

}  // namespace whet::bind
