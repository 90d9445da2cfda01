// StarPU with data handles: one handle per task result, read by its successors. Dependencies inferred from data.
#include <starpu.h>

#include "edges.hpp"

namespace {

void run(void**, void* argument) { peers::body(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(argument))); }

}  // namespace

int main(int count, char** values) {
    const auto o = peers::options(count, values);
    const auto e = peers::load(o.path);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = o.threads;
    conf.ncuda = 0;
    conf.nopencl = 0;
    if (starpu_init(&conf) != 0) return 2;
    starpu_codelet codelet;
    starpu_codelet_init(&codelet);
    codelet.cpu_funcs[0] = run;
    codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
    std::vector<char> cells(static_cast<std::size_t>(e.tasks));
    peers::measure("StarPU", "fresh", "inferred", e, o, [&] {
        std::vector<starpu_data_handle_t> handles(static_cast<std::size_t>(e.tasks));
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            starpu_variable_data_register(&handles[static_cast<std::size_t>(t)], STARPU_MAIN_RAM,
                                          reinterpret_cast<std::uintptr_t>(&cells[static_cast<std::size_t>(t)]), 1);
        }
        for (std::int64_t t = 0; t < e.tasks; ++t) {
            starpu_task* task = starpu_task_create();
            task->cl = &codelet;
            task->cl_arg = reinterpret_cast<void*>(static_cast<std::intptr_t>(t));
            const int inputs = static_cast<int>(e.start[t + 1] - e.start[t]);
            task->nbuffers = inputs + 1;
            if (task->nbuffers > STARPU_NMAXBUFS) {
                task->dyn_handles =
                    static_cast<starpu_data_handle_t*>(std::malloc(sizeof(void*) * static_cast<std::size_t>(task->nbuffers)));
                task->dyn_modes = static_cast<starpu_data_access_mode*>(
                    std::malloc(sizeof(starpu_data_access_mode) * static_cast<std::size_t>(task->nbuffers)));
            }
            for (int i = 0; i < inputs; ++i) {
                STARPU_TASK_SET_HANDLE(task, handles[static_cast<std::size_t>(e.preds[e.start[t] + i])], i);
                STARPU_TASK_SET_MODE(task, STARPU_R, i);
            }
            STARPU_TASK_SET_HANDLE(task, handles[static_cast<std::size_t>(t)], inputs);
            STARPU_TASK_SET_MODE(task, STARPU_W, inputs);
            if (starpu_task_submit(task) != 0) std::exit(2);
        }
        starpu_task_wait_for_all();
        for (starpu_data_handle_t handle : handles) starpu_data_unregister(handle);
    });
    starpu_shutdown();
}
