// The floor: join counters and one stack per thread, written for nothing but this. No errors, no arguments, no names.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "edges.hpp"

namespace {

struct alignas(64) Stack {
    std::atomic_flag lock = ATOMIC_FLAG_INIT;
    std::vector<std::int32_t> items;
};

struct Floor {
    const peers::Edges& e;
    const int threads;
    std::unique_ptr<Stack[]> stacks;
    std::unique_ptr<std::atomic<std::int32_t>[]> left;
    alignas(64) std::atomic<std::int64_t> remaining{0};

    Floor(const peers::Edges& edges, int count)
        : e(edges),
          threads(count),
          stacks(new Stack[static_cast<std::size_t>(count)]),
          left(new std::atomic<std::int32_t>[static_cast<std::size_t>(edges.tasks)]) {}

    void reset() {
        std::size_t turn = 0;
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            const auto fan_in = static_cast<std::int32_t>(e.start[t + 1] - e.start[t]);
            left[static_cast<std::size_t>(t)].store(fan_in, std::memory_order_relaxed);
            if (fan_in == 0) stacks[turn++ % static_cast<std::size_t>(threads)].items.push_back(static_cast<std::int32_t>(t));
        }
        remaining.store(e.tasks, std::memory_order_relaxed);
    }

    void work(int self) {
        std::vector<std::int32_t> own;
        std::int64_t done = 0;
        for (;;) {
            if (own.empty()) {
                for (int step = 0; step < threads && own.empty(); ++step) {
                    Stack& from = stacks[static_cast<std::size_t>((self + step) % threads)];
                    if (from.lock.test_and_set(std::memory_order_acquire)) continue;
                    const std::size_t taken = step == 0 ? from.items.size() : (from.items.size() + 1) / 2;
                    own.assign(from.items.end() - static_cast<std::ptrdiff_t>(taken), from.items.end());
                    from.items.resize(from.items.size() - taken);
                    from.lock.clear(std::memory_order_release);
                }
            }
            if (own.empty()) {
                if (done) remaining.fetch_sub(std::exchange(done, 0), std::memory_order_acq_rel);
                if (remaining.load(std::memory_order_acquire) == 0) return;
                std::this_thread::yield();
                continue;
            }
            std::int32_t t = own.back();
            own.pop_back();
            while (t >= 0) {
                peers::body(t);
                ++done;
                std::int32_t next = -1;
                for (std::int64_t i = e.out_start[static_cast<std::size_t>(t)];
                     i < e.out_start[static_cast<std::size_t>(t) + 1]; ++i) {
                    const std::int32_t s = e.successors[static_cast<std::size_t>(i)];
                    if (left[static_cast<std::size_t>(s)].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
                    if (next < 0) {
                        next = s;
                    } else {
                        own.push_back(s);
                    }
                }
                if (own.size() > 64) share(self, own);
                t = next;
            }
        }
    }

    void share(int self, std::vector<std::int32_t>& own) {
        Stack& shelf = stacks[static_cast<std::size_t>(self)];
        if (threads == 1 || shelf.lock.test_and_set(std::memory_order_acquire)) return;
        if (shelf.items.empty()) {
            shelf.items.assign(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2));
            own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2));
        }
        shelf.lock.clear(std::memory_order_release);
    }

    void run() {
        reset();
        std::vector<std::thread> others;
        for (int i = 1; i < threads; ++i) others.emplace_back([this, i] { work(i); });
        work(0);
        for (std::thread& other : others) other.join();
    }
};

}  // namespace

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    peers::measure("join counters by hand (floor)", "fresh", "built", e, o, [&] {
        Floor floor(e, o.threads);
        floor.run();
    });
    Floor floor(e, o.threads);
    peers::measure("join counters by hand (floor)", "replay", "built", e, o, [&] { floor.run(); });
}
