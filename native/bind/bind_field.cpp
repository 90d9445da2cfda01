// whet._native.field: batches over both fields of BN254. Arrays are (n, 4) uint64, little-endian limbs, in Montgomery
// form unless the name says otherwise; operands must be canonical unless the function says otherwise.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/interpreter_lock.hpp"
#include "field/batch.hpp"

namespace nb = nanobind;
using namespace whet;
using namespace whet::bind;

namespace {

using Raw = Rows<4>;

template <class From, class To, class Function>
auto map(const Raw& a, Function&& function) {
    const auto in = elements<From>(a);
    Output<To> out(in.size());
    {
        const Unlocked unlocked;
        for (std::size_t i = 0; i < in.size(); ++i) out.span()[i] = function(in[i]);
    }
    return out.release();
}

template <class Field>
using Binary = void (*BatchOperations<Field>::*)(Field*, const Field*, const Field*, std::size_t);

template <class Field>
auto binary(Binary<Field> operation) {
    return [operation](const Raw& a, const Raw& b) {
        const auto left = elements<Field>(a), right = elements<Field>(b);
        require_same_length(left, right);
        Output<Field> out(left.size());
        {
            const Unlocked unlocked;
            (batch_operations<Field>().*operation)(out.span().data(), left.data(), right.data(), left.size());
        }
        return out.release();
    };
}

template <class Field>
using Unary = void (*BatchOperations<Field>::*)(Field*, const Field*, std::size_t);

template <class Field>
auto unary(Unary<Field> operation) {
    return [operation](const Raw& a) {
        const auto in = elements<Field>(a);
        Output<Field> out(in.size());
        {
            const Unlocked unlocked;
            (batch_operations<Field>().*operation)(out.span().data(), in.data(), in.size());
        }
        return out.release();
    };
}

template <class Field>
void bind_one(nb::module_& m) {
    using Value = typename Field::Value;
    m.attr("modulus") = nb::bytes(reinterpret_cast<const char*>(Field::modulus.data()), sizeof(Value));
    m.def(
        "to_montgomery", [](const Raw& a) { return map<Value, Field>(a, Field::from_canonical); },
        "Montgomery form of any integers below 2^256, reduced.");
    m.def(
        "from_montgomery",
        [](const Raw& a) { return map<Field, Value>(a, [](const Field& x) { return x.canonical(); }); },
        "Canonical limbs.");
    m.def(
        "reduce", [](const Raw& a) { return map<Value, Value>(a, Field::reduce); },
        "Any integers below 2^256 modulo the field's modulus; plain limbs in and out.");
    m.def(
        "first_not_canonical",
        [](const Raw& a) -> std::ptrdiff_t {
            const auto in = elements<Value>(a);
            const Unlocked unlocked;
            for (std::size_t i = 0; i < in.size(); ++i) {
                if (!Field::is_canonical(in[i])) return static_cast<std::ptrdiff_t>(i);
            }
            return -1;
        },
        "Index of the first row that is not below the modulus, or -1.");
    m.def("add", binary<Field>(&BatchOperations<Field>::add));
    m.def("subtract", binary<Field>(&BatchOperations<Field>::subtract));
    m.def("multiply", binary<Field>(&BatchOperations<Field>::multiply));
    m.def("square", unary<Field>(&BatchOperations<Field>::square));
    m.def("invert", unary<Field>(&BatchOperations<Field>::invert),
          "Inverses with one shared inversion; zeros stay zero.");
    m.def("negate", [](const Raw& a) { return map<Field, Field>(a, [](const Field& x) { return -x; }); });
    m.def(
        "invert_each", [](const Raw& a) { return map<Field, Field>(a, [](const Field& x) { return x.inverse(); }); },
        "Inverses one by one; zeros stay zero.");
    m.def(
        "power",
        [](const Raw& a, const Raw& exponents) {
            const auto base = elements<Field>(a);
            const auto exponent = elements<Value>(exponents);
            require_same_length(base, exponent);
            Output<Field> out(base.size());
            {
                const Unlocked unlocked;
                for (std::size_t i = 0; i < base.size(); ++i) out.span()[i] = base[i].power(exponent[i]);
            }
            return out.release();
        },
        "base[i] to the power exponent[i], a plain integer.");
    m.def(
        "square_root",
        [](const Raw& a) {
            const auto in = elements<Field>(a);
            Output<Field> roots(in.size());
            Output<unsigned char, unsigned char> exists(in.size());
            {
                const Unlocked unlocked;
                for (std::size_t i = 0; i < in.size(); ++i) exists.span()[i] = in[i].square_root(roots.span()[i]);
            }
            return nb::make_tuple(roots.release(), exists.release());
        },
        "One of the two roots of each, and 1 where there is one.");
    m.def("backends", [] {
        std::vector<std::string> names;
        for (const auto* backend : batch_backends<Field>()) {
            if (backend->usable()) names.emplace_back(backend->name);
        }
        return names;
    });
    m.def("backend", [] { return std::string(batch_operations<Field>().name); });
    m.def("use_backend", [](const std::string& name) { return select_batch_backend<Field>(name); });
}

}  // namespace

void bind_field(nb::module_& m) {
    auto fp = m.def_submodule("fp", "Coordinates, modulo p");
    bind_one<Fp>(fp);
    auto fr = m.def_submodule("fr", "Scalars, modulo r");
    bind_one<Fr>(fr);
}
