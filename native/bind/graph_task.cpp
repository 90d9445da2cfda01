// whet._native.graph.Task and Call: a submitted task as Python holds it, and a Python body with its arguments.
#include <array>
#include <new>
#include <vector>

#include "graph_callable.hpp"
#include "graph_errors.hpp"
#include "graph_lease.hpp"
#include "graph_objects.hpp"
#include "graph_run.hpp"

namespace whet::bind {

PyTypeObject* call_type = nullptr;
PyTypeObject* task_type = nullptr;

namespace {

// The runtime whose Python body this thread is in, 0: none.
thread_local std::uint64_t inside_serial = 0;

int call_clear(PyObject* self) {
    auto& call = as<CallObject>(self);
    Py_CLEAR(call.body);
    Py_CLEAR(call.arguments);
    Py_CLEAR(call.outputs);
    Py_CLEAR(call.value);
    Py_CLEAR(call.error);
    return 0;
}

int call_traverse(PyObject* self, visitproc visit, void* arg) {
    auto& call = as<CallObject>(self);
    Py_VISIT(call.body);
    Py_VISIT(call.arguments);
    Py_VISIT(call.outputs);
    Py_VISIT(call.value);
    Py_VISIT(call.error);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

void call_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    call_clear(self);
    as<CallObject>(self).errors.~shared_ptr();
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

// The arrays of the arguments are no longer needed; the value may outlive them.
void let_go(CallObject& call) {
    Py_CLEAR(call.body);
    Py_CLEAR(call.arguments);
    Py_CLEAR(call.outputs);
}

// True if the body will not be run; False if it has begun.
PyObject* call_drop(PyObject* self, PyObject*) {
    auto& call = as<CallObject>(self);
    if (!call.begun) {
        call.begun = call.dropped = true;
        let_go(call);
    }
    return PyBool_FromLong(call.dropped);
}

PyObject* call_value(PyObject* self, void*) {
    PyObject* const value = as<CallObject>(self).value;
    PyObject* const answer = value != nullptr ? value : Py_None;
    Py_INCREF(answer);
    return answer;
}

// What a body gets for one argument, a new reference. `fresh` counts the outputs that were given.
PyObject* given_for(PyObject* argument, const CallObject& call, Py_ssize_t& fresh) {
    if (Py_TYPE(argument) == call_type) return call_value(argument, nullptr);
    if (is_tensor(argument)) {
        const auto& tensor = as<TensorObject>(argument);
        if (tensor.array != nullptr) return for_body(tensor);
        argument = PyTuple_GetItem(call.outputs, fresh++);
    }
    Py_XINCREF(argument);
    return argument;
}

// The arguments as they are handed to the body, few of them without an allocation.
class Given {
  public:
    explicit Given(const CallObject& call) {
        const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(call.arguments));
        if (count > few_.size()) many_.resize(count);
        Py_ssize_t fresh = 0;
        for (; count_ < count; ++count_) {
            PyObject* const made =
                given_for(PyTuple_GET_ITEM(call.arguments, static_cast<Py_ssize_t>(count_)), call, fresh);
            if (made == nullptr) return;
            data()[count_] = made;
        }
        complete_ = true;
    }
    ~Given() {
        while (count_ != 0) Py_DECREF(data()[--count_]);
    }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;

    bool complete() const { return complete_; }
    PyObject** data() { return many_.empty() ? few_.data() : many_.data(); }
    std::size_t size() const { return count_; }

  private:
    std::array<PyObject*, 8> few_{};
    std::vector<PyObject*> many_;
    std::size_t count_ = 0;
    bool complete_ = false;
};

// 0 if the body went well; what it raised is kept otherwise. The lock is held.
int run_call(CallObject& call) {
    if (call.begun) return graph::kDroppedBody;
    call.begun = true;
    struct Inside {
        const std::uint64_t outer;
        explicit Inside(std::uint64_t serial) : outer(inside_serial) { inside_serial = serial; }
        ~Inside() { inside_serial = outer; }
    } const inside(call.serial);
    {
        Given given(call);
        if (given.complete()) call.value = PyObject_Vectorcall(call.body, given.data(), given.size(), nullptr);
    }
    int result = 0;
    if (call.value == nullptr) {
        const nb::object error = take_exception();
        const bool is_interrupt = PyErr_GivenExceptionMatches(error.ptr(), PyExc_KeyboardInterrupt) != 0;
        Py_INCREF(error.ptr());
        call.error = error.ptr();
        call.errors->add(call.number, error, is_interrupt);
        result = is_interrupt ? graph::kInterruptedBody : 1;
    }
    let_go(call);
    return result;
}

PyMemberDef call_fields[] = {
    {"error", T_OBJECT, offsetof(CallObject, error), READONLY, "what the body raised"},
    {"dropped", T_BOOL, offsetof(CallObject, dropped), READONLY, "whether it was kept from running"},
    {},
};
PyGetSetDef call_getters[] = {
    {"value", call_value, nullptr, "what the body returned", nullptr},
    {},
};
PyMethodDef call_methods[] = {
    {"drop", call_drop, METH_NOARGS, "Keeps the body from being run; False if it has begun."},
    {},
};
PyType_Slot call_slots[] = {
    {Py_tp_doc, const_cast<char*>("A Python body with its arguments, and what came of it.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(call_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(call_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(call_clear)},
    {Py_tp_members, call_fields},
    {Py_tp_getset, call_getters},
    {Py_tp_methods, call_methods},
    {0, nullptr},
};
PyType_Spec call_spec{"whet._native.graph.Call", sizeof(CallObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, call_slots};

int task_clear(PyObject* self) {
    auto& task = as<TaskObject>(self);
    Py_CLEAR(task.runtime);
    Py_CLEAR(task.name);
    Py_CLEAR(task.outputs);
    Py_CLEAR(task.call);
    Py_CLEAR(task.standard);
    return 0;
}

int task_traverse(PyObject* self, visitproc visit, void* arg) {
    auto& task = as<TaskObject>(self);
    Py_VISIT(task.runtime);
    Py_VISIT(task.name);
    Py_VISIT(task.outputs);
    Py_VISIT(task.call);
    Py_VISIT(task.standard);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

void task_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    task_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* make_task(PyTypeObject* type, PyObject* runtime, graph::TaskId id, PyObject* name, PyObject* outputs,
                    PyObject* call) {
    PyObject* const self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    auto& task = as<TaskObject>(self);
    for (PyObject* held : {runtime, name, outputs, call}) Py_INCREF(held);
    task.runtime = runtime;
    task.name = name;
    task.outputs = outputs;
    task.call = call;
    task.id = id;
    return self;
}

PyObject* task_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"runtime", "id", "name", "outputs", "call", nullptr};
    PyObject *runtime = nullptr, *name = nullptr, *outputs = nullptr, *call = Py_None;
    unsigned long long id = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OKUO!|O", const_cast<char**>(names), &runtime, &id, &name,
                                     &PyTuple_Type, &outputs, &call)) {
        return nullptr;
    }
    return make_task(type, runtime, id, name, outputs, call);
}

PyMemberDef task_fields[] = {
    {"id", T_ULONGLONG, offsetof(TaskObject, id), READONLY, "counts submissions to its runtime from 0"},
    {"name", T_OBJECT_EX, offsetof(TaskObject, name), READONLY, nullptr},
    {"outputs", T_OBJECT_EX, offsetof(TaskObject, outputs), READONLY, "the arrays allocated for it"},
    {"_runtime", T_OBJECT_EX, offsetof(TaskObject, runtime), READONLY, nullptr},
    {"_call", T_OBJECT_EX, offsetof(TaskObject, call), READONLY, nullptr},
    {"_standard", T_OBJECT, offsetof(TaskObject, standard), 0, nullptr},
    {"_withdrawn", T_BOOL, offsetof(TaskObject, withdrawn), 0, nullptr},
    {},
};
PyType_Slot task_slots[] = {
    {Py_tp_doc, const_cast<char*>("The fields of a submitted task.")},
    {Py_tp_new, reinterpret_cast<void*>(task_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(task_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(task_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(task_clear)},
    {Py_tp_members, task_fields},
    {0, nullptr},
};
PyType_Spec task_spec{"whet._native.graph.Task", sizeof(TaskObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, task_slots};

}  // namespace

PyObject* new_call(PyObject* body, PyObject* arguments, PyObject* outputs, std::uint64_t serial,
                   std::shared_ptr<BodyErrors> errors) {
    auto* call = PyObject_GC_New(CallObject, call_type);
    if (call == nullptr) return nullptr;
    Py_INCREF(body);
    Py_INCREF(arguments);
    Py_XINCREF(outputs);
    call->body = body;
    call->arguments = arguments;
    call->outputs = outputs;
    call->value = call->error = nullptr;
    call->number = graph::kNoTask;
    call->serial = serial;
    call->begun = call->dropped = false;
    new (&call->errors) std::shared_ptr<BodyErrors>(std::move(errors));
    PyObject_GC_Track(call);
    return reinterpret_cast<PyObject*>(call);
}

PyObject* new_task(PyObject* runtime, graph::TaskId id, PyObject* name, PyObject* outputs, PyObject* call) {
    return make_task(reinterpret_cast<PyTypeObject*>(face.task), runtime, id, name, outputs, call);
}

std::uint64_t running_serial() { return inside_serial; }

// The submission owns one reference to the call, which the body or the cancellation gives back. The lock is kept for
// the next body of this thread; the core says when there is none.
int run_callable(void* const*, const std::uint64_t*, void* user) {
    return hold_at_exit([user] {
        struct Keep {
            bool done = false;
            ~Keep() {
                if (!done) Lease::give();  // the body ends its thread
            }
        } keep;
        Lease::take();
        const int result = run_call(as<CallObject>(static_cast<PyObject*>(user)));
        Py_DECREF(static_cast<PyObject*>(user));
        Lease::give_after_long();
        keep.done = true;
        return result;
    });
}

void drop_callable(void* user, graph::Kind kind) {
    if (kind != graph::Kind::callable || is_finalizing()) return;
    const Locked lock;
    Py_DECREF(static_cast<PyObject*>(user));
}

}  // namespace whet::bind

void bind_graph_task(nanobind::module_& m) {
    namespace nb = nanobind;
    using namespace whet::bind;
    call_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&call_spec));
    task_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&task_spec));
    if (call_type == nullptr || task_type == nullptr) throw nb::python_error();
    m.attr("Call") = nb::borrow<nb::object>(reinterpret_cast<PyObject*>(call_type));
    m.attr("Task") = nb::borrow<nb::object>(reinterpret_cast<PyObject*>(task_type));
    m.def("running_serial", &running_serial);
}
