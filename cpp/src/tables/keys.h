// tables/keys.h: the keys of summaries. Each says its columns and its primary key; table/stat_columns.h multiplies them
// with statistics.
#pragma once

#include "table/stat_columns.h"

namespace perfschema {

inline constexpr std::string_view kEventNameDoc = "Instrument; joins setup_instruments.NAME.";

struct EventKey {
  Text<128> event_name;
  static constexpr KeyColumns kKey{"EVENT_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(col<Path..., &EventKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc));
  }
};

struct ThreadEventKey {
  uint64_t thread_id;
  Text<128> event_name;
  static constexpr KeyColumns kKey{"THREAD_ID", "EVENT_NAME"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &ThreadEventKey::thread_id>("THREAD_ID", Unit::kNone, "Live thread; joins threads.THREAD_ID."),
        col<Path..., &ThreadEventKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc));
  }
};

struct ObjectKey {
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &ObjectKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc),
        col<Path..., &ObjectKey::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone, "Identity of the live object."));
  }
};

struct FileKey {
  Text<512> file_name;
  Text<128> event_name;
  uint64_t object;
  static constexpr KeyColumns kKey{"OBJECT_INSTANCE_BEGIN"};
  template <auto... Path>
  static constexpr auto Columns() {
    return columns(
        col<Path..., &FileKey::file_name>("FILE_NAME", Unit::kNone, "Absolute path; joins file_instances.FILE_NAME."),
        col<Path..., &FileKey::event_name>("EVENT_NAME", Unit::kNone, kEventNameDoc),
        col<Path..., &FileKey::object>("OBJECT_INSTANCE_BEGIN", Unit::kNone,
                                       "Identity of the file; joins events_waits_current.OBJECT_INSTANCE_BEGIN."));
  }
};

}  // namespace perfschema
