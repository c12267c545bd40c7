// precompiled.h: what nearly every file of the library includes, parsed once (target_precompile_headers). Files include what they use all
// the same: builds with ccache do without it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/context/threads.h"
#include "snapshot/snapshot.h"
#include "table/table_def.h"
