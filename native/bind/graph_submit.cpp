// whet._native.graph.Submitter: the base of Runtime in Python, with the one call that a program makes per task. Nothing
// of Python runs in it unless something is rare or wrong.
#include <array>
#include <cstring>
#include <vector>

#include "graph_array.hpp"
#include "graph_objects.hpp"
#include "graph_runtime.hpp"

namespace whet::bind {

namespace {

struct SubmitterObject {
    PyObject_HEAD PyObject* native;  // the Runtime of graph_runtime.hpp
    BoundRuntime* runtime;           // the same
    PyObject* names;                 // text -> number in the runtime
    PyObject* recording;             // None, or what notes submissions
    unsigned long long serial;
    bool closed;
};

// Raised where it was found wrong; what has been set comes out of submit().
struct Refused {};

PyObject* sure(PyObject* made) {
    if (made == nullptr) throw Refused();
    return made;
}

nb::object called(PyObject* function, PyObject* a, PyObject* b = nullptr, PyObject* c = nullptr) {
    PyObject* given[] = {a, b, c};
    const std::size_t count = b == nullptr ? 1 : c == nullptr ? 2 : 3;
    return nb::steal<nb::object>(sure(PyObject_Vectorcall(function, given, count, nullptr)));
}

// Few of them without an allocation.
template <class Item, std::size_t kFew>
class Row {
  public:
    Item& add() {
        if (many_.empty() && count_ < kFew) return few_[count_++];
        if (many_.empty()) many_.assign(few_.begin(), few_.end());
        ++count_;
        return many_.emplace_back();
    }
    Item* data() { return many_.empty() ? few_.data() : many_.data(); }
    std::size_t size() const { return count_; }

  private:
    std::array<Item, kFew> few_{};
    std::vector<Item> many_;
    std::size_t count_ = 0;
};

// One call of submit().
class Submission {
  public:
    Submission(PyObject* runtime, PyObject* body, PyObject* const* arguments, Py_ssize_t count)
        : self_(runtime), own_(as<SubmitterObject>(runtime)), body_(body), arguments_(arguments), count_(count) {}

    PyObject* run(PyObject* after, PyObject* name) {
        resolve();
        label(name);
        if (after != nullptr && !(PyTuple_CheckExact(after) && PyTuple_GET_SIZE(after) == 0)) wait_for_all(after);
        for (Py_ssize_t at = 0; at < count_; ++at) enter(arguments_[at]);
        point_views();
        if (PyObject_TypeCheck(body_, body_type)) {
            submit_native();
        } else if (body_ == Py_None) {
            submit_spec();
        } else {
            submit_python();
        }
        return made();
    }

  private:
    bool is_python() const { return body_ != Py_None && !is_body(body_); }

    // What the body is, and its arguments in the order that it takes them.
    void resolve() {
        if (PyObject_TypeCheck(body_, reinterpret_cast<PyTypeObject*>(face.function))) {
            const nb::object given = tuple_of(arguments_, count_);
            static PyObject* const prepared = PyUnicode_InternFromString("prepared");
            held_ = nb::steal<nb::object>(sure(PyObject_CallMethodOneArg(body_, prepared, given.ptr())));
            body_ = PyTuple_GetItem(held_.ptr(), 0);
            PyObject* const directed = PyTuple_GetItem(held_.ptr(), 1);
            arguments_ = &PyTuple_GET_ITEM(directed, 0);
            count_ = PyTuple_GET_SIZE(directed);
        }
        const bool is_plain = body_ == Py_None || is_body(body_) || PyFunction_Check(body_) ||
                              PyCFunction_Check(body_) || PyMethod_Check(body_);
        if (is_plain) return;
        resolved_ = called(face.resolve, body_);
        body_ = resolved_.ptr();
    }

    static nb::object tuple_of(PyObject* const* items, Py_ssize_t count) {
        nb::object made = nb::steal<nb::object>(sure(PyTuple_New(count)));
        for (Py_ssize_t at = 0; at < count; ++at) {
            Py_INCREF(items[at]);
            PyTuple_SET_ITEM(made.ptr(), at, items[at]);
        }
        return made;
    }

    void label(PyObject* name) {
        if (name != nullptr && name != Py_None) {
            if (!PyUnicode_Check(name)) sure(refuse_with("name=%R is not text", name, "a string"));
            if (PyUnicode_GET_LENGTH(name) != 0) label_ = nb::borrow<nb::object>(name);
        }
        if (!label_.is_valid()) {
            label_ = is_body(body_)            ? nb::borrow<nb::object>(as<BodyObject>(body_).name)
                     : PyFunction_Check(body_) ? nb::borrow<nb::object>(as<PyFunctionObject>(body_).func_name)
                                               : called(face.name_of, body_);
        }
        PyObject* const known = PyDict_GetItemWithError(own_.names, label_.ptr());
        if (known == nullptr) {
            if (PyErr_Occurred()) throw Refused();
            const char* const text = PyUnicode_AsUTF8(label_.ptr());
            if (text == nullptr) {
                PyErr_Clear();
                sure(refuse_with("name=%R is not text", label_.ptr(), "a string that can be encoded"));
            }
            const std::uint32_t number = own_.runtime->name_task(text);
            const nb::object held = nb::steal<nb::object>(sure(PyLong_FromUnsignedLong(number)));
            if (PyDict_SetItem(own_.names, label_.ptr(), held.ptr()) != 0) throw Refused();
            spec_.name = number;
            return;
        }
        spec_.name = static_cast<std::uint32_t>(PyLong_AsUnsignedLong(known));
    }

    static PyObject* refuse_with(const char* form, PyObject* what, const char* cure) {
        const nb::object cause = nb::steal<nb::object>(sure(PyUnicode_FromFormat(form, what)));
        return refuse(PyUnicode_AsUTF8(cause.ptr()), cure);
    }

    void wait_for_all(PyObject* after) {
        const bool is_one = is_task(after) || PyLong_Check(after);
        const nb::object all = is_one ? nb::object() : nb::steal<nb::object>(PySequence_Fast(after, "after"));
        if (!all.is_valid()) {
            if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw Refused();
            PyErr_Clear();
            sure(refuse_with("after=%R is not a list of tasks", after, "after=[task, ...]"));
        }
        // Asking for a number may run code that changes a list.
        for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(all.ptr()); ++at) {
            wait_for(nb::borrow<nb::object>(PySequence_Fast_GET_ITEM(all.ptr(), at)));
        }
    }

    void wait_for(const nb::object& task) {
        if (is_task(task.ptr()) && as<TaskObject>(task.ptr()).runtime == self_) {
            before_.push_back(as<TaskObject>(task.ptr()).id);
            return;
        }
        static PyObject* const id_of = PyUnicode_InternFromString("_id_of");
        const nb::object number = nb::steal<nb::object>(sure(PyObject_CallMethodOneArg(self_, id_of, task.ptr())));
        before_.push_back(PyLong_AsUnsignedLongLong(number.ptr()));
        if (PyErr_Occurred()) throw Refused();
    }

    void enter(PyObject* argument) {
        if (is_tensor(argument)) {
            enter_tensor(as<TensorObject>(argument), argument);
        } else if (is_task(argument)) {
            wait_for(nb::borrow<nb::object>(argument));
            has_tasks_ = true;
        } else if (!is_python()) {
            scalars_.add() = word_of(argument);
        } else if (is_array(argument)) {
            sure(refuse("an array argument has no direction", "In(array), InOut(array), ..."));
        }
    }

    static std::uint64_t word_of(PyObject* value) {
        if (PyFloat_CheckExact(value)) {
            const double number = PyFloat_AS_DOUBLE(value);
            std::uint64_t word = 0;
            static_assert(sizeof word == sizeof number);
            std::memcpy(&word, &number, sizeof word);
            return word;
        }
        if (PyLong_CheckExact(value)) {
            int overflow = 0;
            const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow == 0) return static_cast<std::uint64_t>(number);
        }
        const nb::object word = called(face.scalar_word, value);
        return PyLong_AsUnsignedLongLong(word.ptr());
    }

    void enter_tensor(const TensorObject& tensor, PyObject* given) {
        Tensor& entered = tensors_.add();
        entered.object = given;
        if (tensor.array == nullptr) {
            allocate(tensor, given, entered.arg);
            return;
        }
        const auto direction = static_cast<Direction>(tensor.direction);
        Located found;
        if (locate(tensor.array, found)) {
            const ArrayHead& head = head_of(tensor.array);
            entered.arg.base = found.base;
            entered.arg.direction = direction;
            entered.arg.buffer_bytes = static_cast<std::uint64_t>(found.bytes);
            static_assert(sizeof(Py_intptr_t) == sizeof(std::int64_t));
            make_region(static_cast<std::uint64_t>(head.data - found.base),
                        static_cast<std::uint64_t>(found.item_bytes), head.dimensions,
                        reinterpret_cast<const std::int64_t*>(head.shape),
                        reinterpret_cast<const std::int64_t*>(head.strides), entered.view, entered.arg.region);
            if (is_body(body_)) check_strides(head);
            return;
        }
        if (PyErr_Occurred()) throw Refused();
        const nb::object serial = nb::steal<nb::object>(sure(PyLong_FromUnsignedLongLong(own_.serial)));
        const nb::object fields = called(face.describe, given, serial.ptr());
        describe(nb::cast<nb::tuple>(fields), entered.arg, entered.view);
        if (is_body(body_)) check_strides(head_of(tensor.array));
    }

    static void check_strides(const ArrayHead& head) {
        bool is_backward = false;
        for (int axis = 0; axis < head.dimensions; ++axis) {
            if (head.shape[axis] == 0) return;
            is_backward = is_backward || head.strides[axis] < 0;
        }
        if (is_backward) {
            sure(refuse("a view with negative strides is passed to a native body, which sees only its lowest address",
                        "pass the array it is a view of, or np.ascontiguousarray"));
        }
    }

    // Memory for an output. Waits while others hold too much of it.
    void allocate(const TensorObject&, PyObject* given, TensorArg& arg) {
        const nb::object bytes = nb::steal<nb::object>(sure(PyObject_GetAttrString(given, "nbytes")));
        const std::uint64_t wanted = PyLong_AsUnsignedLongLong(bytes.ptr());
        if (PyErr_Occurred()) throw Refused();
        const nb::object block = nb::cast(own_.runtime->allocate(wanted));
        const auto& memory = *nb::inst_ptr<OutputBlock>(block);
        const nb::object serial = nb::steal<nb::object>(sure(PyLong_FromUnsignedLongLong(own_.serial)));
        outputs_.push_back(called(face.output, given, block.ptr(), serial.ptr()));
        arg.base = reinterpret_cast<void*>(memory.address());
        arg.direction = Direction::out;
        arg.fresh = true;
        arg.bytes = arg.buffer_bytes = memory.bytes();
    }

    // A region points at the view beside it, which may have moved since.
    void point_views() {
        args_.reserve(tensors_.size());
        for (std::size_t at = 0; at < tensors_.size(); ++at) {
            Tensor& tensor = tensors_.data()[at];
            if (tensor.arg.region.view != nullptr) tensor.arg.region.view = &tensor.view;
            args_.push_back(tensor.arg);
        }
        spec_.tensors = args_;
        spec_.scalars = {scalars_.data(), scalars_.size()};
        spec_.dependencies = before_;
        nb::object made = nb::steal<nb::object>(sure(PyTuple_New(static_cast<Py_ssize_t>(outputs_.size()))));
        for (std::size_t at = 0; at < outputs_.size(); ++at) {
            PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(at), outputs_[at].inc_ref().ptr());
        }
        arrays_ = std::move(made);
    }

    void submit_spec() { own_.runtime->submit(spec_, id_); }

    void submit_native() {
        const auto& body = as<BodyObject>(body_);
        if (body.address != 0) {
            spec_.body = reinterpret_cast<Body>(body.address);
            spec_.user = reinterpret_cast<void*>(body.user);
            spec_.kind = body.built_in ? Kind::kernel : Kind::native;
        }
        submit_spec();
        if (!body.built_in || body.user != 0) own_.runtime->keep(id_, body_);
        for (std::size_t at = 0; at < tensors_.size(); ++at) {
            PyObject* const array = as<TensorObject>(tensors_.data()[at].object).array;
            if (array != nullptr) own_.runtime->keep(id_, array);
        }
        for (const nb::object& output : outputs_) own_.runtime->keep(id_, output);
    }

    void submit_python() {
        nb::object arguments = tuple_of(arguments_, count_);
        for (Py_ssize_t at = 0; has_tasks_ && at < count_; ++at) {
            if (!is_task(arguments_[at])) continue;
            PyObject* const call = as<TaskObject>(arguments_[at]).call;
            Py_INCREF(call);
            PyTuple_SetItem(arguments.ptr(), at, call);
        }
        call_ = nb::steal<nb::object>(sure(new_call(body_, arguments.ptr(), outputs_.empty() ? nullptr : arrays_.ptr(),
                                                    own_.serial, own_.runtime->errors())));
        spec_.body = run_callable;
        spec_.user = call_.inc_ref().ptr();
        spec_.kind = Kind::callable;
        TaskId& number = as<CallObject>(call_.ptr()).number;
        try {
            own_.runtime->submit(spec_, number);
        } catch (...) {
            call_.dec_ref();
            throw;
        }
        id_ = number;
    }

    // The task as Python gets it.
    PyObject* made() {
        for (const nb::object& output : outputs_) {
            const nb::object number = nb::steal<nb::object>(sure(PyLong_FromUnsignedLongLong(id_)));
            PyObject* const memory = head_of(output.ptr()).base;
            if (PyObject_SetAttrString(memory, "owner", number.ptr()) != 0) throw Refused();
        }
        PyObject* const call = call_.is_valid() ? call_.ptr() : Py_None;
        nb::object task = nb::steal<nb::object>(sure(new_task(self_, id_, label_.ptr(), arrays_.ptr(), call)));
        if (own_.recording != nullptr && own_.recording != Py_None) note(task);
        return task.release().ptr();
    }

    void note(const nb::object& task) {
        const nb::object words =
            nb::cast(std::vector<std::uint64_t>(scalars_.data(), scalars_.data() + scalars_.size()));
        const nb::object before = nb::cast(before_);
        const nb::object given = tuple_of(arguments_, count_);
        const nb::object submitted = nb::make_tuple(nb::borrow<nb::object>(body_), given, words, before);
        (void)called(face.note, self_, task.ptr(), submitted.ptr());
    }

    struct Tensor {
        PyObject* object = nullptr;
        TensorArg arg;
        View view;
    };

    PyObject* const self_;
    SubmitterObject& own_;
    PyObject* body_;
    PyObject* const* arguments_;
    Py_ssize_t count_;
    nb::object held_;      // what @task prepared
    nb::object resolved_;  // the body, if it was not one
    nb::object label_;
    nb::object arrays_;  // of the outputs, as a tuple
    nb::object call_;
    std::vector<nb::object> outputs_;
    std::vector<TaskId> before_;
    std::vector<TensorArg> args_;
    Row<Tensor, 4> tensors_;
    Row<std::uint64_t, 4> scalars_;
    TaskSpec spec_;
    TaskId id_ = 0;
    bool has_tasks_ = false;
};

// A StatusError that is set becomes what it means.
PyObject* translate() {
    const nb::object status = take_exception();
    if (!PyErr_GivenExceptionMatches(status.ptr(), status_error)) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(status.ptr())), status.ptr());
        return nullptr;
    }
    const nb::object fields = nb::steal<nb::object>(PyObject_GetAttrString(status.ptr(), "args"));
    if (!fields.is_valid()) return nullptr;
    const nb::object nothing = nb::steal<nb::object>(PyObject_CallOneArg(face.raise_for, fields.ptr()));
    if (nothing.is_valid()) PyErr_SetString(PyExc_SystemError, "raise_for() did not raise");
    return nullptr;
}

PyObject* submit(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
    auto& own = as<SubmitterObject>(self);
    if (own.runtime == nullptr || own.closed) {
        const nb::object usable = nb::steal<nb::object>(PyObject_CallMethod(self, "_usable", nullptr));
        if (!usable.is_valid()) return nullptr;
    }
    PyObject *after = nullptr, *name = nullptr;
    for (Py_ssize_t at = 0; keywords != nullptr && at < PyTuple_GET_SIZE(keywords); ++at) {
        PyObject* const keyword = PyTuple_GET_ITEM(keywords, at);
        if (PyUnicode_CompareWithASCIIString(keyword, "after") == 0) {
            after = given[count + at];
        } else if (PyUnicode_CompareWithASCIIString(keyword, "name") == 0) {
            name = given[count + at];
        } else {
            PyErr_Format(PyExc_TypeError, "submit() got an unexpected keyword argument %R", keyword);
            return nullptr;
        }
    }
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "submit() needs a body");
        return nullptr;
    }
    try {
        return Submission(self, given[0], given + 1, count - 1).run(after, name);
    } catch (const Refused&) {
        return nullptr;
    } catch (nb::python_error& error) {
        error.restore();
        return translate();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_SystemError, error.what());
        return nullptr;
    }
}

// _attach(native runtime, serial): from here on tasks can be submitted.
PyObject* attach(PyObject* self, PyObject* arguments) {
    auto& own = as<SubmitterObject>(self);
    PyObject* native = nullptr;
    unsigned long long serial = 0;
    if (!PyArg_ParseTuple(arguments, "OK", &native, &serial)) return nullptr;
    if (own.native != nullptr || !nb::isinstance<BoundRuntime>(native)) {
        PyErr_SetString(PyExc_TypeError, "_attach() takes a runtime, once");
        return nullptr;
    }
    own.names = PyDict_New();
    if (own.names == nullptr) return nullptr;
    Py_INCREF(native);
    own.native = native;
    own.runtime = nb::inst_ptr<BoundRuntime>(native);
    own.serial = serial;
    own.closed = false;
    Py_RETURN_NONE;
}

PyObject* submitter_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* const self = type->tp_alloc(type, 0);
    if (self != nullptr) as<SubmitterObject>(self).closed = true;
    return self;
}

int submitter_traverse(PyObject* self, visitproc visit, void* arg) {
    auto& own = as<SubmitterObject>(self);
    Py_VISIT(own.native);
    Py_VISIT(own.names);
    Py_VISIT(own.recording);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

// The native runtime stays to the end: whoever is found in the same cycle may still ask it.
int submitter_clear(PyObject* self) {
    Py_CLEAR(as<SubmitterObject>(self).recording);
    return 0;
}

void submitter_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    submitter_clear(self);
    auto& own = as<SubmitterObject>(self);
    own.runtime = nullptr;
    Py_CLEAR(own.names);
    Py_CLEAR(own.native);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef submitter_methods[] = {
    {"submit", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(submit)), METH_FASTCALL | METH_KEYWORDS,
     "submit($self, body, /, *arguments, after=(), name=None)\n--\n\n"
     "Submits one task. Blocks while rings are full; runs tasks meanwhile.\n\n"
     "Arguments in order: tensors (In, InOut, Out, OutExisting, NoDep) and scalars. A Python body gets arrays and\n"
     "values in that order, a native one gets all tensor addresses and all scalar words. A Task as an argument is\n"
     "waited for, and a Python body gets what it returned."},
    {"_attach", attach, METH_VARARGS, nullptr},
    {},
};
PyMemberDef submitter_fields[] = {
    {"_native", T_OBJECT_EX, offsetof(SubmitterObject, native), READONLY, nullptr},
    {"_recording", T_OBJECT, offsetof(SubmitterObject, recording), 0, nullptr},
    {"_serial", T_ULONGLONG, offsetof(SubmitterObject, serial), READONLY, nullptr},
    {"_closed", T_BOOL, offsetof(SubmitterObject, closed), 0, nullptr},
    {},
};
PyType_Slot submitter_slots[] = {
    {Py_tp_doc, const_cast<char*>("What a runtime is submitted to.")},
    {Py_tp_new, reinterpret_cast<void*>(submitter_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(submitter_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(submitter_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(submitter_clear)},
    {Py_tp_methods, submitter_methods},
    {Py_tp_members, submitter_fields},
    {0, nullptr},
};
PyType_Spec submitter_spec{"whet._native.graph.Submitter", sizeof(SubmitterObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, submitter_slots};

}  // namespace

}  // namespace whet::bind

void bind_graph_submit(nanobind::module_& m) {
    namespace nb = nanobind;
    PyObject* const type = PyType_FromSpec(&whet::bind::submitter_spec);
    if (type == nullptr) throw nb::python_error();
    m.attr("Submitter") = nb::steal<nb::object>(type);
}
