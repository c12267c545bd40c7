// bindings/statement_names.h: names of statements, and of their counters.
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

}  // namespace perfschema::bindings
