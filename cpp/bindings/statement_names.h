// bindings/statement_names.h: names of statements, of their counters and dialects.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "runs.h"  // Python.h comes first

namespace perfschema::bindings {

inline constexpr int kCounters = PFS_NO_GOOD_INDEX_USED + 1;
inline constexpr const char* counter_names[kCounters] = {"lock_time",
                                                         "errors",
                                                         "warnings",
                                                         "rows_affected",
                                                         "rows_sent",
                                                         "rows_examined",
                                                         "created_tmp_disk_tables",
                                                         "created_tmp_tables",
                                                         "select_full_join",
                                                         "select_full_range_join",
                                                         "select_range",
                                                         "select_range_check",
                                                         "select_scan",
                                                         "sort_merge_passes",
                                                         "sort_range",
                                                         "sort_rows",
                                                         "sort_scan",
                                                         "no_index_used",
                                                         "no_good_index_used"};

inline const KnownName* LookUpStatementName(PyObject* name) {
  const std::string text = BytesOf(name);
  const bool is_abstract = text.starts_with("abstract/") || text.starts_with("statement/abstract/");
  return FindName(NameFamily::kStatement, name, is_abstract ? PFS_MUTABLE : 0);
}

// Finds a name by its object. Most names are literals: the same object each time. A few objects are cached, and held.
inline const KnownName* FindStatementName(PyObject* name) {
  struct Remembered {
    PyObject* name;
    const KnownName* known;
  };
  if (!kHasGil) return LookUpStatementName(name);
  static Remembered remembered[64];
  Remembered& place = remembered[(reinterpret_cast<uintptr_t>(name) >> 4) % std::size(remembered)];
  if (place.name == name) return place.known;
  const KnownName* const known = LookUpStatementName(name);
  if (known != nullptr && PyUnicode_CheckExact(name)) {
    Py_XSETREF(place.name, Py_NewRef(name));
    place.known = known;
  }
  return known;
}

// Returns the counter, or -1 if a Python exception is set.
inline int CounterOf(PyObject* name) {
  for (int i = 0; i < kCounters; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, counter_names[i]) == 0) return i;
  }
  PyErr_Format(PyExc_TypeError, "a statement does not count %R", name);
  return -1;
}

// Converts a number. Returns false if a Python exception is set.
inline bool NumberOf(PyObject* value, uint64_t* number) {
  *number = PyLong_AsUnsignedLongLong(value);
  return *number != ~uint64_t{0} || PyErr_Occurred() == nullptr;
}

// Finds a dialect by its name. Returns false if a Python exception is set.
inline bool FindDialectOf(PyObject* name, Dialect* dialect) {
  if (name == Py_None) return true;
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "a dialect is a str, or None, not %.100s", Py_TYPE(name)->tp_name);
    return false;
  }
  return Guarded([&]() -> PyObject* {
           *dialect = DialectNamed(BytesOf(name));
           return Py_None;
         }) != nullptr;
}

inline constexpr char kStatementDoc[] =
    "statement(name, text=None, schema=None, traceparent=None, dialect=None)\n--\n\n"
    "A unit of work that a client requests: SQL, a request, a job. An event statement/<component>/<name> from begin to end of a block\n"
    "or function.\n\n"
    "    with pfs.statement('sql/select', text=sql, schema='shop') as s:\n"
    "        rows = run(sql)\n"
    "        s.rows_sent = len(rows)\n"
    "    request = pfs.statement('abstract/request')         # many threads and tasks may use it, repeatedly\n"
    "    async with request as s:\n"
    "        s.text = await read()\n"
    "        s.refine('web/get')                             # the kind is known now\n\n"
    "    @pfs.statement('myapp/job')\n"
    "    async def job(): ...\n\n"
    "`with`, `async with` and decorator. Rows of events_statements_current, _history, _history_long; events_statements_summary_*;\n"
    "with a text also events_statements_summary_by_digest, which counts statements that differ only in literals together, and\n"
    "events_statements_histogram_*. Statements, stages and waits in it have it as their parent (NESTING_EVENT_ID); an asyncio task that\n"
    "is suspended in the block suspends the statement with it, and tasks that are started in the block are nested in it. An exception\n"
    "that leaves the block goes on; the row has ERRORS 1, MYSQL_ERRNO (sqlite_errorcode, errno, a number in front of the arguments, or\n"
    "1105), RETURNED_SQLSTATE (sqlstate or pgcode, or 'HY000') and MESSAGE_TEXT, the class and its message.\n\n"
    "name: 'component/name', or in full; component 'abstract': refine() will name it. text: str or bytes. schema: at most 64\n"
    "bytes. traceparent: the span of the caller, as W3C's header of this name has it; another text is ignored. dialect: the language of\n"
    "the text, as pfs.digest() has it: 'postgresql', 'sqlite', 'mysql' ...\n\n"
    "Raises InvalidValue for a name that breaks the rules of instrument names, and an unknown dialect; TypeError if a generator function "
    "is decorated.";

}  // namespace perfschema::bindings
