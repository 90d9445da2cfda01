#include "graph_batch.hpp"

#include <algorithm>
#include <memory>
#include <string>

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

template <class T>
std::size_t size_of(const nb::dict& given, const char* name) {
    return nb::cast<Flat<T>>(given[name]).size();
}

[[noreturn]] void refuse(const char* array, std::size_t place, const char* why) {
    raise_status({Code::bad_argument, 0, 0, std::string(array) + "[" + std::to_string(place) + "] " + why});
}

void check_offsets(const nb::dict& given, const char* name, std::size_t tasks, std::size_t end) {
    const auto array = nb::cast<Flat<const std::int64_t>>(given[name]);
    if (array.size() != tasks + 1) refuse(name, array.size(), "is not one offset per task plus one");
    const std::int64_t* const offsets = array.data();
    if (offsets[0] != 0) refuse(name, 0, "is not 0");
    for (std::size_t task = 0; task < tasks; ++task) {
        if (offsets[task + 1] < offsets[task]) refuse(name, task + 1, "is smaller than the offset before it");
    }
    if (static_cast<std::size_t>(offsets[tasks]) != end) refuse(name, tasks, "is not the length of what it counts");
}

}  // namespace

Batch::Batch(const nb::dict& given)
    : arrays_(given),
      manual_(nb::cast<bool>(given["manual"])),
      with_tensors_(nb::cast<bool>(given["with_tensors"])),
      with_dependencies_(nb::cast<bool>(given["with_dependencies"])),
      kinds_(take<const std::uint16_t>(given, "kind")),
      accesses_(nb::cast<Accesses>(given["accesses"]).data()),
      access_start_(take<const std::int64_t>(given, "access_start")),
      buffer_base_(take<const std::uint64_t>(given, "buffer_base")),
      buffer_bytes_(take<const std::int64_t>(given, "buffer_bytes")),
      buffer_creator_(take<const std::int64_t>(given, "buffer_creator")),
      buffer_given_(take<const std::uint8_t>(given, "buffer_given")),
      dependency_start_(take<const std::int64_t>(given, "dependency_start")),
      dependencies_(take<const std::int64_t>(given, "dependencies")),
      scalars_(take<const std::uint64_t>(given, "scalars")),
      scalar_start_(take<const std::int64_t>(given, "scalar_start")),
      opens_(take<const std::int8_t>(given, "scope_open")),
      closes_(take<const std::int8_t>(given, "scope_close")) {
    tasks_ = size_of<const std::uint16_t>(given, "kind");
    buffers_ = size_of<const std::uint64_t>(given, "buffer_base");
    check_sizes(given);
    any_given_ = std::any_of(buffer_given_, buffer_given_ + buffers_, [](std::uint8_t own) { return own != 0; });
    check_accesses();
    check_scopes();
}

std::vector<Batch::Row> Batch::rows_of(const nb::list& bodies) {
    std::vector<Row> table;
    for (nb::handle entry : bodies) {
        const auto row = nb::cast<nb::tuple>(entry);
        const auto address = nb::cast<std::uintptr_t>(row[0]);
        const Kind kind = !address ? Kind::barrier : nb::cast<bool>(row[2]) ? Kind::kernel : Kind::native;
        table.push_back({reinterpret_cast<Body>(address), reinterpret_cast<void*>(nb::cast<std::uintptr_t>(row[1])),
                         kind, nb::cast<std::uint32_t>(row[3])});
    }
    return table;
}

// Every array is as long as the others say, and offsets ascend from 0 to the end.
void Batch::check_sizes(const nb::dict& given) const {
    const auto kinds = nb::cast<std::size_t>(given["kinds"]);
    for (std::size_t task = 0; task < tasks_; ++task) {
        if (kinds_[task] >= kinds) refuse("kind", task, "has no body");
    }
    if (size_of<const std::int64_t>(given, "buffer_bytes") != buffers_ ||
        size_of<const std::int64_t>(given, "buffer_creator") != buffers_ ||
        size_of<const std::uint8_t>(given, "buffer_given") != buffers_) {
        refuse("buffer_bytes", buffers_, "differs from the number of buffers");
    }
    check_offsets(given, "access_start", tasks_, nb::cast<Accesses>(given["accesses"]).shape(0));
    check_offsets(given, "dependency_start", tasks_, size_of<const std::int64_t>(given, "dependencies"));
    if (scalar_start_) check_offsets(given, "scalar_start", tasks_, size_of<const std::uint64_t>(given, "scalars"));
    for (std::size_t task = 0; task < tasks_; ++task) {
        for (std::int64_t edge = dependency_start_[task]; edge < dependency_start_[task + 1]; ++edge) {
            const std::int64_t dependency = dependencies_[edge];
            if (dependency < 0 || dependency >= static_cast<std::int64_t>(task)) {
                refuse("dependencies", static_cast<std::size_t>(edge), "is no earlier task");
            }
        }
    }
    const std::size_t scopes = size_of<const std::int8_t>(given, "scope_open");
    if (size_of<const std::int8_t>(given, "scope_close") != scopes || (scopes != 0 && scopes != tasks_)) {
        refuse("scope_open", scopes, "is not one number per task, in both arrays or in none");
    }
}

void Batch::check_accesses() const {
    std::vector<bool> made(buffers_);
    for (std::size_t which = 0; which < buffers_; ++which) {
        if (buffer_bytes_[which] < 0) refuse("buffer_bytes", which, "is negative");
        const std::int64_t creator = buffer_creator_[which];
        if (creator < -1 || creator >= static_cast<std::int64_t>(tasks_)) {
            refuse("buffer_creator", which, "is no task of the batch, nor -1");
        }
        made[which] = creator == -1;
    }
    for (std::size_t task = 0; task < tasks_; ++task) {
        const auto from = static_cast<std::size_t>(access_start_[task]);
        const auto to = static_cast<std::size_t>(access_start_[task + 1]);
        for (std::size_t row = from; row < to; ++row) {
            check_access(task, row);
            const std::int64_t* const access = accesses_ + row * columns;
            const auto which = static_cast<std::size_t>(access[buffer]);
            if (static_cast<Direction>(access[direction]) == Direction::out) {
                made[which] = true;
            } else if (!made[which]) {
                refuse("accesses", row, "uses a buffer before the task that makes it");
            }
        }
    }
    for (std::size_t which = 0; which < buffers_; ++which) {
        if (!made[which]) refuse("buffer_creator", which, "is a task that does not make the buffer");
    }
}

void Batch::check_access(std::size_t task, std::size_t row) const {
    const std::int64_t* const access = accesses_ + row * columns;
    if (access[of_task] != static_cast<std::int64_t>(task)) refuse("accesses", row, "is not in the order of tasks");
    if (access[buffer] < 0 || access[buffer] >= static_cast<std::int64_t>(buffers_)) {
        refuse("accesses", row, "names a buffer that is not there");
    }
    if (access[direction] < 0 || access[direction] > static_cast<std::int64_t>(Direction::nodep)) {
        refuse("accesses", row, "has a direction that does not exist");
    }
    if (access[offset] < 0 || access[rows] < 0 || access[row_bytes] < 0) {
        refuse("accesses", row, "has a negative offset, number of rows or bytes per row");
    }
    const auto which = static_cast<std::size_t>(access[buffer]);
    if (static_cast<Direction>(access[direction]) == Direction::out &&
        buffer_creator_[which] != static_cast<std::int64_t>(task)) {
        refuse("accesses", row, "allocates a buffer that another task makes");
    }
    std::int64_t end = 0;
    const bool over = __builtin_mul_overflow(std::max<std::int64_t>(access[rows], 1) - 1, access[stride], &end) ||
                      __builtin_add_overflow(end, access[row_bytes], &end) ||
                      __builtin_add_overflow(end, access[offset], &end);
    if (over || access[stride] < 0 || end > buffer_bytes_[which]) refuse("accesses", row, "reaches beyond its buffer");
}

void Batch::check_scopes() const {
    std::int64_t depth = 0;
    for (std::size_t task = 0; opens_ && task < tasks_; ++task) {
        if (opens_[task] < 0 || closes_[task] < 0) refuse("scope_open", task, "is negative");
        depth -= closes_[task];
        if (depth < 0) refuse("scope_close", task, "ends a scope that has not begun");
        depth += opens_[task];
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

Code Batch::move_scopes(Turn& turn, std::size_t index) {
    if (!opens_) return Code::ok;
    for (int i = 0; i < closes_[index]; ++i) {
        if (const Code code = turn.scope_end(); code != Code::ok) return code;
    }
    for (int i = 0; i < opens_[index]; ++i) {
        const Code code = turn.scope_begin(manual_ ? ScopeMode::manual : ScopeMode::automatic);
        if (code != Code::ok) return code;
    }
    return Code::ok;
}

Status Batch::submit(Runtime& runtime, std::vector<Row> table, Watch watch, TaskId& last) {
    table_ = std::move(table);
    Turn turn(runtime, watch);
    const std::size_t depth = turn.scope_depth();
    ids_.begin(turn.next_id());
    const Code code = with_tensors_ ? submit_with_tensors(turn) : submit_given(turn);
    Status status;
    if (code == Code::interrupted) {
        status.code = code;
    } else if (code != Code::ok) {
        status = turn.refusal();
    }
    turn.flush();
    while (turn.scope_depth() > depth) {
        if (turn.scope_end() == Code::ok) continue;
        Status ended = turn.refusal();
        return status.ok() ? ended : status;
    }
    last = turn.next_id() - 1;
    return status;
}

void TaskIds::write_down(std::size_t index, TaskId first, std::size_t count, std::size_t all) {
    if (ids_.empty()) {
        ids_.resize(all);
        for (std::size_t before = 0; before < index; ++before) ids_[before] = first_ + before;
    }
    for (std::size_t own = 0; own < count; ++own) ids_[index + own] = first + own;
}

// The arguments of one task; true if the runtime has to allocate some of them. `made_at`: where it put earlier ones.
bool Batch::fill_tensors(std::size_t index, void* const* made_at, std::vector<TensorArg>& tensors,
                         std::vector<View>& views) const {
    const auto from = static_cast<std::size_t>(access_start_[index]);
    const auto count = static_cast<std::size_t>(access_start_[index + 1]) - from;
    if (tensors.size() < count) {
        tensors.resize(count);
        views.resize(count);
    }
    bool allocates = false;
    const bool consecutive = ids_.consecutive();
    const TaskId first = ids_.first();
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
        const auto creator = static_cast<std::size_t>(buffer_creator_[which]);
        if (buffer_creator_[which] >= 0) {
            tensor.base = made_at[which];
            tensor.owner = consecutive ? first + creator : ids_.at(creator);
        } else {
            tensor.base = reinterpret_cast<void*>(buffer_base_[which]);
            tensor.owner = kNoTask;
            tensor.apart = !any_given_ || !buffer_given_[which];
            if (!tensor.apart) tensor.buffer_bytes = static_cast<std::uint64_t>(buffer_bytes_[which]);
        }
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

Code Batch::submit_with_tensors(Turn& turn) {
    std::vector<TensorArg> tensors;
    std::vector<View> views;
    std::vector<TaskId> before;
    // Not filled in beforehand: there may be more of them than the cache holds.
    const std::unique_ptr<void*[]> made_at(new void*[buffers_]);
    TaskSpec spec;
    for (std::size_t i = 0; i < tasks_; ++i) {
        if (i % kAskEvery == kAskEvery - 1 && turn.let_others_or_interrupted()) return Code::interrupted;
        if (const Code code = move_scopes(turn, i); code != Code::ok) return code;
        const bool allocates = fill_tensors(i, made_at.get(), tensors, views);
        const auto from = static_cast<std::size_t>(access_start_[i]);
        const auto count = static_cast<std::size_t>(access_start_[i + 1]) - from;
        std::uint64_t number = 0;
        fill(spec, i, number);
        spec.tensors = {tensors.data(), count};
        if (with_dependencies_) {
            before.clear();
            for (std::int64_t d = dependency_start_[i]; d < dependency_start_[i + 1]; ++d) {
                before.push_back(ids_.at(static_cast<std::size_t>(dependencies_[static_cast<std::size_t>(d)])));
            }
            spec.dependencies = before;
        }
        TaskId id = 0;
        if (const Code code = turn.submit(spec, id); code != Code::ok) return code;
        ids_.note(i, id, 1, tasks_);
        for (std::size_t a = 0; allocates && a < count; ++a) {
            if (tensors[a].direction != Direction::out) continue;
            const auto which = static_cast<std::size_t>(accesses_[(from + a) * columns + buffer]);
            made_at[which] = tensors[a].base;
        }
    }
    return Code::ok;
}

// Without tensors every argument is known beforehand, so tasks are handed over in groups that end where a scope does,
// or where another thread's task came in between.
Code Batch::submit_given(Turn& turn) {
    TaskSpec specs[kGroup];
    std::uint64_t numbers[kGroup];
    std::vector<TaskId> before;
    std::size_t asked = 0;
    std::size_t moved = tasks_;  // scopes are moved once per task, also if its group has to be handed over again
    for (std::size_t i = 0; i < tasks_;) {
        if (i - asked >= kAskEvery) {
            asked = i;
            if (turn.let_others_or_interrupted()) return Code::interrupted;
        }
        if (moved != i) {
            if (const Code code = move_scopes(turn, i); code != Code::ok) return code;
        }
        moved = i;
        std::size_t count = 1;
        const std::size_t most = std::min(kGroup, tasks_ - i);
        while (count < most && (!opens_ || (opens_[i + count] | closes_[i + count]) == 0)) ++count;
        const std::int64_t first_edge = with_dependencies_ ? dependency_start_[i] : 0;
        const std::int64_t edges = with_dependencies_ ? dependency_start_[i + count] - first_edge : 0;
        before.resize(std::max(before.size(), static_cast<std::size_t>(edges)));
        const TaskId next = turn.next_id();
        const bool consecutive = ids_.consecutive() && (i == 0 || next == ids_.first() + i);
        const TaskId base = next - i;
        for (std::int64_t edge = 0; edge < edges; ++edge) {
            const auto dependency = static_cast<std::size_t>(dependencies_[first_edge + edge]);
            before[static_cast<std::size_t>(edge)] =
                consecutive || dependency >= i ? base + dependency : ids_.at(dependency);
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
        const Code code = turn.submit_many({specs, count}, first, submitted);
        if (submitted != 0) ids_.note(i, first, submitted, tasks_);
        if (code != Code::ok) return code;
        i += submitted;
    }
    return Code::ok;
}

}  // namespace whet::bind
