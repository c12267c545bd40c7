#include "table/column.h"

namespace perfschema::internal {

void CompleteColumn(Column& column, const PlainColumn& plain) {
  column.name = plain.name;
  column.doc = plain.doc;
  column.unit = plain.unit;
  column.row = plain.row;
  column.is_assignable = plain.is_assignable;
  column.is_writable = plain.is_writable;
  column.combine = plain.combine;
  column.merge = plain.merge;
  column.complete(column);
}

}  // namespace perfschema::internal
