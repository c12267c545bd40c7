// bindings/bind_transactions.cpp: pfs.transaction.
#include <optional>
#include <string>

#include "perfschema/server.h"
#include "record/family/elsewhere.h"
#include "runs.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

PyTypeObject* transaction_type;
PyTypeObject* run_type;

const char* const isolation_names[] = {nullptr, "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ",
                                       "SERIALIZABLE"};                                  // enum pfs_isolation
const char* const xa_names[] = {"NOTR", "ACTIVE", "IDLE", "PREPARED", "ROLLBACK ONLY"};  // enum pfs_xa_state

// The object that the user makes: a description.
struct TransactionObject {
  PyObject_HEAD pfs_isolation isolation;
  int read_only, autocommit;
  OpenRuns runs;
};
TransactionObject* AsTransaction(PyObject* object) { return reinterpret_cast<TransactionObject*>(object); }

// An event that has begun.
struct TransactionRun {
  RunHead head;
  bool is_committed;
  pfs_transaction_t transaction;
};
TransactionRun* AsRun(PyObject* object) { return reinterpret_cast<TransactionRun*>(object); }

PyObject* RefuseValue(const std::string& message) {
  return Guarded([&]() -> PyObject* { throw StatusError(Status(Code::kInvalidArgument, message)); });
}

// ---- A run -----------------------------------------------------------------------------------------------------------------------------

PyObject* BeginTransaction(const TransactionObject& what) {
  PyObject* const object = run_type->tp_alloc(run_type, 0);
  if (object == nullptr) return nullptr;
  TransactionRun* const run = AsRun(object);
  BeginRun(&run->head, [&](CallSite site) {
    pfs_transaction_begin_at(&run->transaction, what.isolation, what.read_only, what.autocommit, site.file, site.line);
  });
  return object;
}

void EndTransaction(TransactionRun* run, bool is_committed) {
  if (run->head.is_open) run->is_committed = is_committed;
  EndRun(
      &run->head, [&] { pfs_transaction_end(&run->transaction, is_committed ? 1 : 0); },
      [&] { return EndTransactionElsewhere(*reinterpret_cast<Transaction*>(run->transaction.opaque), is_committed); });
}

void RunDealloc(PyObject* object) {
  TransactionRun* const run = AsRun(object);
  PyTypeObject* const type = Py_TYPE(object);
  EndForgottenRun(&run->head, [run] { EndTransaction(run, false); });
  ForgetRun(&run->head);
  type->tp_free(object);
  Py_DECREF(type);
}

template <bool kCommitted>
PyObject* RunEnd(PyObject* object, PyObject*) {
  EndTransaction(AsRun(object), kCommitted);
  Py_RETURN_NONE;
}

template <void (*kAdd)(pfs_transaction_t*, uint64_t)>
PyObject* RunAdd(PyObject* object, PyObject*) {
  if (MayChange(&AsRun(object)->head)) kAdd(&AsRun(object)->transaction, 1);
  Py_RETURN_NONE;
}

PyObject* RunXid(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"gtrid", "bqual", "format_id", "state", nullptr};
  std::optional<std::string> gtrid, bqual = "", state = "ACTIVE";
  int format = 1;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|O&iO&:xid", const_cast<char**>(names), TextOrNone, &gtrid, TextOrNone, &bqual,
                                   &format, TextOrNone, &state)) {
    return nullptr;
  }
  if (!gtrid || !bqual || !state) {
    PyErr_SetString(PyExc_TypeError, "gtrid, bqual and state must be str, not None");
    return nullptr;
  }
  for (int i = 0; i < 5; ++i) {
    if (xa_names[i] != *state) continue;
    if (MayChange(&AsRun(object)->head)) {
      pfs_transaction_set_xid(&AsRun(object)->transaction, format, gtrid->c_str(), bqual->c_str(), static_cast<pfs_xa_state>(i));
    }
    Py_RETURN_NONE;
  }
  return RefuseValue("bad state '" + *state + "': legal are NOTR, ACTIVE, IDLE, PREPARED, ROLLBACK ONLY");
}

int RunSetGtid(PyObject* object, PyObject* value, void*) {
  if (value == nullptr || !PyUnicode_Check(value)) {
    value == nullptr ? PyErr_SetString(PyExc_AttributeError, "it cannot be deleted")
                     : static_cast<void>(PyErr_Format(PyExc_TypeError, "gtid must be a str, not %.100s", Py_TYPE(value)->tp_name));
    return -1;
  }
  if (MayChange(&AsRun(object)->head)) pfs_transaction_set_gtid(&AsRun(object)->transaction, BytesOf(value).c_str());
  return 0;
}

int RunSetNumber(PyObject* object, PyObject* value, void*) {
  const uint64_t number = value == nullptr ? 0 : PyLong_AsUnsignedLongLong(value);
  if (value == nullptr) PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
  if (PyErr_Occurred() != nullptr) return -1;
  if (MayChange(&AsRun(object)->head)) pfs_transaction_set_trx_id(&AsRun(object)->transaction, number);
  return 0;
}

PyObject* RunState(PyObject* object, void*) {
  const TransactionRun* const run = AsRun(object);
  return PyUnicode_FromString(run->head.is_open ? "ACTIVE" : run->is_committed ? "COMMITTED" : "ROLLED BACK");
}

PyObject* RunRepr(PyObject* object) {
  PyObject* const state = RunState(object, nullptr);
  PyObject* const result = state == nullptr ? nullptr : PyUnicode_FromFormat("<pfs.transaction %U>", state);
  Py_XDECREF(state);
  return result;
}

// ---- The description
// -------------------------------------------------------------------------------------------------------------------------

PyObject* TransactionNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"isolation", "read_only", "autocommit", nullptr};
  std::optional<std::string> isolation;
  int read_only = 0, autocommit = 0, level = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&$pp:transaction", const_cast<char**>(names), TextOrNone, &isolation, &read_only,
                                   &autocommit))
    return nullptr;
  if (isolation) {
    for (int i = 1; i < 5; ++i) {
      if (isolation_names[i] == *isolation) level = i;
    }
    if (level == 0) {
      return RefuseValue("bad isolation '" + *isolation +
                         "': legal are READ UNCOMMITTED, READ COMMITTED, REPEATABLE READ, SERIALIZABLE, or None");
    }
  }
  PyObject* const object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  TransactionObject* const self = AsTransaction(object);
  self->isolation = static_cast<pfs_isolation>(level);
  self->read_only = read_only;
  self->autocommit = autocommit;
  return object;
}

void TransactionDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  AsTransaction(object)->runs.Clear();
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* TransactionEnter(PyObject* object, PyObject*) {
  PyObject* const run = BeginTransaction(*AsTransaction(object));
  if (run != nullptr) AsTransaction(object)->runs.Add(object, &AsRun(run)->head);
  return run;
}

PyObject* TransactionExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  auto* const run = reinterpret_cast<TransactionRun*>(AsTransaction(object)->runs.Take(object));
  if (run == nullptr) Py_RETURN_NONE;
  Alone(reinterpret_cast<PyObject*>(run), [=] { EndTransaction(run, count == 0 || args[0] == Py_None); });
  Py_DECREF(reinterpret_cast<PyObject*>(run));
  Py_RETURN_NONE;
}

PyObject* TransactionBegin(PyObject* object, PyObject*) { return BeginTransaction(*AsTransaction(object)); }
using TransactionBlock = BlockMethods<TransactionEnter, TransactionExit>;

PyObject* TransactionRepr(PyObject* object) {
  const char* const name = isolation_names[AsTransaction(object)->isolation];
  return name == nullptr ? PyUnicode_FromString("pfs.transaction()") : PyUnicode_FromFormat("pfs.transaction('%s')", name);
}

PyTypeObject* MakeTransactionRunType() {
  static PyMethodDef methods[] = {
      {"commit", kAlone<RunEnd<true>>, METH_NOARGS, "commit($self)\n--\n\nEnds it now: STATE is COMMITTED. Later calls change nothing."},
      {"rollback", kAlone<RunEnd<false>>, METH_NOARGS,
       "rollback($self)\n--\n\nEnds it now: STATE is ROLLED BACK. Later calls change nothing."},
      {"savepoint", kAlone<RunAdd<pfs_transaction_add_savepoints>>, METH_NOARGS,
       "savepoint($self)\n--\n\nAdds one to NUMBER_OF_SAVEPOINTS."},
      {"rollback_to_savepoint", kAlone<RunAdd<pfs_transaction_add_rollbacks>>, METH_NOARGS,
       "rollback_to_savepoint($self)\n--\n\nAdds one to NUMBER_OF_ROLLBACK_TO_SAVEPOINT."},
      {"release_savepoint", kAlone<RunAdd<pfs_transaction_add_releases>>, METH_NOARGS,
       "release_savepoint($self)\n--\n\nAdds one to NUMBER_OF_RELEASE_SAVEPOINT."},
      {"xid", AsMethod(kAlone<RunXid>), METH_VARARGS | METH_KEYWORDS,
       "xid($self, gtrid, bqual='', format_id=1, state='ACTIVE')\n--\n\nSets XID_GTRID, XID_BQUAL (at most 130 bytes each), XID_FORMAT_ID; "
       "XA_STATE: NOTR, ACTIVE, IDLE, PREPARED,\n"
       "ROLLBACK ONLY. InvalidValue for another state."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {
      {"state", kAlone<RunState>, nullptr, "'ACTIVE', 'COMMITTED' or 'ROLLED BACK'.", nullptr},
      {"gtid", nullptr, kAlone<RunSetGtid>, "GTID, at most 90 bytes; write only.", nullptr},
      {"trx_id", nullptr, kAlone<RunSetNumber>, "TRX_ID: the first value other than 0 stays; write only.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] = "An active transaction: the value of `with pfs.transaction() as t`.";
  return MakeRunType("pfs._core.RunningTransaction", sizeof(TransactionRun),
                     {{Py_tp_dealloc, reinterpret_cast<void*>(RunDealloc)},
                      {Py_tp_repr, reinterpret_cast<void*>(kAlone<RunRepr>)},
                      {Py_tp_methods, methods},
                      {Py_tp_getset, properties},
                      {Py_tp_doc, const_cast<char*>(doc)}});
}

}  // namespace

void BindTransactions(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__enter__", TransactionEnter, METH_NOARGS, "__enter__($self)\n--\n\nBegins it: STATE is ACTIVE."},
      {"__exit__", AsMethod(TransactionExit), METH_FASTCALL,
       "__exit__($self, kind, error, trace, /)\n--\n\nCommits it, or rolls it back after an exception, if it has not ended yet."},
      {"__aenter__", TransactionBlock::AsyncEnter, METH_NOARGS, "__aenter__($self)\n--\n\nAs __enter__."},
      {"__aexit__", AsMethod(TransactionBlock::AsyncExit), METH_FASTCALL, "__aexit__($self, kind, error, trace, /)\n--\n\nAs __exit__."},
      {"begin", TransactionBegin, METH_NOARGS,
       "begin($self)\n--\n\nBegins a transaction without a block: call commit() or rollback() of the result, in this thread."},
      {nullptr, nullptr, 0, nullptr}};
  static const char doc[] =
      "transaction(isolation=None, *, read_only=False, autocommit=False)\n--\n\n"
      "A transaction, from begin to end of a block or function; an exception that leaves it rolls it back and goes on.\n\n"
      "    with pfs.transaction('REPEATABLE READ') as t:\n"
      "        ...\n"
      "        t.savepoint()\n"
      "        ...\n"
      "        t.rollback()                     # otherwise it is committed at the end of the block\n\n"
      "`with`, `async with` and decorator; an object may be used again, by many threads and tasks. Rows of events_transactions_current,\n"
      "_history, _history_long; events_transactions_summary_* (those that only read apart). Statements in it have it as their parent\n"
      "(NESTING_EVENT_ID), it has the statement in which it begins. A task shows one at a time: the one that began last.\n\n"
      "isolation: ISOLATION_LEVEL, 'READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'; None: NULL. read_only:\n"
      "ACCESS_MODE. autocommit: AUTOCOMMIT.\n\n"
      "Raises InvalidValue for another isolation; TypeError if a generator function is decorated.";
  run_type = MakeTransactionRunType();
  transaction_type = run_type == nullptr
                         ? nullptr
                         : MakeType(module, "pfs.transaction", sizeof(TransactionObject), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                    {{Py_tp_new, reinterpret_cast<void*>(TransactionNew)},
                                     {Py_tp_dealloc, reinterpret_cast<void*>(TransactionDealloc)},
                                     {Py_tp_call, reinterpret_cast<void*>(TransactionBlock::Call)},
                                     {Py_tp_repr, reinterpret_cast<void*>(TransactionRepr)},
                                     {Py_tp_methods, methods},
                                     {Py_tp_doc, const_cast<char*>(doc)}});
  if (transaction_type == nullptr) throw PythonError();
  AddToModule(module, "transaction", transaction_type);
  AddToModule(module, "RunningTransaction", run_type);
}

}  // namespace perfschema::bindings
