// Tasks run once, when everything they depend on is done, whatever the shape; and what they depend on is what their
// bytes say. Each test bears the name of the fault it guards against (docs/graph-bugs.md).
#include <algorithm>
#include <bitset>
#include <cstring>
#include <set>

#include "graph/submitter/tensor_map.hpp"
#include "graph_fixture.hpp"

using namespace whet::test;

namespace {

struct Random {
    std::uint64_t state;
    std::uint64_t below(std::uint64_t bound) {
        state = state * 6364136223846793005 + 1442695040888963407;
        return (state >> 33) % bound;
    }
};

// Two producers end in either order around the registration of their consumer.
void m11_both_orders_of_two_producers(Policy policy) {
    for (const WakeTarget target : {WakeTarget::last, WakeTarget::first, WakeTarget::single}) {
        Config config = hands_off(small(policy, 16, 4));
        config.wake_target = target;
        Bench bench(config);
        for (int round = 0; round < 300; ++round) {
            Gate gates[2];
            std::atomic<int> done{0};
            std::atomic<int> early{0};
            std::atomic<int> runs{0};
            const auto produce = [&](int which) {
                return [&, which](auto, auto) { return gates[which].wait(), done.fetch_add(1), 0; };
            };
            const TaskId first = bench.submit(produce(0));
            const TaskId second = bench.submit(produce(1));
            bench.submit([&](auto, auto) { return early.fetch_add(done.load() != 2), runs.fetch_add(1), 0; },
                         {first, second});
            gates[round % 2].open();
            if (round % 3 == 0) check_ok(bench.runtime->wait(round % 2 == 0 ? first : second));
            gates[1 - round % 2].open();
            check_ok(bench.runtime->wait_all());
            CHECK(early.load() == 0 && runs.load() == 1);
        }
    }
}

void m12_any_fanin(Policy policy) {
    for (const std::uint32_t fanin : {1U, 5U, 6U, 16U, 17U, 100U, 128U, 129U, 1000U}) {
        Bench bench(small(policy, 2048, 3));
        std::atomic<std::uint32_t> done{0};
        std::vector<TaskId> producers;
        for (std::uint32_t task = 0; task < fanin; ++task) {
            producers.push_back(bench.submit([&](auto, auto) { return done.fetch_add(1), 0; }));
        }
        std::uint32_t seen = 0;
        bench.submit([&](auto, auto) { return seen = done.load(), 0; }, producers);
        check_ok(bench.runtime->wait_all());
        CHECK(seen == fanin);
        // The same through data: one reader of as many written parts of an array.
        std::vector<char> array(fanin * 8);
        done = 0;
        for (std::uint32_t task = 0; task < fanin; ++task) {
            std::vector<TensorArg> part{region_of(array.data(), task * 8, task * 8 + 8, Direction::out_existing)};
            bench.submit([&](auto, auto) { return done.fetch_add(1), 0; }, part);
        }
        std::vector<TensorArg> whole{region_of(array.data(), 0, array.size(), Direction::in)};
        bench.submit([&](auto, auto) { return seen = done.load() + 7, 0; }, whole);
        check_ok(bench.runtime->wait_all());
        CHECK(seen == fanin + 7);
    }
}

// The map lags behind by many windows: entries of older laps neither hide nor stand for newer ones.
void m13_lagging_cleanup_spares_later_tasks(Policy policy) {
    Config config = small(policy, 4, 2);
    config.tensormap_capacity = 512;
    Bench bench(config);
    std::uint64_t cell = 0;
    std::uint64_t other[64] = {};
    for (std::uint64_t task = 0; task < 3000; ++task) {
        std::vector<TensorArg> tensors{region_of(&cell, 0, 8, Direction::inout),
                                       region_of(other, task % 64 * 8, task % 64 * 8 + 8, Direction::in)};
        bench.submit(
            [task](void* const* data, auto) {
                auto* value = static_cast<std::uint64_t*>(data[0]);
                const bool in_order = *value == task;
                *value = task + 1;
                return in_order ? 0 : 1;
            },
            tensors);
    }
    check_ok(bench.runtime->wait_all());
    CHECK(cell == 3000);
}

// A writes K, B writes K, A retires, C reads K: C sees B's value.
void m14_retiring_a_writer_keeps_the_newer_one(Policy policy) {
    Bench bench(hands_off(small(policy, 8, 3)));
    for (int round = 0; round < 300; ++round) {
        std::uint64_t key = 0;
        std::uint64_t seen = 0;
        Gate gate;
        std::vector<TensorArg> write{region_of(&key, 0, 8, Direction::out_existing)};
        const TaskId a =
            bench.submit([](void* const* data, auto) { return *static_cast<std::uint64_t*>(data[0]) = 1, 0; }, write);
        bench.submit(
            [&gate](void* const* data, auto) { return gate.wait(), *static_cast<std::uint64_t*>(data[0]) = 2, 0; },
            write);
        check_ok(bench.runtime->wait(a));
        for (int filler = 0; filler < 4; ++filler) bench.submit([](auto, auto) { return 0; });
        std::vector<TensorArg> read{region_of(&key, 0, 8, Direction::in)};
        bench.submit([&seen](void* const* data, auto) { return seen = *static_cast<std::uint64_t*>(data[0]), 0; },
                     read);
        gate.open();
        check_ok(bench.runtime->wait_all());
        CHECK(seen == 2);
    }
}

// W0, R (slow), W1: the second write waits for the reader, unless the reader opted out.
void m15_write_after_read_is_tracked(Policy policy) {
    Bench bench(hands_off(small(policy, 16, 3)));
    for (int round = 0; round < 100; ++round) {
        std::uint64_t cell = 0;
        std::uint64_t seen = 0;
        std::atomic<bool> reading{false};
        std::vector<TensorArg> write{region_of(&cell, 0, 8, Direction::out_existing)};
        std::vector<TensorArg> read{region_of(&cell, 0, 8, Direction::in)};
        bench.submit([](void* const* data, auto) { return *static_cast<std::uint64_t*>(data[0]) = 1, 0; }, write);
        bench.submit(
            [&](void* const* data, auto) {
                reading.store(true);
                std::this_thread::sleep_for(std::chrono::microseconds(100));
                seen = *static_cast<std::uint64_t*>(data[0]);
                return 0;
            },
            read);
        while (round % 2 == 0 && !reading.load()) std::this_thread::yield();
        bench.submit([](void* const* data, auto) { return *static_cast<std::uint64_t*>(data[0]) = 2, 0; }, write);
        check_ok(bench.runtime->wait_all());
        CHECK(seen == 1 && cell == 2);
    }
    Gate gate;
    std::uint64_t cell = 0;
    std::vector<TensorArg> opted_out{region_of(&cell, 0, 8, Direction::nodep)};
    bench.submit([&gate](auto, auto) { return gate.wait(); }, opted_out);
    std::vector<TensorArg> write{region_of(&cell, 0, 8, Direction::out_existing)};
    check_ok(bench.runtime->wait(bench.submit([](auto, auto) { return 0; }, write)));
    gate.open();
    check_ok(bench.runtime->wait_all());
}

// Everything waits behind one task: no list of waiting tasks has a capacity to overrun.
void s6_a_whole_window_may_wait(Policy policy) {
    for (const WakeTarget target : {WakeTarget::last, WakeTarget::single}) {
        Config config = small(policy, 65536, 2);
        config.wake_target = target;
        Bench bench(config);
        Gate gate;
        std::atomic<std::uint32_t> ran{0};
        const TaskId root = bench.submit([&](auto, auto) { return gate.wait(); });
        const TaskId other = bench.submit([&](auto, auto) { return gate.wait(); });
        for (std::uint32_t task = 0; task < 65534; ++task) {
            bench.submit([&](auto, auto) { return ran.fetch_add(1), 0; }, {root, other});
        }
        gate.open();
        check_ok(bench.runtime->wait_all());
        CHECK(ran.load() == 65534);
    }
}

// A burst of ready tasks larger than the queue spills; none is dropped (also M16: none is stranded).
void s7_burst_larger_than_the_ready_queue(Policy policy) {
    for (const std::uint32_t capacity : {1U, 3U}) {
        Config config = small(policy, 8192, 3);
        config.ready_capacity = capacity;
        Bench bench(config);
        std::unique_ptr<std::atomic<int>[]> runs(new std::atomic<int>[5000]());
        Gate gate;
        const TaskId root = bench.submit([&](auto, auto) { return gate.wait(); });
        for (int task = 0; task < 5000; ++task) {
            bench.submit([&runs, task](auto, auto) { return runs[task].fetch_add(1), 0; }, {root});
        }
        gate.open();
        check_ok(bench.runtime->wait_all());
        int wrong = 0;
        for (int task = 0; task < 5000; ++task) wrong += runs[task].load() != 1;
        CHECK(wrong == 0);
    }
}

// A full tensor map pushes back; a task that needs more than all of it is refused.
void r3_tensor_map_of_four(Policy policy) {
    Config config = small(policy, 64, 2);
    config.tensormap_capacity = 4;
    Bench bench(config);
    std::vector<std::uint64_t> cells(300);
    for (std::uint64_t task = 0; task < 900; ++task) {
        std::vector<TensorArg> tensors{region_of(cells.data(), task % 300 * 8, task % 300 * 8 + 8, Direction::inout)};
        bench.submit([](void* const* data, auto) { return ++*static_cast<std::uint64_t*>(data[0]), 0; }, tensors);
    }
    check_ok(bench.runtime->wait_all());
    CHECK(std::all_of(cells.begin(), cells.end(), [](std::uint64_t value) { return value == 3; }));
    CHECK(bench.runtime->peaks().tensormap_peak <= 4);
    std::vector<TensorArg> five(5, region_of(cells.data(), 0, 8, Direction::in));
    TaskId id = 0;
    const Status status = bench.try_submit([](auto, auto) { return 0; }, five, {}, id);
    CHECK(status.code == Code::tensormap_deadlock);
    CHECK(std::string(text_of(status.code).cure).find("tensormap_capacity") != std::string::npos);
    bench.submit([](auto, auto) { return 0; });
    check_ok(bench.runtime->wait_all());
}

// In a manual scope only given dependencies count, but memory stays until its users are done.
void manual_scopes_neither_look_nor_insert() {
    Config config = small(Policy::hybrid, 16, 2);
    config.record_edges = true;
    Bench bench(config);
    std::uint64_t cell = 0;
    std::vector<TensorArg> write{region_of(&cell, 0, 8, Direction::inout)};
    check_ok(bench.runtime->scope_begin(ScopeMode::manual));
    CHECK(bench.runtime->scope_begin(ScopeMode::automatic).code == Code::scope_mismatch);
    const TaskId first = bench.submit([](auto, auto) { return 0; }, write);
    bench.submit([](auto, auto) { return 0; }, write);
    bench.submit([](auto, auto) { return 0; }, write, {first});
    check_ok(bench.runtime->scope_end());
    check_ok(bench.runtime->wait_all());
    for (const Edge& edge : bench.runtime->edges()) CHECK(edge.source == Edge::Source::given);
    CHECK(bench.runtime->edges().size() <= 1);
    CHECK(bench.runtime->scope_end().code == Code::scope_mismatch);
}

// The bytes a view touches, one by one: the oracle for regions.
std::set<std::uint64_t> bytes_of(std::uint64_t offset, std::uint64_t item, const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& strides) {
    std::set<std::uint64_t> bytes;
    std::vector<std::int64_t> index(shape.size(), 0);
    for (;;) {
        std::int64_t at = static_cast<std::int64_t>(offset);
        for (std::size_t dim = 0; dim < shape.size(); ++dim) at += index[dim] * strides[dim];
        for (std::uint64_t byte = 0; byte < item; ++byte) bytes.insert(static_cast<std::uint64_t>(at) + byte);
        std::size_t dim = shape.size();
        while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) index[--dim] = 0;
        if (dim == 0) return bytes;
    }
}

// Never misses a conflict, never claims cover wrongly, and for tiles of one array never invents a conflict.
void regions_agree_with_their_bytes() {
    Random random{42};
    long exact = 0;
    long pairs = 0;
    for (int round = 0; round < 4000; ++round) {
        const std::int64_t rows = 8;
        const std::int64_t columns = 12;
        const bool tiles_only = round % 2 == 0;
        std::set<std::uint64_t> bytes[2];
        Region regions[2];
        View views[2];
        for (int which = 0; which < 2; ++which) {
            const auto r0 = static_cast<std::int64_t>(random.below(8));
            const auto c0 = static_cast<std::int64_t>(random.below(12));
            std::vector<std::int64_t> shape{
                1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(rows - r0))),
                1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(columns - c0)))};
            std::vector<std::int64_t> strides{columns * 4, 4};
            std::uint64_t offset = static_cast<std::uint64_t>(r0 * columns + c0) * 4;
            if (!tiles_only && random.below(2) == 0 && shape[1] > 2) {
                shape[1] = (shape[1] + 1) / 2;
                strides[1] = 8;
            }
            if (!tiles_only && random.below(3) == 0) {
                offset += static_cast<std::uint64_t>((shape[0] - 1) * strides[0]);
                strides[0] = -strides[0];
            }
            if (random.below(4) == 0) {
                std::swap(shape[0], shape[1]);
                std::swap(strides[0], strides[1]);
            }
            bytes[which] = bytes_of(offset, 4, shape, strides);
            make_region(offset, 4, 2, shape.data(), strides.data(), views[which], regions[which]);
            CHECK(regions[which].begin == *bytes[which].begin() && regions[which].end == *bytes[which].rbegin() + 1);
        }
        std::vector<std::uint64_t> common;
        std::set_intersection(bytes[0].begin(), bytes[0].end(), bytes[1].begin(), bytes[1].end(),
                              std::back_inserter(common));
        const bool covered = std::includes(bytes[0].begin(), bytes[0].end(), bytes[1].begin(), bytes[1].end());
        const Overlap answer = overlap(regions[0], regions[1]);
        ++pairs;
        if (answer == Overlap::none) CHECK(common.empty());
        if (answer == Overlap::covered) CHECK(covered);
        if (tiles_only) {
            CHECK((answer == Overlap::none) == common.empty());
            CHECK((answer == Overlap::covered) == (covered && !common.empty()));
        }
        exact += (answer == Overlap::none) == common.empty();
    }
    CHECK(exact * 10 > pairs * 9);
}

// Random accesses against a plain list of all live ones, byte by byte: every conflict is found, or is waited for by
// something found; and nothing is found that is no conflict, as long as the ring has room and nothing is strided.
void tensor_map_agrees_with_a_list(std::uint32_t capacity, bool tiles, std::uint64_t seed) {
    constexpr std::uint64_t kTasks = 4000;
    constexpr std::uint64_t kSide = 64;  // buffers are square
    constexpr std::uint64_t kBytes = kSide * kSide;
    struct Access {
        std::uint64_t task, base;
        bool writes;
        std::bitset<kBytes> bytes;
    };
    const bool exact = capacity >= 4096 && !tiles;
    const std::uint64_t others = seed % 3 == 0 ? 4000 : 30;  // many of them make the table of tracks grow
    Random random{seed};
    TensorMap map(capacity, seed % 2 == 0 ? 8 : 0);  // few buckets: buffers share their lists
    std::vector<Access> live;
    std::vector<std::bitset<kTasks>> before(kTasks);  // what each task waits for, directly or not
    std::uint64_t watermark = 0;
    std::uint64_t lag = 0;
    std::uint64_t invented = 0;
    std::uint64_t missed = 0;
    for (std::uint64_t task = 0; task < kTasks; ++task) {
        if (task % 100 == 0) lag = random.below(600);
        if (task > lag) watermark = std::max(watermark, task - lag);
        map.reclaim(watermark, [](auto...) {});
        while (!map.room(2)) map.reclaim(++watermark, [](auto...) {});
        std::erase_if(live, [watermark](const Access& access) { return access.task < watermark; });
        map.expect(2, false);
        std::vector<Access> own;
        std::set<std::uint64_t> found;
        for (int argument = 0; argument < 2; ++argument) {
            // Some buffers are touched as a whole only, some in parts, some in both ways.
            const std::uint64_t which = random.below(4) == 0 ? 7 + random.below(others) : 1 + random.below(6);
            const bool whole = which > 6 || random.below(64) == 0;
            Access access{task, which * kBytes, random.below(3) == 0, {}};
            Region region{0, kBytes, nullptr};
            View view;
            if (!whole && tiles && random.below(2) == 0) {
                const std::uint64_t height = 1 + random.below(16);
                const std::uint64_t width = 1 + random.below(16);
                const std::uint64_t begin = random.below(kSide - height) * kSide + random.below(kSide - width);
                const std::int64_t shape[2] = {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
                const std::int64_t strides[2] = {kSide, 1};
                make_region(begin, 1, 2, shape, strides, view, region);
                for (std::uint64_t row = 0; row < height; ++row) {
                    for (std::uint64_t column = 0; column < width; ++column)
                        access.bytes.set(begin + row * kSide + column);
                }
            } else {
                if (!whole) {
                    // Often one of a few, so that the same region comes again.
                    const std::uint64_t width = random.below(2) == 0 ? 128 : 1 + random.below(100);
                    region.begin = width == 128 ? random.below(32) * 128 : random.below(kBytes - width);
                    region.end = region.begin + width;
                }
                for (std::uint64_t byte = region.begin; byte < region.end; ++byte) access.bytes.set(byte);
            }
            map.access(map.track_of(access.base), region, access.writes, task,
                       [&found](std::uint64_t producer) { found.insert(producer); });
            own.push_back(std::move(access));
        }
        found.erase(task);
        for (const std::uint64_t producer : found) {
            before[task] |= before[producer];
            before[task].set(producer);
        }
        std::set<std::uint64_t> conflicts;
        for (const Access& access : own) {
            for (const Access& other : live) {
                const bool meet = other.base == access.base && (other.bytes & access.bytes).any();
                if (meet && (other.writes || access.writes)) conflicts.insert(other.task);
            }
        }
        for (const std::uint64_t producer : conflicts) missed += !before[task].test(producer);
        for (const std::uint64_t producer : found) invented += !conflicts.contains(producer);
        for (Access& access : own) live.push_back(std::move(access));
    }
    CHECK(missed == 0);
    if (exact) CHECK(invented == 0);
    if (capacity >= 4096) CHECK(map.indexed() > kTasks);
}

// More live buffers than the table of tracks begins with: it grows and forgets nobody who is still at work.
void tensor_map_keeps_every_live_buffer() {
    constexpr std::uint64_t kBuffers = 20000;
    TensorMap map(64);
    const auto access = [&map](std::uint64_t buffer, bool writes, std::uint64_t task) {
        std::set<std::uint64_t> found;
        map.expect(1, false);
        map.access(map.track_of(4096 * (1 + buffer)), {0, 8, nullptr}, writes, task,
                   [&found](std::uint64_t producer) { found.insert(producer); });
        return found;
    };
    for (std::uint64_t buffer = 0; buffer < kBuffers; ++buffer) access(buffer, true, buffer);
    std::uint64_t wrong = 0;
    for (std::uint64_t buffer = 0; buffer < kBuffers; ++buffer) {
        wrong += access(buffer, false, kBuffers + buffer) != std::set<std::uint64_t>{buffer};
    }
    // Once all are done, other buffers take their places and nothing is found.
    map.reclaim(2 * kBuffers, [](auto...) {});
    for (std::uint64_t buffer = 0; buffer < kBuffers; ++buffer) {
        wrong += !access(kBuffers / 2 + buffer, true, 2 * kBuffers + buffer).empty();
    }
    CHECK(wrong == 0);
}

// A region above 128 GiB touches more than two chunks of the highest size class; it is found from every one of them.
void a_region_above_128_gib_is_indexed_under_two_chunks() {
    constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
    for (const bool huge_writes : {true, false}) {
        TensorMap map(1024);
        const std::uint64_t base = std::uint64_t{1} << 44;
        map.expect(1, false);
        map.access(map.track_of(base), {0, 400 * kGib, nullptr}, huge_writes, 0, [](std::uint64_t) {});
        // Small pieces elsewhere, so that the walk is too long and the index is asked.
        for (std::uint64_t task = 1; task < 100; ++task) {
            map.expect(1, false);
            map.access(map.track_of(base), {500 * kGib + task * 64, 500 * kGib + task * 64 + 8, nullptr}, true, task,
                       [](std::uint64_t) {});
        }
        for (std::uint64_t gib = 1, task = 100; gib < 400; gib += 57, ++task) {
            bool found = false;
            map.expect(1, false);
            map.access(map.track_of(base), {gib * kGib, gib * kGib + 8, nullptr}, true, task,
                       [&found](std::uint64_t producer) { found = found || producer == 0; });
            CHECK(found);
        }
    }
}

// The same bytes under two bases that do not know each other, in every order and however they overlap, against a plain
// list of what touches what.
void memory_is_compared_by_address(Policy policy) {
    std::vector<char> memory(256);
    Config config = hands_off(small(policy, 64, 2));
    config.record_edges = true;
    for (unsigned seed = 1; seed <= 60; ++seed) {
        Bench bench(config);
        Gate gate;
        struct Access {
            std::uint64_t begin, end;
            bool writes;
        };
        std::vector<Access> all;
        std::uint64_t state = seed;
        const auto draw = [&state](std::uint64_t most) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            return (state >> 33) % most;
        };
        for (int task = 0; task < 20; ++task) {
            const std::uint64_t base = draw(200);
            const std::uint64_t begin = base + draw(20);
            const std::uint64_t end = begin + 1 + draw(30);
            const bool writes = draw(2) == 0;
            std::vector<TensorArg> touched{
                region_of(memory.data() + base, begin - base, end - base, writes ? Direction::inout : Direction::in)};
            if (draw(3) == 0) touched[0].buffer_bytes = end - base + draw(20);
            bench.submit([&gate](auto, auto) { return gate.wait(); }, touched);
            all.push_back({begin, end, writes});
        }
        gate.open();
        check_ok(bench.runtime->wait_all());
        // Ordered, directly or through others.
        std::vector<std::vector<bool>> before(all.size(), std::vector<bool>(all.size()));
        for (const Edge& edge : bench.runtime->edges()) {
            before[edge.consumer][edge.producer] = true;
            for (std::size_t older = 0; older < edge.producer; ++older) {
                if (before[edge.producer][older]) before[edge.consumer][older] = true;
            }
        }
        for (std::size_t later = 0; later < all.size(); ++later) {
            for (std::size_t older = 0; older < later; ++older) {
                const bool meets = all[older].begin < all[later].end && all[later].begin < all[older].end &&
                                   (all[older].writes || all[later].writes);
                if (meets) CHECK(before[later][older]);
            }
        }
    }
}

}  // namespace

int main() {
    regions_agree_with_their_bytes();
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        for (const std::uint32_t capacity : {8U, 64U, 4096U}) {
            tensor_map_agrees_with_a_list(capacity, false, seed);
            tensor_map_agrees_with_a_list(capacity, true, seed);
        }
    }
    tensor_map_keeps_every_live_buffer();
    manual_scopes_neither_look_nor_insert();
    a_region_above_128_gib_is_indexed_under_two_chunks();
    for (const Policy policy : kPolicies) {
        memory_is_compared_by_address(policy);
        m11_both_orders_of_two_producers(policy);
        m12_any_fanin(policy);
        m13_lagging_cleanup_spares_later_tasks(policy);
        m14_retiring_a_writer_keeps_the_newer_one(policy);
        m15_write_after_read_is_tracked(policy);
        r3_tensor_map_of_four(policy);
        s6_a_whole_window_may_wait(policy);
        s7_burst_larger_than_the_ready_queue(policy);
    }
    return finish("test_graph_readiness");
}
