// One decode layer as phases of a cooperative kernel: project, attend, W_O, FC1, FC2. Against one launch per phase it
// saves the wake-ups between them; a barrier replaces each. Should buy microseconds per barrier; presses on the slowest
// worker of each phase. Compiled once per instruction set, with and without region timing: WHET_DECODE_ENTRY names it.
#include "decode/kernel.hpp"

#include <cmath>
#include <cstring>
#include <thread>

#include "decode/attention.hpp"
#include "decode/gemv.hpp"
#include "decode/quantise.hpp"
#include "regions/region.hpp"

#define WHET_DECODE_REGION(id) WHET_REGION((*static_cast<regions::Sheet*>(c.sheet)), worker, id)

namespace whet::decode {
namespace {

struct Rows {
    std::size_t begin, end;
};

// The rows of one worker: whole blocks of 16, as even as they come.
Rows share(std::size_t rows, unsigned worker, unsigned workers) {
    const std::size_t blocks = (rows + lanes - 1) / lanes;
    const std::size_t end = blocks * (worker + 1) / workers * lanes;
    return {blocks * worker / workers * lanes, end < rows ? end : rows};
}

void arrive_and_wait(Context& c, std::atomic<std::uint32_t>& arrived) {
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == c.workers) {
        if (!c.variant.spin) arrived.notify_all();
        return;
    }
    constexpr unsigned spins_before_yield = 4096;  // a worker that lost its core must be able to get it back
    unsigned spins = 0;
    for (auto seen = arrived.load(std::memory_order_acquire); seen < c.workers;
         seen = arrived.load(std::memory_order_acquire)) {
        if (!c.variant.spin && spins == c.spins_before_sleep) {
            arrived.wait(seen, std::memory_order_acquire);
        } else if (++spins % spins_before_yield == 0) {
            std::this_thread::yield();
        } else {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }
}

// out = x / sqrt(mean(x^2) + eps) * weight, padded with zeros to whole blocks. The sum has the order of a row product.
void normalise(const Context& c, const float* x, const float* weight, float* out) {
    const std::size_t n = c.shape.hidden;
    F sum = {};
    std::memcpy(out, x, n * sizeof(float));
    std::memset(out + n, 0, (c.x_stride - n) * sizeof(float));
    for (std::size_t k = 0; k < c.x_stride; k += lanes) {
        const F v = load(out + k);
        sum = sum + v * v;
    }
    const std::size_t divisor = WHET_DECODE_PLANT(norm_divides_by_padding) ? c.x_stride : n;
    const float mean = fold(sum) / static_cast<float>(divisor);
    const float factor = 1.0F / std::sqrt(mean + (WHET_DECODE_PLANT(norm_ignores_eps) ? 0.0F : c.shape.eps));
    for (std::size_t k = 0; k < n; ++k) {
        out[k] = (x[k] * factor) * (WHET_DECODE_PLANT(norm_drops_weight) ? 1.0F : weight[k]);
    }
}

// Every worker normalises for itself: cheaper than a barrier, and the bits are the same.
void project(Context& c, unsigned worker) {
    const Shape& shape = c.shape;
    float* normed = c.scratch + worker * c.scratch_stride;
    {
        WHET_DECODE_REGION(region_norm);
        for (std::size_t b = 0; b < c.step.batch; ++b) {
            const std::size_t from = WHET_DECODE_PLANT(batch_rows_mixed) && b > 0 ? b - 1 : b;
            normalise(c, c.step.x + from * shape.hidden, c.weights.norm_attention, normed + b * c.x_stride);
        }
    }
    WHET_DECODE_REGION(region_project);
    const auto rows_of = [&](const Matrix& m, std::size_t offset) {
        const Rows rows = share(m.rows, worker, c.workers);
        multiply(c, m, rows.begin, rows.end, 0, m.blocks(), normed, c.x_stride, c.qkv + offset, c.q_stride);
    };
    rows_of(c.weights.q, 0);
    if (!shape.own_token) return;
    rows_of(c.weights.k, shape.q_size());
    rows_of(c.weights.v, shape.q_size() + shape.kv_size());
}

void attend_all(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_attend);
    const std::size_t heads = c.shape.kv_heads;
    float* scratch = c.scratch + worker * c.scratch_stride;
    for (std::size_t task = worker; task < c.step.batch * heads; task += c.workers) {
        switch (c.step.kv) {
            case KvType::f32:
                attend<KvType::f32>(c, task / heads, task % heads, scratch);
                break;
            case KvType::bf16:
                attend<KvType::bf16>(c, task / heads, task % heads, scratch);
                break;
            case KvType::e4m3:
                attend<KvType::e4m3>(c, task / heads, task % heads, scratch);
                break;
        }
    }
}

// The last worker to finish a slot adds the slots up from the first to the last, adds x, and normalises.
void gather(Context& c) {
    const std::size_t n = c.shape.hidden;
    for (std::size_t b = 0; b < c.step.batch; ++b) {
        float* residual = c.residual + b * n;
        for (std::size_t k = 0; k < n; ++k) {
            float sum = c.slots[b * n + k];
            for (std::size_t s = 1; s < c.variant.wo_split; ++s) sum = sum + c.slots[(s * c.step.batch + b) * n + k];
            residual[k] = sum + (WHET_DECODE_PLANT(residual_not_added) ? 0.0F : c.step.x[b * n + k]);
        }
        normalise(c, residual, c.weights.norm_mlp, c.normed + b * c.x_stride);
    }
}

// A slot is a range of K in its own row of `slots`. Columns of a border block that belong to the neighbour are zero in
// the copy that the slot multiplies with, so a border needs no alignment in any type of weight.
void project_out(Context& c, unsigned worker) {
    const std::size_t columns = c.shape.q_size();
    const std::size_t split = c.variant.wo_split;
    float* masked = c.scratch + worker * c.scratch_stride;
    for (std::size_t s = worker; s < split; s += c.workers) {
        bool last_to_come = false;
        {
            WHET_DECODE_REGION(region_wo);
            const std::size_t begin = columns * s / split;
            const std::size_t overlap = WHET_DECODE_PLANT(wo_split_overlaps) && s + 1 < split ? 1 : 0;
            const std::size_t end = columns * (s + 1) / split + overlap;
            const std::size_t first = begin / lanes;
            const std::size_t last = (end + lanes - 1) / lanes;
            for (std::size_t b = 0; b < c.padded_batch; ++b) {
                float* row = masked + b * columns;
                std::memset(row + first * lanes, 0, (last - first) * lanes * sizeof(float));
                std::memcpy(row + begin, c.attended + b * columns + begin, (end - begin) * sizeof(float));
            }
            float* slot = c.slots + s * c.step.batch * c.shape.hidden;
            if (!(WHET_DECODE_PLANT(wo_slot_lost) && s + 1 == split)) {
                multiply(c, c.weights.o, 0, c.shape.hidden, first, last, masked, columns, slot, c.shape.hidden);
            }
            last_to_come = c.slots_done.fetch_add(1, std::memory_order_acq_rel) + 1 == split;
        }
        if (last_to_come) {
            WHET_DECODE_REGION(region_gather);
            gather(c);
        }
    }
}

// g, u and h of the MLP, each (max_batch, h_stride): one for all, or one per worker that computes everything itself.
float* fc1_rows(const Context& c, unsigned worker) {
    return c.fc1 + (c.variant.fc1_shared ? 0 : worker) * 3 * max_batch * c.h_stride;
}

void expand(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_fc1);
    const Rows all_rows{0, c.shape.intermediate};
    Rows rows = c.variant.fc1_shared ? share(c.shape.intermediate, worker, c.workers) : all_rows;
    if (WHET_DECODE_PLANT(fc1_last_rows_stale) && rows.end == all_rows.end) rows.end -= 1;
    float* g = fc1_rows(c, worker);
    float* u = g + max_batch * c.h_stride;
    float* h = u + max_batch * c.h_stride;
    const auto multiply_rows = [&](const Matrix& m, float* out) {
        multiply(c, m, rows.begin, rows.end, 0, m.blocks(), c.normed, c.x_stride, out, c.h_stride);
    };
    multiply_rows(c.weights.gate, g);
    multiply_rows(c.weights.up, u);
    for (std::size_t b = 0; b < c.step.batch; ++b) {
        for (std::size_t k = rows.begin; k < rows.end; k += lanes) {
            const std::size_t at = b * c.h_stride + k;
            const F left = load((WHET_DECODE_PLANT(silu_on_up) ? u : g) + at);
            const F right = load((WHET_DECODE_PLANT(silu_on_up) ? g : u) + at);
            F product = (left * sigmoid(left)) * right;
            if (c.shape.quantise) product = rounded_to_fp4(product);
            store(h + at, product);
        }
    }
}

void contract(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_fc2);
    const std::size_t n = c.shape.hidden;
    const Rows rows = share(n, worker, c.workers);
    const float* h = fc1_rows(c, worker) + 2 * max_batch * c.h_stride;
    multiply(c, c.weights.down, rows.begin, rows.end, 0, c.weights.down.blocks(), h, c.h_stride, c.step.out, n);
    for (std::size_t b = 0; b < c.step.batch && !WHET_DECODE_PLANT(final_residual_missing); ++b) {
        for (std::size_t k = rows.begin; k < rows.end; ++k) {
            c.step.out[b * n + k] = c.step.out[b * n + k] + c.residual[b * n + k];
        }
    }
}

}  // namespace

void WHET_DECODE_ENTRY(Context& c, int first, int last, unsigned worker) {
    constexpr void (*phases[phase_count])(Context&, unsigned) = {project, attend_all, project_out, expand, contract};
    constexpr std::size_t waits[barrier_count] = {region_wait_project, region_wait_attend, region_wait_wo,
                                                  region_wait_fc1};
    for (int phase = first; phase < last; ++phase) {
        phases[phase](c, worker);
        const bool own_fc1 = phase == 3 && !c.variant.fc1_shared;  // FC2 then reads what this worker wrote itself
        if (phase + 1 == last || own_fc1) continue;
        WHET_DECODE_REGION(waits[phase]);
        arrive_and_wait(c, c.arrived[phase]);
    }
}

}  // namespace whet::decode
