#include "graph_batch.hpp"

#include <algorithm>

namespace whet::bind {

using namespace whet::graph;

namespace {

constexpr std::size_t kAskEvery = 256;  // tasks between two looks at the signals
constexpr std::size_t kGroup = 64;      // tasks handed over in one call when their arguments are known beforehand

template <class T>
T* take(const nb::dict& given, const char* name) {
    const auto array = nb::cast<Flat<T>>(given[name]);
    return array.size() ? array.data() : nullptr;
}

}  // namespace

Batch::Batch(const nb::dict& given)
    : manual_(nb::cast<bool>(given["manual"])),
      with_tensors_(nb::cast<bool>(given["with_tensors"])),
      with_dependencies_(nb::cast<bool>(given["with_dependencies"])),
      kinds_(take<const std::uint16_t>(given, "kind")),
      accesses_(nb::cast<Accesses>(given["accesses"]).data()),
      access_start_(take<const std::int64_t>(given, "access_start")),
      buffer_base_(take<std::uint64_t>(given, "buffer_base")),
      buffer_bytes_(take<const std::int64_t>(given, "buffer_bytes")),
      buffer_creator_(take<const std::int64_t>(given, "buffer_creator")),
      dependency_start_(take<const std::int64_t>(given, "dependency_start")),
      dependencies_(take<const std::int64_t>(given, "dependencies")),
      scalars_(take<const std::uint64_t>(given, "scalars")),
      scalar_start_(take<const std::int64_t>(given, "scalar_start")),
      opens_(take<const std::int8_t>(given, "scope_open")),
      closes_(take<const std::int8_t>(given, "scope_close")) {
    tasks_ = nb::cast<Flat<const std::uint16_t>>(given["kind"]).size();
    for (nb::handle entry : nb::cast<nb::list>(given["bodies"])) {
        const auto row = nb::cast<nb::tuple>(entry);  // (address, user, built in, name)
        const auto address = nb::cast<std::uintptr_t>(row[0]);
        const Kind kind = !address ? Kind::barrier : nb::cast<bool>(row[2]) ? Kind::kernel : Kind::native;
        table_.push_back({reinterpret_cast<Body>(address), reinterpret_cast<void*>(nb::cast<std::uintptr_t>(row[1])),
                          kind, nb::cast<std::uint32_t>(row[3])});
    }
}

// A task without scalars of its own gets its number in the batch.
void Batch::fill(TaskSpec& spec, std::size_t index, std::uint64_t& number) const {
    const Row& row = table_[kinds_[index]];
    spec.body = row.body;
    spec.user = row.user;
    spec.kind = row.kind;
    spec.name = row.name;
    number = index;
    if (scalar_start_) {
        const auto from = static_cast<std::size_t>(scalar_start_[index]);
        spec.scalars = {scalars_ + from, static_cast<std::size_t>(scalar_start_[index + 1]) - from};
    } else {
        spec.scalars = {&number, 1};
    }
}

Status Batch::move_scopes(Runtime& runtime, std::size_t index) {
    if (!opens_) return {};
    for (int i = 0; i < closes_[index]; ++i) {
        if (Status status = runtime.scope_end(); !status.ok()) return status;
    }
    for (int i = 0; i < opens_[index]; ++i) {
        if (Status status = runtime.scope_begin(manual_ ? ScopeMode::manual : ScopeMode::automatic); !status.ok()) {
            return status;
        }
    }
    return {};
}

Status Batch::submit(Runtime& runtime, const std::function<bool()>& interrupted) {
    const std::size_t depth = runtime.scope_depth();
    Status status = with_tensors_ ? submit_with_tensors(runtime, interrupted) : submit_given(runtime, interrupted);
    if (Status told = runtime.flush(); status.ok()) status = std::move(told);
    while (runtime.scope_depth() > depth) {
        Status ended = runtime.scope_end();
        if (status.ok()) status = std::move(ended);
    }
    return status;
}

// The arguments of one task; true if the runtime has to allocate some of them. Ids are consecutive from `base`.
bool Batch::fill_tensors(std::size_t index, TaskId base, std::vector<TensorArg>& tensors, std::vector<View>& views) {
    const auto from = static_cast<std::size_t>(access_start_[index]);
    const auto count = static_cast<std::size_t>(access_start_[index + 1]) - from;
    if (tensors.size() < count) {
        tensors.resize(count);
        views.resize(count);
    }
    bool allocates = false;
    const std::int64_t* access = accesses_ + from * columns;
    for (std::size_t a = 0; a < count; ++a, access += columns) {
        const auto which = static_cast<std::size_t>(access[buffer]);
        TensorArg& tensor = tensors[a];
        tensor.direction = static_cast<Direction>(access[direction]);
        if (tensor.direction == Direction::out) {
            tensor.base = nullptr;
            tensor.region = {};
            tensor.owner = kNoTask;
            tensor.bytes = static_cast<std::uint64_t>(buffer_bytes_[which]);
            allocates = true;
            continue;
        }
        tensor.base = reinterpret_cast<void*>(buffer_base_[which]);
        const std::int64_t creator = buffer_creator_[which];
        tensor.owner = creator >= 0 ? base + static_cast<TaskId>(creator) : kNoTask;
        const auto begin = static_cast<std::uint64_t>(access[offset]);
        const auto length = static_cast<std::uint64_t>(access[row_bytes]);
        if (access[rows] == 1) {
            tensor.region = {begin, begin + length, nullptr};
        } else if (access[stride] == access[row_bytes] && access[rows] > 0) {
            tensor.region = {begin, begin + length * static_cast<std::uint64_t>(access[rows]), nullptr};
        } else {
            const std::int64_t shape[] = {access[rows], access[row_bytes]};
            const std::int64_t strides[] = {access[stride], 1};
            make_region(begin, 1, 2, shape, strides, views[a], tensor.region);
        }
    }
    return allocates;
}

Status Batch::submit_with_tensors(Runtime& runtime, const std::function<bool()>& interrupted) {
    const TaskId base = runtime.next_id();
    std::vector<TensorArg> tensors;
    std::vector<View> views;
    std::vector<TaskId> before;
    TaskSpec spec;
    for (std::size_t i = 0; i < tasks_; ++i) {
        if (i % kAskEvery == 0 && interrupted()) break;
        if (Status status = move_scopes(runtime, i); !status.ok()) return status;
        const bool allocates = fill_tensors(i, base, tensors, views);
        const auto from = static_cast<std::size_t>(access_start_[i]);
        const auto count = static_cast<std::size_t>(access_start_[i + 1]) - from;
        std::uint64_t number = 0;
        fill(spec, i, number);
        spec.tensors = {tensors.data(), count};
        if (with_dependencies_) {
            before.clear();
            for (std::int64_t d = dependency_start_[i]; d < dependency_start_[i + 1]; ++d) {
                before.push_back(base + static_cast<TaskId>(dependencies_[static_cast<std::size_t>(d)]));
            }
            spec.dependencies = before;
        }
        TaskId id = 0;
        if (Status status = runtime.submit(spec, id, true); !status.ok()) return status;
        for (std::size_t a = 0; allocates && a < count; ++a) {
            if (tensors[a].direction != Direction::out) continue;
            const auto which = static_cast<std::size_t>(accesses_[(from + a) * columns + buffer]);
            buffer_base_[which] = reinterpret_cast<std::uint64_t>(tensors[a].base);
        }
    }
    return {};
}

// Without tensors every argument is known beforehand, so tasks are handed over in groups that end where a scope does.
Status Batch::submit_given(Runtime& runtime, const std::function<bool()>& interrupted) {
    const TaskId base = runtime.next_id();
    TaskSpec specs[kGroup];
    std::uint64_t numbers[kGroup];
    std::vector<TaskId> before;
    for (std::size_t i = 0; i < tasks_;) {
        if (i / kGroup % (kAskEvery / kGroup) == 0 && interrupted()) break;
        Status status = move_scopes(runtime, i);
        if (!status.ok()) return status;
        std::size_t count = 1;
        const std::size_t most = std::min(kGroup, tasks_ - i);
        while (count < most && (!opens_ || (opens_[i + count] | closes_[i + count]) == 0)) ++count;
        const std::int64_t first_edge = with_dependencies_ ? dependency_start_[i] : 0;
        const std::int64_t edges = with_dependencies_ ? dependency_start_[i + count] - first_edge : 0;
        before.resize(std::max(before.size(), static_cast<std::size_t>(edges)));
        for (std::int64_t edge = 0; edge < edges; ++edge) {
            before[static_cast<std::size_t>(edge)] = base + static_cast<TaskId>(dependencies_[first_edge + edge]);
        }
        for (std::size_t k = 0; k < count; ++k) {
            fill(specs[k], i + k, numbers[k]);
            if (!with_dependencies_) continue;
            const std::int64_t* start = dependency_start_ + i + k;
            specs[k].dependencies = {before.data() + (start[0] - first_edge),
                                     static_cast<std::size_t>(start[1] - start[0])};
        }
        TaskId first = 0;
        std::size_t submitted = 0;
        status = runtime.submit_many({specs, count}, first, submitted, i + count < tasks_);
        if (!status.ok()) return status;
        i += count;
    }
    return {};
}

}  // namespace whet::bind
