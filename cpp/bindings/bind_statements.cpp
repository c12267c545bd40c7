// bindings/bind_statements.cpp: pfs.statement.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/traceparent.h"
#include "record/family/elsewhere.h"
#include "statement_names.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

PyTypeObject* statement_type;
PyTypeObject* run_type;

// The object that the user makes: a description.
struct StatementObject {
  PyObject_HEAD const KnownName* name;
  PyObject* text;  // nullptr: none
  PyObject* schema;
  PyObject* traceparent;
  Dialect dialect;
  OpenRuns runs;
};
StatementObject* AsStatement(PyObject* object) { return reinterpret_cast<StatementObject*>(object); }

// An event that has begun.
struct StatementRun {
  RunHead head;
  const KnownName* name;
  PyObject* text;
  PyObject* schema;
  PyObject* traceparent;
  bool is_instrumented;
  bool has_error;
  bool has_more;  // another thread than its own has set text, counters or an error: its own one sets them again at the end
  uint64_t counters[kCounters];
  void* aside;  // PyMem_Raw: the state saved by suspend(); nullptr: it is not suspended
  int error;    // in another thread than it began in; 0: none
  pfs_statement_t statement;
  char sqlstate[8], message[128];  // of `error`
};
StatementRun* AsRun(PyObject* object) { return reinterpret_cast<StatementRun*>(object); }
PyObject* AsObject(StatementRun* run) { return reinterpret_cast<PyObject*>(run); }

// ---- A run -----------------------------------------------------------------------------------------------------------------------------

// Keeps the object in `*kept`, and gives its bytes to the statement. Returns false if a Python exception is set.
template <typename Set>
bool SetTextOf(StatementRun* run, PyObject* value, const char* what, PyObject** kept, Set set) {
  if (value == nullptr || value == Py_None) value = nullptr;
  std::string holder;
  const char* text = "";
  Py_ssize_t bytes = 0;
  if (value != nullptr && !TextOf(value, what, &text, &bytes, &holder)) return false;
  PyObject* const before = *kept;
  Py_XINCREF(value);
  *kept = value;
  run->has_more |= run->head.is_open && IsElsewhere(&run->head);
  if (run->is_instrumented && MayChange(&run->head)) set(text, static_cast<size_t>(bytes));
  Py_XDECREF(before);
  return true;
}
bool SetText(StatementRun* run, PyObject* value) {
  return SetTextOf(run, value, "text", &run->text,
                   [run](const char* text, size_t bytes) { pfs_statement_set_text(&run->statement, text, bytes); });
}
bool SetSchema(StatementRun* run, PyObject* value) {
  return SetTextOf(run, value, "schema", &run->schema,
                   [run](const char* text, size_t) { pfs_statement_set_schema(&run->statement, text); });
}

// Ignores a text that is no traceparent, as W3C wants it: it comes from the caller, whose mistake must not end the request.
bool SetTraceparent(StatementRun* run, PyObject* value) {
  std::string holder;
  const char* text = "";
  Py_ssize_t bytes = 0;
  if (value != Py_None && !TextOf(value, "traceparent", &text, &bytes, &holder)) return false;
  if (value != Py_None && !ParseTraceparent({text, static_cast<size_t>(bytes)})) return true;
  return SetTextOf(run, value, "traceparent", &run->traceparent,
                   [run](const char* given, size_t size) { pfs_statement_set_traceparent(&run->statement, given, size); });
}

// Caches the last freed run, with a GIL: a run is too large for the interpreter's own pools, and the next one comes soon.
StatementRun* free_run;

// Makes a run, zeroed except `statement`.
StatementRun* MakeRun() {
  if (!kHasGil || free_run == nullptr) return AsRun(run_type->tp_alloc(run_type, 0));
  StatementRun* const run = std::exchange(free_run, nullptr);
  std::memset(reinterpret_cast<char*>(run) + sizeof(PyObject), 0, offsetof(StatementRun, statement) - sizeof(PyObject));
  PyObject_Init(AsObject(run), run_type);
  return run;
}
void FreeRun(StatementRun* run) {
  if (kHasGil && free_run == nullptr) {
    free_run = run;
  } else {
    run_type->tp_free(AsObject(run));
  }
  Py_DECREF(run_type);
}

StatementRun* BeginStatement(const KnownName* name, Dialect dialect, PyObject* text, PyObject* schema, PyObject* traceparent) {
  StatementRun* const run = MakeRun();
  if (run == nullptr) return nullptr;
  run->name = name;
  BeginRun(&run->head, [run](CallSite site) {
    run->is_instrumented = pfs_statement_begin_at(&run->statement, run->name->key, nullptr, site.file, site.line) != 0;
  });
  if (dialect != Dialect::kSql && run->is_instrumented) {
    pfs_statement_set_dialect(&run->statement, static_cast<uint32_t>(dialect) << PFS_DIALECT_SHIFT);
  }
  if ((schema == nullptr || SetSchema(run, schema)) && (text == nullptr || SetText(run, text)) &&
      (traceparent == nullptr || SetTraceparent(run, traceparent)))
    return run;
  Py_DECREF(AsObject(run));
  return nullptr;
}

void Resume(StatementRun* run) {
  if (run->aside == nullptr) return;
  if (MayChange(&run->head)) pfs_statement_resume(&run->statement, run->aside);
  PyMem_RawFree(run->aside);
  run->aside = nullptr;
}

std::string_view HeldText(const StatementRun* run, std::string* holder) {
  const char* text = "";
  Py_ssize_t bytes = 0;
  if (run->text != nullptr && !TextOf(run->text, "text", &text, &bytes, holder)) PyErr_Clear();
  return {text, static_cast<size_t>(bytes)};
}

// Sets again what another thread has set: the statement did not take it.
void SetMore(StatementRun* run) {
  for (int at = 0; at < kCounters; ++at) {
    if (run->counters[at] != 0) pfs_statement_set(&run->statement, static_cast<pfs_statement_counter>(at), run->counters[at]);
  }
  if (run->error != 0) pfs_statement_set_error(&run->statement, run->error, run->sqlstate, run->message);
  std::string holder;
  if (const std::string_view text = HeldText(run, &holder); !text.empty())
    pfs_statement_set_text(&run->statement, text.data(), text.size());
}

void EndStatement(StatementRun* run) {
  if (!run->head.is_open || !IsElsewhere(&run->head)) Resume(run);
  const auto end_elsewhere = [run]() -> uint64_t {
    std::string holder;
    StatementRest rest{HeldText(run, &holder), run->counters, static_cast<uint32_t>(run->error), {}, {}, run->aside};
    if (run->error != 0) rest.sqlstate = run->sqlstate, rest.message = run->message;
    return run->is_instrumented ? EndStatementElsewhere(*reinterpret_cast<Statement*>(run->statement.opaque), rest) : 0;
  };
  EndRun(
      &run->head,
      [run] {
        if (!run->is_instrumented) return;
        if (run->has_more) SetMore(run);
        pfs_statement_end(&run->statement);
      },
      end_elsewhere);
}

void SetCounter(StatementRun* run, int counter, uint64_t value) {
  const bool is_elsewhere = run->head.is_open && IsElsewhere(&run->head);
  run->has_more |= is_elsewhere;
  if (!is_elsewhere) Resume(run);
  run->counters[counter] = value;
  if (run->is_instrumented && MayChange(&run->head)) pfs_statement_set(&run->statement, static_cast<pfs_statement_counter>(counter), value);
}

void SetError(StatementRun* run, int number, const char* sqlstate, const char* message) {
  run->has_error = number != 0;
  run->counters[PFS_ERRORS] = run->has_error ? 1 : 0;
  if (!run->is_instrumented || !run->head.is_open) return;
  const bool is_elsewhere = IsElsewhere(&run->head);
  if (!MayChange(&run->head)) return;
  run->has_more |= is_elsewhere;
  if (!is_elsewhere) return pfs_statement_set_error(&run->statement, number, sqlstate, message);
  run->error = number;
  std::snprintf(run->sqlstate, sizeof run->sqlstate, "%.5s", sqlstate != nullptr ? sqlstate : number == 0 ? "00000" : "HY000");
  run->message[std::string_view(message != nullptr ? message : "").copy(run->message, sizeof run->message - 1)] = 0;
}

// Handles an exception that leaves the block. An error that the program has set itself stays.
void SetException(StatementRun* run, PyObject* error) {
  ErrorDetails details;
  if (run->has_error || !run->is_instrumented || !run->head.is_open || !DescribeError(error, &details)) return;
  SetError(run, details.number, details.sqlstate.c_str(), details.message.c_str());
}

void RunDealloc(PyObject* object) {
  StatementRun* const run = AsRun(object);
  if (run->is_instrumented) EndForgottenRun(&run->head, [run] { EndStatement(run); });
  run->head.is_open = false;
  ForgetRun(&run->head);
  PyMem_RawFree(run->aside);
  Py_XDECREF(run->text);
  Py_XDECREF(run->schema);
  Py_XDECREF(run->traceparent);
  FreeRun(run);
}

PyObject* RunEnd(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count > 1) {
    PyErr_SetString(PyExc_TypeError, "end() takes at most one argument: the exception");
    return nullptr;
  }
  if (count == 1 && args[0] != Py_None) SetException(AsRun(object), args[0]);
  EndStatement(AsRun(object));
  Py_RETURN_NONE;
}

PyObject* RunSuspend(PyObject* object, PyObject*) {
  StatementRun* const run = AsRun(object);
  if (!run->is_instrumented || run->aside != nullptr || !MayChange(&run->head)) Py_RETURN_NONE;
  char nothing;
  const size_t bytes = pfs_statement_suspend(&run->statement, &nothing, 0);
  void* const aside = bytes == 0 ? nullptr : PyMem_RawMalloc(bytes);
  if (aside == nullptr) Py_RETURN_NONE;
  if (pfs_statement_suspend(&run->statement, aside, bytes) == bytes) {
    run->aside = aside;
  } else {
    PyMem_RawFree(aside);
  }
  Py_RETURN_NONE;
}

PyObject* RunRefine(PyObject* object, PyObject* name) {
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "a name is a str, not %.100s", Py_TYPE(name)->tp_name);
    return nullptr;
  }
  const KnownName* const known = FindStatementName(name);
  if (known == nullptr) return nullptr;
  StatementRun* const run = AsRun(object);
  if (run->head.is_open) run->name = known;
  if (run->is_instrumented && MayChange(&run->head)) pfs_statement_refine(&run->statement, known->key);
  Py_RETURN_NONE;
}

PyObject* RunError(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"number", "sqlstate", "message", nullptr};
  int number;
  std::optional<std::string> sqlstate, message;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "i|O&O&:error", const_cast<char**>(names), &number, TextOrNone, &sqlstate, TextOrNone,
                                   &message)) {
    return nullptr;
  }
  if (sqlstate && sqlstate->size() != 5) {
    return Guarded([&]() -> PyObject* {
      throw StatusError(Status(Code::kInvalidArgument, "bad sqlstate '" + *sqlstate + "': legal are five characters, or None"));
    });
  }
  SetError(AsRun(object), number, sqlstate ? sqlstate->c_str() : nullptr, message ? message->c_str() : nullptr);
  Py_RETURN_NONE;
}

PyObject* RunAdd(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count != 0) {
    PyErr_SetString(PyExc_TypeError, "add() takes keywords only: add(rows_sent=1)");
    return nullptr;
  }
  StatementRun* const run = AsRun(object);
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
    const int counter = CounterOf(PyTuple_GET_ITEM(names, i));
    uint64_t more;
    if (counter < 0 || !NumberOf(args[i], &more)) return nullptr;
    SetCounter(run, counter, run->counters[counter] + more);
  }
  Py_RETURN_NONE;
}

PyObject* RunGetCounter(PyObject* object, void* counter) {
  return PyLong_FromUnsignedLongLong(AsRun(object)->counters[reinterpret_cast<intptr_t>(counter)]);
}

bool RefuseDelete(PyObject* value) {
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
  return value == nullptr;
}

int RunSetCounter(PyObject* object, PyObject* value, void* counter) {
  uint64_t number;
  if (RefuseDelete(value) || !NumberOf(value, &number)) return -1;
  SetCounter(AsRun(object), static_cast<int>(reinterpret_cast<intptr_t>(counter)), number);
  return 0;
}

PyObject* RunGetName(PyObject* object, void*) { return Py_NewRef(AsRun(object)->name->full); }
template <PyObject* StatementRun::*kText>
PyObject* RunGetText(PyObject* object, void*) {
  return Py_NewRef(AsRun(object)->*kText != nullptr ? AsRun(object)->*kText : Py_None);
}
template <bool (*kSet)(StatementRun*, PyObject*)>
int RunSetText(PyObject* object, PyObject* value, void*) {
  return !RefuseDelete(value) && kSet(AsRun(object), value) ? 0 : -1;
}

int RunSetId(PyObject* object, PyObject* value, void*) {
  uint64_t number;
  if (RefuseDelete(value) || !NumberOf(value, &number)) return -1;
  if (AsRun(object)->is_instrumented && MayChange(&AsRun(object)->head)) pfs_statement_set_id(&AsRun(object)->statement, number);
  return 0;
}

PyObject* RunRepr(PyObject* object) {
  return PyUnicode_FromFormat("<pfs.statement '%U' that %s>", AsRun(object)->name->full,
                              AsRun(object)->head.is_open ? "runs" : "has ended");
}

// ---- The description

PyObject* MakeStatement(PyTypeObject* type, PyObject* name, PyObject* text, PyObject* schema, PyObject* traceparent,
                        PyObject* dialect_name) {
  const auto is_text = [](PyObject* value) { return value == Py_None || PyUnicode_Check(value) || PyBytes_Check(value); };
  if (!is_text(text) || !is_text(schema) || !is_text(traceparent)) {
    PyErr_SetString(PyExc_TypeError, "text, schema and traceparent must be str, bytes or None");
    return nullptr;
  }
  Dialect dialect = Dialect::kSql;
  if (!FindDialectOf(dialect_name, &dialect)) return nullptr;
  const KnownName* const known = FindStatementName(name);
  PyObject* const object = known == nullptr ? nullptr : type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  StatementObject* const self = AsStatement(object);
  self->name = known;
  self->dialect = dialect;
  self->text = text == Py_None ? nullptr : Py_NewRef(text);
  self->schema = schema == Py_None ? nullptr : Py_NewRef(schema);
  self->traceparent = traceparent == Py_None ? nullptr : Py_NewRef(traceparent);
  return object;
}

PyObject* StatementNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", "text", "schema", "traceparent", "dialect", nullptr};
  PyObject *name, *text = Py_None, *schema = Py_None, *traceparent = Py_None, *dialect = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|OOOO:statement", const_cast<char**>(names), &name, &text, &schema, &traceparent,
                                   &dialect)) {
    return nullptr;
  }
  return MakeStatement(type, name, text, schema, traceparent, dialect);
}

PyObject *text_name, *schema_name, *traceparent_name, *dialect_name;

// Handles the common call: a name, and the rest as keywords. It makes no tuple and no dictionary.
PyObject* StatementVectorcall(PyObject* type, PyObject* const* args, size_t flags, PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags), named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  bool is_common = count == 1 && PyUnicode_Check(args[0]);
  PyObject *text = Py_None, *schema = Py_None, *traceparent = Py_None, *dialect = Py_None;
  for (Py_ssize_t i = 0; i < named && is_common; ++i) {  // names in a call are interned and unique
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    is_common = name == text_name || name == schema_name || name == traceparent_name || name == dialect_name;
    (name == text_name ? text : name == schema_name ? schema : name == traceparent_name ? traceparent : dialect) = args[count + i];
  }
  if (is_common) return MakeStatement(reinterpret_cast<PyTypeObject*>(type), args[0], text, schema, traceparent, dialect);
  const Object tuple(PyTuple_New(count));
  const Object keywords(PyDict_New());
  if (!tuple || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < named; ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]) != 0) return nullptr;
  }
  return StatementNew(reinterpret_cast<PyTypeObject*>(type), tuple.get(), keywords.get());
}

void StatementDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  StatementObject* const self = AsStatement(object);
  self->runs.Clear();
  Py_XDECREF(self->text);
  Py_XDECREF(self->schema);
  Py_XDECREF(self->traceparent);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* StatementEnter(PyObject* object, PyObject*) {
  StatementObject* const self = AsStatement(object);
  StatementRun* const run = BeginStatement(self->name, self->dialect, self->text, self->schema, self->traceparent);
  if (run == nullptr) return nullptr;
  self->runs.Add(object, &run->head);
  return AsObject(run);
}

PyObject* StatementExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  auto* const run = reinterpret_cast<StatementRun*>(AsStatement(object)->runs.Take(object));
  if (run == nullptr) Py_RETURN_NONE;
  Alone(AsObject(run), [=] {
    if (count >= 2 && args[1] != Py_None) SetException(run, args[1]);
    EndStatement(run);
  });
  Py_DECREF(AsObject(run));
  Py_RETURN_NONE;
}

PyObject* StatementBegin(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"text", "schema", "traceparent", nullptr};
  StatementObject* const self = AsStatement(object);
  PyObject *text = Py_None, *schema = Py_None, *traceparent = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOO:begin", const_cast<char**>(names), &text, &schema, &traceparent)) return nullptr;
  const auto given = [](PyObject* value, PyObject* own) { return value == Py_None ? own : value; };
  return AsObject(BeginStatement(self->name, self->dialect, given(text, self->text), given(schema, self->schema),
                                 given(traceparent, self->traceparent)));
}

using StatementBlock = BlockMethods<StatementEnter, StatementExit>;

PyObject* StatementName(PyObject* object, void*) { return Py_NewRef(AsStatement(object)->name->full); }
PyObject* StatementRepr(PyObject* object) { return PyUnicode_FromFormat("pfs.statement('%U')", AsStatement(object)->name->full); }

PyTypeObject* MakeStatementRunType() {
  static PyMethodDef methods[] = {
      {"add", AsMethod(kAlone<RunAdd>), METH_FASTCALL | METH_KEYWORDS,
       "add($self, **counters)\n--\n\nAdds to counters: add(rows_sent=1, rows_examined=20)."},
      {"suspend", kAlone<RunSuspend>, METH_NOARGS,
       "suspend($self)\n--\n\nSuspends the statement, for example while a client fetches its rows: events that begin now are not nested in "
       "it, but its time goes\n"
       "on. Setting a counter, and its end, resume it. Does nothing if statements have begun inside it."},
      {"refine", kAlone<RunRefine>, METH_O,
       "refine($self, name, /)\n--\n\nMoves it to another instrument: EVENT_NAME changes. Nothing is recorded or counted if that one is "
       "disabled."},
      {"error", AsMethod(kAlone<RunError>), METH_VARARGS | METH_KEYWORDS,
       "error($self, number, sqlstate=None, message=None)\n--\n\nSets MYSQL_ERRNO, RETURNED_SQLSTATE (five characters; 'HY000' if None) "
       "and MESSAGE_TEXT (at most\n"
       "128 bytes); ERRORS is 1. number 0: no error. A later exception that leaves the block does not change them."},
      {"end", AsMethod(kAlone<RunEnd>), METH_FASTCALL,
       "end($self, error=None, /)\n--\n\nEnds it now, in the thread that began it; `error` is the exception that ended it, or None. Later "
       "calls change nothing."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[kCounters + 6] = {
      {"name", kAlone<RunGetName>, nullptr, "Full name of the instrument.", nullptr},
      {"text", kAlone<RunGetText<&StatementRun::text>>, kAlone<RunSetText<SetText>>,
       "SQL_TEXT, str or bytes; setting it computes its digest.", nullptr},
      {"schema", kAlone<RunGetText<&StatementRun::schema>>, kAlone<RunSetText<SetSchema>>, "CURRENT_SCHEMA, at most 64 bytes.", nullptr},
      {"traceparent", kAlone<RunGetText<&StatementRun::traceparent>>, kAlone<RunSetText<SetTraceparent>>,
       "TRACEPARENT: the span of the caller, as W3C's header of this name has it. A text that is no traceparent is ignored.", nullptr},
      {"statement_id", nullptr, kAlone<RunSetId>, "STATEMENT_ID, a number of the program; write only.", nullptr}};
  for (intptr_t i = 0; i < kCounters; ++i) {
    const char* const doc = i == PFS_LOCK_TIME ? "LOCK_TIME, in picoseconds." : "The column of that name.";
    properties[5 + i] = {counter_names[i], kAlone<RunGetCounter>, kAlone<RunSetCounter>, doc, reinterpret_cast<void*>(i)};
  }
  static const char doc[] =
      "A running statement: the value of `with pfs.statement(...) as s`. Its counters are numbers to set or to add to; the row shows each\n"
      "change at once. After its end the row does not change.";
  return MakeRunType("pfs._core.RunningStatement", sizeof(StatementRun),
                     {{Py_tp_dealloc, reinterpret_cast<void*>(RunDealloc)},
                      {Py_tp_repr, reinterpret_cast<void*>(kAlone<RunRepr>)},
                      {Py_tp_methods, methods},
                      {Py_tp_getset, properties},
                      {Py_tp_doc, const_cast<char*>(doc)}});
}

}  // namespace

void BindStatements(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__enter__", StatementEnter, METH_NOARGS, "__enter__($self)\n--\n\nBegins it."},
      {"__exit__", AsMethod(StatementExit), METH_FASTCALL, "__exit__($self, kind, error, trace, /)\n--\n\nEnds it, and records the error."},
      {"__aenter__", StatementBlock::AsyncEnter, METH_NOARGS, "__aenter__($self)\n--\n\nAs __enter__."},
      {"__aexit__", AsMethod(StatementBlock::AsyncExit), METH_FASTCALL, "__aexit__($self, kind, error, trace, /)\n--\n\nAs __exit__."},
      {"begin", AsMethod(StatementBegin), METH_VARARGS | METH_KEYWORDS,
       "begin($self, text=None, schema=None, traceparent=None)\n--\n\nBegins a statement without a block: call end() of the result."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {{"name", StatementName, nullptr, "Full name of the instrument.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  text_name = PyUnicode_InternFromString("text");
  schema_name = PyUnicode_InternFromString("schema");
  traceparent_name = PyUnicode_InternFromString("traceparent");
  dialect_name = PyUnicode_InternFromString("dialect");
  run_type = MakeStatementRunType();
  statement_type = run_type == nullptr
                       ? nullptr
                       : MakeType(module, "pfs.statement", sizeof(StatementObject), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                  {{Py_tp_new, reinterpret_cast<void*>(StatementNew)},
                                   {Py_tp_dealloc, reinterpret_cast<void*>(StatementDealloc)},
                                   {Py_tp_call, reinterpret_cast<void*>(StatementBlock::Call)},
                                   {Py_tp_repr, reinterpret_cast<void*>(StatementRepr)},
                                   {Py_tp_methods, methods},
                                   {Py_tp_getset, properties},
                                   {Py_tp_doc, const_cast<char*>(kStatementDoc)}});
  if (statement_type == nullptr) throw PythonError();
  statement_type->tp_vectorcall = StatementVectorcall;
  AddToModule(module, "statement", statement_type);
  AddToModule(module, "RunningStatement", run_type);
}

}  // namespace perfschema::bindings
