// oneTBB flow graph: one continue_node per task, edges made once; the built graph is then run again.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <memory>

#include "edges.hpp"

namespace tbb = oneapi::tbb;

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(o.threads));
    using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
    struct Built {
        tbb::flow::graph graph;
        std::vector<std::unique_ptr<Node>> nodes;
        explicit Built(const peers::Edges& e) {
            nodes.reserve(static_cast<std::size_t>(e.tasks));
            for (std::int64_t t = 0; t < e.tasks; ++t) {
                nodes.push_back(std::make_unique<Node>(graph, [t](const tbb::flow::continue_msg&) { peers::body(t); }));
                for (std::int64_t i = e.start[t]; i < e.start[t + 1]; ++i) {
                    tbb::flow::make_edge(*nodes[static_cast<std::size_t>(e.preds[i])], *nodes.back());
                }
            }
        }
        void run(const peers::Edges& e) {
            for (std::int64_t t = 0; t < e.tasks; ++t) {
                if (e.start[t] == e.start[t + 1]) nodes[static_cast<std::size_t>(t)]->try_put(tbb::flow::continue_msg());
            }
            graph.wait_for_all();
        }
    };
    peers::measure("oneTBB flow graph", "fresh", "built", e, o, [&] {
        Built built(e);
        built.run(e);
    });
    Built built(e);
    peers::measure("oneTBB flow graph", "replay", "built", e, o, [&] { built.run(e); });
}
