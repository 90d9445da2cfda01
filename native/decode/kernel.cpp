// One decode layer as phases of a cooperative kernel: project, attend, W_O, FC1, FC2. Against one launch per phase it
// saves the wake-ups between them; a barrier replaces each. Should buy microseconds per barrier; presses on the slowest
// worker of each phase. Compiled once per instruction set, with and without region timing: WHET_DECODE_ENTRY names it.
#include "decode/kernel.hpp"

#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "decode/attention.hpp"
#include "decode/gemv.hpp"
#include "decode/quantise.hpp"
#include "regions/region.hpp"

#define WHET_DECODE_REGION(id) WHET_REGION((*static_cast<regions::Sheet*>(c.sheet)), worker, id)

namespace whet::decode {
namespace {

// The rows of one worker: whole blocks of 16, as even as they come.
Rows share(std::size_t rows, unsigned worker, unsigned workers) {
    const std::size_t blocks = (rows + lanes - 1) / lanes;
    const std::size_t end = blocks * (worker + 1) / workers * lanes;
    return {blocks * worker / workers * lanes, end < rows ? end : rows};
}

// Calls body(owner, unit) for units of this product until none is left: the worker's own first, then the others'.
template <class Units, class Body>
WHET_INLINE void each_unit(Context& c, Product product, unsigned worker, Units&& units_of, Body&& body) {
    for (unsigned i = 0; i < c.workers; ++i) {
        const unsigned owner = (worker + i) % c.workers;
        Claims& claims = c.claims[static_cast<std::size_t>(product) * c.workers + owner];
        std::size_t units = units_of(owner);
        if (WHET_DECODE_PLANT(last_unit_unclaimed) && units > 0) --units;
        if (WHET_DECODE_PLANT(share_of_next_worker_lost) && owner == 1) units = 0;
        for (std::size_t unit = 0; claims.claim(units, i == 0, unit);) body(owner, unit);
        if (!c.variant.claimed) return;
    }
}

void arrive_and_wait(Context& c, std::atomic<std::uint32_t>& arrived) {
    const bool relaxed = WHET_DECODE_PLANT(barrier_relaxed);
    const auto publish = relaxed ? std::memory_order_relaxed : std::memory_order_acq_rel;
    const auto acquire = relaxed ? std::memory_order_relaxed : std::memory_order_acquire;
    if (arrived.fetch_add(1, publish) + 1 == c.workers) {
        if (!c.variant.spin) arrived.notify_all();
        return;
    }
    constexpr unsigned spins_before_yield = 4096;  // a worker that lost its core must be able to get it back
    unsigned spins = 0;
    for (auto seen = arrived.load(acquire); seen < c.workers; seen = arrived.load(acquire)) {
        if (!c.variant.spin && spins == c.spins_before_sleep) {
            arrived.wait(seen, acquire);
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
        sum = fused(v, v, sum);
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
    const auto rows_of = [&](Product product, const Matrix& m, std::size_t offset) {
        const auto plan = [&](unsigned owner) { return plan_rows(c, m, share(m.rows, owner, c.workers)); };
        const auto units = [&](unsigned owner) { return plan(owner).units(); };
        each_unit(c, product, worker, units, [&](unsigned owner, std::size_t unit) {
            multiply(c, m, plan(owner).part(unit), 0, m.blocks(), normed, c.x_stride, c.qkv + offset, c.q_stride);
        });
    };
    rows_of(Product::q, c.weights.q, 0);
    if (!shape.own_token) return;
    rows_of(Product::k, c.weights.k, shape.q_size());
    rows_of(Product::v, c.weights.v, shape.q_size() + shape.kv_size());
}

void attend_all(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_attend);
    const std::size_t heads = c.shape.kv_heads;
    float* scratch = c.scratch + worker * c.scratch_stride;
    const std::size_t tasks = c.step.batch * heads;
    const auto first_of = [&](unsigned owner) { return tasks * owner / c.workers; };
    const auto units = [&](unsigned owner) { return first_of(owner + 1) - first_of(owner); };
    each_unit(c, Product::attend, worker, units, [&](unsigned owner, std::size_t unit) {
        const std::size_t task = first_of(owner) + unit;
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
    });
}

// The last worker to finish rows adds the slots up from the first to the last, adds x, and normalises.
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
class Slot {
  public:
    Slot(Context& c, unsigned worker) : c_(c), masked_(c.scratch + worker * c.scratch_stride) {}

    // Rows of slot s; true where they were the last of all slots.
    bool multiply_rows(std::size_t s, const Part& part) {
        if (s != made_) make(s);
        float* slot = c_.slots + s * c_.step.batch * c_.shape.hidden;
        if (!(WHET_DECODE_PLANT(wo_slot_lost) && s + 1 == c_.variant.wo_split)) {
            multiply(c_, c_.weights.o, part, first_, last_, masked_, c_.shape.q_size(), slot, c_.shape.hidden);
        }
        const std::uint64_t all = c_.variant.wo_split * c_.shape.hidden;
        return c_.wo_rows_done.fetch_add(part.count(), std::memory_order_acq_rel) + part.count() == all;
    }

  private:
    void make(std::size_t s) {
        const std::size_t columns = c_.shape.q_size();
        const std::size_t split = c_.variant.wo_split;
        const std::size_t begin = columns * s / split;
        const std::size_t overlap = WHET_DECODE_PLANT(wo_split_overlaps) && s + 1 < split ? 1 : 0;
        const std::size_t end = columns * (s + 1) / split + overlap;
        first_ = begin / lanes;
        last_ = (end + lanes - 1) / lanes;
        for (std::size_t b = 0; b < c_.padded_batch; ++b) {
            float* row = masked_ + b * columns;
            std::memset(row + first_ * lanes, 0, (last_ - first_) * lanes * sizeof(float));
            std::memcpy(row + begin, c_.attended + b * columns + begin, (end - begin) * sizeof(float));
        }
        made_ = s;
    }

    Context& c_;
    float* masked_;
    std::size_t made_ = SIZE_MAX, first_ = 0, last_ = 0;
};

// Claimed: every slot's rows are shared like those of any product. Fixed: a slot is the work of one worker.
void project_out(Context& c, unsigned worker) {
    if (!c.variant.claimed && worker >= c.variant.wo_split) return;
    bool last_to_come = false;
    {
        WHET_DECODE_REGION(region_wo);
        Slot slot(c, worker);
        const Matrix& m = c.weights.o;
        const auto plan = [&](Rows rows) { return plan_rows(c, m, rows); };
        if (c.variant.claimed) {
            const auto rows = [&](unsigned owner) { return plan(share(m.rows, owner, c.workers)); };
            const auto units = [&](unsigned owner) { return rows(owner).units() * c.variant.wo_split; };
            each_unit(c, Product::wo, worker, units, [&](unsigned owner, std::size_t unit) {
                const Plan own = rows(owner);
                if (slot.multiply_rows(unit / own.units(), own.part(unit % own.units()))) last_to_come = true;
            });
        } else {
            const Plan all = plan({0, m.rows});
            for (std::size_t s = worker; s < c.variant.wo_split; s += c.workers) {
                for (std::size_t unit = 0; unit < all.units(); ++unit) {
                    if (slot.multiply_rows(s, all.part(unit))) last_to_come = true;
                }
            }
        }
    }
    if (last_to_come) {
        WHET_DECODE_REGION(region_gather);
        gather(c);
    }
}

// g, u and h of the MLP, each (max_batch, h_stride): one for all, or one per worker that computes everything itself.
float* fc1_rows(const Context& c, unsigned worker) {
    return c.fc1 + (c.variant.fc1_shared ? 0 : worker) * 3 * max_batch * c.h_stride;
}

// h = silu(g) * u for `count` elements from `at`, which need not be whole blocks.
void activate(const Context& c, float* g, std::size_t at, std::size_t count) {
    float* u = g + max_batch * c.h_stride;
    float* h = u + max_batch * c.h_stride;
    if (WHET_DECODE_PLANT(silu_on_up)) std::swap(g, u);
    const auto block = [&](const float* left_at, const float* right_at, float* to) {
        const F left = load(left_at);
        F product = (left * sigmoid(left)) * load(right_at);
        if (c.shape.quantise) product = rounded_to_fp4(product);
        store(to, product);
    };
    for (std::size_t b = 0; b < c.step.batch; ++b) {
        const std::size_t first = b * c.h_stride + at;
        std::size_t done = 0;
        for (; done + lanes <= count; done += lanes) block(g + first + done, u + first + done, h + first + done);
        if (done == count) continue;
        float part[3][lanes] = {};
        const std::size_t size = (count - done) * sizeof(float);
        std::memcpy(part[0], g + first + done, size);
        std::memcpy(part[1], u + first + done, size);
        block(part[0], part[1], part[2]);
        std::memcpy(h + first + done, part[2], size);
    }
}

// Gate and up of the same rows go one after the other, so that whoever has both makes h of them.
void expand(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_fc1);
    const Matrix& gate = c.weights.gate;
    float* g = fc1_rows(c, worker);
    const std::size_t whole = c.shape.quantise ? lanes : 1;  // a block is rounded by one worker
    const auto plan = [&](Rows rows) {
        if (WHET_DECODE_PLANT(fc1_last_rows_stale) && rows.count() > 0 && rows.end == gate.rows) rows.end -= 1;
        return Plan(rows, rows_together(c, gate), whole, lanes);
    };
    const auto compute = [&](const Part& part) {
        multiply(c, gate, part, 0, gate.blocks(), c.normed, c.x_stride, g, c.h_stride);
        multiply(c, c.weights.up, part, 0, gate.blocks(), c.normed, c.x_stride, g + max_batch * c.h_stride, c.h_stride);
        for (std::size_t stream = 0; stream < part.streams; ++stream) {
            activate(c, g, part.row + stream * part.apart, part.rows);
        }
        activate(c, g, part.rest.begin, part.rest.count());
    };
    if (!c.variant.fc1_shared) {
        const Plan all = plan({0, gate.rows});
        for (std::size_t unit = 0; unit < all.units(); ++unit) compute(all.part(unit));
        return;
    }
    const auto rows = [&](unsigned owner) { return plan(share(gate.rows, owner, c.workers)); };
    const auto units = [&](unsigned owner) { return rows(owner).units(); };
    each_unit(c, Product::fc1, worker, units,
              [&](unsigned owner, std::size_t unit) { compute(rows(owner).part(unit)); });
}

void contract(Context& c, unsigned worker) {
    WHET_DECODE_REGION(region_fc2);
    const std::size_t n = c.shape.hidden;
    const Matrix& down = c.weights.down;
    const float* h = fc1_rows(c, worker) + 2 * max_batch * c.h_stride;
    const auto add_residual = [&](std::size_t row, std::size_t count) {
        for (std::size_t b = 0; b < c.step.batch && !WHET_DECODE_PLANT(final_residual_missing); ++b) {
            float* out = c.step.out + b * n;
            for (std::size_t k = row; k < row + count; ++k) out[k] = out[k] + c.residual[b * n + k];
        }
    };
    const auto plan = [&](unsigned owner) { return plan_rows(c, down, share(n, owner, c.workers)); };
    const auto units = [&](unsigned owner) { return plan(owner).units(); };
    each_unit(c, Product::fc2, worker, units, [&](unsigned owner, std::size_t unit) {
        const Part part = plan(owner).part(unit);
        multiply(c, down, part, 0, down.blocks(), h, c.h_stride, c.step.out, n);
        for (std::size_t stream = 0; stream < part.streams; ++stream) {
            add_residual(part.row + stream * part.apart, part.rows);
        }
        add_residual(part.rest.begin, part.rest.count());
    });
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
