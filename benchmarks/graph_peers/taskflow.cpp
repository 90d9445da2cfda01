// Taskflow: the built form and its replay, and the form whose dependencies are given while running.
#include <taskflow/taskflow.hpp>

#include "edges.hpp"

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    tf::Executor executor(static_cast<std::size_t>(o.threads));
    const auto build = [&](tf::Taskflow& flow) {
        std::vector<tf::Task> tasks;
        tasks.reserve(static_cast<std::size_t>(e.tasks));
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            tasks.push_back(flow.emplace([t] { peers::body(t); }));
            for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
                tasks[static_cast<std::size_t>(e.preds[i])].precede(tasks.back());
            }
        }
    };
    peers::measure("Taskflow", "fresh", "built", e, o, [&] {
        tf::Taskflow flow;
        build(flow);
        executor.run(flow).wait();
    });
    tf::Taskflow flow;
    build(flow);
    peers::measure("Taskflow", "replay", "built", e, o, [&] { executor.run(flow).wait(); });
    peers::measure("Taskflow async", "fresh", "explicit", e, o, [&] {
        std::vector<tf::AsyncTask> tasks;
        tasks.reserve(static_cast<std::size_t>(e.tasks));
        std::vector<tf::AsyncTask> before;
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            before.clear();
            for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
                before.push_back(tasks[static_cast<std::size_t>(e.preds[i])]);
            }
            tasks.push_back(
                executor.silent_dependent_async([t] { peers::body(t); }, before.begin(), before.end()));
        }
        executor.wait_for_all();
    });
}
