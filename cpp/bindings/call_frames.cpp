#include "call_frames.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace perfschema::bindings {

bool EndsWithCall(const uint8_t* end) {
  if (end[-5] == 0xe8) return true;
  return std::ranges::any_of(std::initializer_list<int>{2, 3, 4, 6, 7},
                             [=](int bytes) { return end[-bytes] == 0xff && (end[1 - bytes] & 0x38) == 0x10; });
}

namespace {

constexpr size_t kMostFrames = 4096;

// A part of the process's memory that is read from its begin to its end. After an end that comes too early all is zero.
class Bytes {
 public:
  Bytes(const ProcessMemory& memory, uint64_t begin, uint64_t bytes) : begin_(begin), data_(bytes, '\0') {
    if (!memory.Read(begin, data_.data(), bytes)) data_.clear();
    is_valid_ = !data_.empty();
  }
  bool is_valid() const { return is_valid_; }
  bool is_more() const { return is_valid_ && at_ < data_.size(); }
  uint64_t address() const { return begin_ + at_; }
  void Skip(uint64_t bytes) {
    is_valid_ &= bytes <= data_.size() - at_;
    if (is_valid_) at_ += bytes;
  }
  template <typename T>
  T Take() {
    T value{};
    const size_t at = at_;
    Skip(sizeof value);
    if (is_valid_) std::memcpy(&value, data_.data() + at, sizeof value);
    return value;
  }
  // A number in LEB128.
  int64_t TakeLong(bool is_signed) {
    uint64_t value = 0;
    uint8_t byte = 0x80;
    uint32_t shift = 0;
    for (; (byte & 0x80) != 0 && is_valid_ && shift < 63; shift += 7) {
      byte = Take<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
    }
    if (is_signed && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }
  uint64_t Long() { return static_cast<uint64_t>(TakeLong(false)); }
  int64_t SignedLong() { return TakeLong(true); }

 private:
  const uint64_t begin_;
  std::string data_;
  uint64_t at_ = 0;
  bool is_valid_;
};

constexpr uint8_t kRelative = 0x1b;  // how compilers write an address: 4 bytes, from their own place on

// Returns the bytes of an entry of .eh_frame, behind its length.
Bytes EntryAt(const ProcessMemory& memory, uint64_t at) {
  constexpr uint32_t kMostBytes = 1 << 16;
  const auto bytes = memory.Get<uint32_t>(at);
  return {memory, at + sizeof bytes, bytes <= kMostBytes ? bytes : 0};
}

}  // namespace

// A CIE: what entries of .eh_frame have in common.
class CallFrames::Table {
 public:
  Table(const ProcessMemory& memory, uint64_t at) : bytes_(EntryAt(memory, at)) {
    const bool is_first = bytes_.Take<uint32_t>() == 0;
    const auto version = bytes_.Take<uint8_t>();
    char kinds[8] = "";
    for (size_t i = 0; i < sizeof kinds - 1 && (kinds[i] = bytes_.Take<char>()) != '\0'; ++i) {
    }
    code_unit = bytes_.Long();
    data_unit = bytes_.SignedLong();
    const uint64_t ip = version == 1 ? bytes_.Take<uint8_t>() : bytes_.Long();
    is_valid = is_first && kinds[0] == 'z' && ip == Registers::kIp && (version == 1 || version == 3);
    bytes_.Long();
    for (const char* kind = kinds + 1; *kind != '\0' && is_valid; ++kind) {
      if (*kind == 'R') {
        is_valid = bytes_.Take<uint8_t>() == kRelative;
      } else if (*kind == 'L') {
        bytes_.Skip(1);
      } else if (*kind == 'P') {
        const auto form = bytes_.Take<uint8_t>() & 0xf;
        bytes_.Skip(form == 0xb || form == 3 ? 4 : 8);
      } else {
        is_valid = false;  // of the handler of a signal, or not known
      }
    }
    is_valid &= bytes_.is_valid() && data_unit != 0;
    if (is_valid) Run(bytes_, ~uint64_t{0}, 0, &first, first);
    is_valid &= bytes_.is_valid();
  }
  // Applies what the entry says of the instructions up to `address`.
  void Run(Bytes& from, uint64_t address, uint64_t begin, Row* row, const Row& initial) const;

  bool is_valid = false;
  uint64_t code_unit = 1;
  int64_t data_unit = 0;
  Row first;

 private:
  Bytes bytes_;
};

void CallFrames::Table::Run(Bytes& from, uint64_t address, uint64_t begin, Row* row, const Row& initial) const {
  constexpr size_t kMostKept = 64;
  std::vector<Row> kept;
  uint64_t place = begin;
  Row::Rule unused;
  const auto rule = [&](uint64_t number) -> Row::Rule& { return number < Registers::kCount ? row->rules[number] : unused; };
  const auto offset = [&](bool is_signed) { return static_cast<int32_t>(from.TakeLong(is_signed) * data_unit); };
  const auto restore = [&](uint64_t number) { rule(number) = number < Registers::kCount ? initial.rules[number] : unused; };
  while (from.is_more()) {
    const auto code = from.Take<uint8_t>();
    const uint64_t low = code & 0x3f;
    uint64_t step = 0;
    switch (code < 0x40 ? code : code & 0xc0) {
      case 0x40:  // DW_CFA_advance_loc
        step = low;
        break;
      case 0x80:  // DW_CFA_offset
        rule(low) = {Row::kAt, offset(false)};
        break;
      case 0xc0:  // DW_CFA_restore
        restore(low);
        break;
      case 0x00:  // DW_CFA_nop
        break;
      case 0x02:  // DW_CFA_advance_loc1, 2, 4
        step = from.Take<uint8_t>();
        break;
      case 0x03:
        step = from.Take<uint16_t>();
        break;
      case 0x04:
        step = from.Take<uint32_t>();
        break;
      case 0x05:    // DW_CFA_offset_extended
      case 0x11: {  // DW_CFA_offset_extended_sf
        const uint64_t number = from.Long();
        rule(number) = {Row::kAt, offset(code == 0x11)};
        break;
      }
      case 0x06:  // DW_CFA_restore_extended
        restore(from.Long());
        break;
      case 0x07:  // DW_CFA_undefined
        rule(from.Long()) = {Row::kUndefined};
        break;
      case 0x08:  // DW_CFA_same_value
        rule(from.Long()) = {};
        break;
      case 0x0a:  // DW_CFA_remember_state
        if (kept.size() == kMostKept) return from.Skip(~uint64_t{0});
        kept.push_back(*row);
        break;
      case 0x0b:  // DW_CFA_restore_state
        if (kept.empty()) return from.Skip(~uint64_t{0});
        *row = kept.back();
        kept.pop_back();
        break;
      case 0x0c:  // DW_CFA_def_cfa
      case 0x12:  // DW_CFA_def_cfa_sf
        row->base = static_cast<uint32_t>(std::min<uint64_t>(from.Long(), Registers::kCount));
        row->offset = code == 0x12 ? offset(true) : from.TakeLong(false);
        row->is_known = row->base < Registers::kCount;
        break;
      case 0x0d:  // DW_CFA_def_cfa_register
        row->base = static_cast<uint32_t>(std::min<uint64_t>(from.Long(), Registers::kCount));
        row->is_known &= row->base < Registers::kCount;
        break;
      case 0x0e:  // DW_CFA_def_cfa_offset
        row->offset = from.TakeLong(false);
        break;
      case 0x13:  // DW_CFA_def_cfa_offset_sf
        row->offset = offset(true);
        break;
      case 0x0f:  // DW_CFA_def_cfa_expression
        row->is_known = false;
        from.Skip(from.Long());
        break;
      case 0x10:  // DW_CFA_expression
      case 0x16:  // DW_CFA_val_expression
        rule(from.Long()) = {Row::kUnknown};
        from.Skip(from.Long());
        break;
      case 0x09:  // DW_CFA_register
      case 0x14:  // DW_CFA_val_offset
      case 0x15:  // DW_CFA_val_offset_sf
        rule(from.Long()) = {Row::kUnknown};
        from.Long();
        break;
      case 0x2e:  // DW_CFA_GNU_args_size
        from.Long();
        break;
      default:
        return from.Skip(~uint64_t{0});
    }
    place += step * code_unit;
    if (place > address) return;
  }
}

bool CallFrames::FindRow(uint64_t address, Row* row) const {
  const auto object = std::ranges::find_if(objects_, [=](const MappedObject& one) {
    return std::ranges::any_of(one.parts, [=](const MappedObject::Part& part) {
      return (part.flags & PF_X) != 0 && address - part.begin < part.end - part.begin;
    });
  });
  if (object == objects_.end() || object->frames == 0) return false;
  // The table of .eh_frame_hdr: by where functions begin.
  struct {
    uint8_t version, form_of_frames, form_of_count, form_of_table;
    int32_t frames;
    uint32_t count;
  } head = {};
  if (!memory_.Read(object->frames, &head, sizeof head) || head.version != 1 || head.form_of_frames != kRelative ||
      head.form_of_count != 0x03 || head.form_of_table != 0x3b) {
    return false;
  }
  struct Function {
    int32_t begin, entry;
  };
  const auto at = [&](uint64_t number) { return memory_.Get<Function>(object->frames + sizeof head + number * sizeof(Function)); };
  const auto from_here = [&](int32_t distance) { return object->frames + static_cast<uint64_t>(int64_t{distance}); };
  uint64_t first = 0, last = head.count;  // the last function that begins at or before the address
  while (first + 1 < last) {
    const uint64_t middle = first + (last - first) / 2;
    (from_here(at(middle).begin) <= address ? first : last) = middle;
  }
  const uint64_t entry_at = from_here(at(first).entry);
  Bytes entry = EntryAt(memory_, entry_at);
  const uint64_t place = entry.address();
  const Table table(memory_, place - entry.Take<uint32_t>());
  uint64_t begin = entry.address();
  begin += static_cast<uint64_t>(int64_t{entry.Take<int32_t>()});
  const uint64_t bytes = entry.Take<uint32_t>();
  entry.Skip(entry.Long());
  if (!table.is_valid || !entry.is_valid() || address - begin >= bytes) return false;
  *row = table.first;
  table.Run(entry, address, begin, row, table.first);
  return entry.is_valid();
}

const CallFrames::Place& CallFrames::PlaceOf(uint64_t address, bool is_return) {
  const auto [found, is_new] = places_[is_return].try_emplace(address);
  Place& place = found->second;
  if (is_new) {
    uint8_t before[kMostCall];
    place.is_behind_call = is_return && memory_.Read(address - kMostCall, before, sizeof before) && EndsWithCall(before + kMostCall);
    // A call that does not return may be the last instruction of its function.
    place.has_row = (place.is_behind_call || !is_return) && FindRow(address - is_return, &place.row);
  }
  return place;
}

Calls CallFrames::Walk(Registers registers, const MappedRange& stack) {
  constexpr uint32_t kKept = 1u << Registers::kBx | 1u << Registers::kBp | 1u << Registers::k12 | 1u << Registers::k13 |
                             1u << Registers::k14 | 1u << Registers::k15;  // by a function that is called
  constexpr uint64_t kWindow = 1 << 14;
  std::vector<uint64_t> window;  // a part of the stack, from window_at on
  uint64_t window_at = 0;
  const auto word = [&](uint64_t at, uint64_t* value) {
    if (at - window_at >= window.size() * sizeof(uint64_t)) {
      if (!stack.Has(at) || stack.end - at < sizeof(uint64_t)) return false;
      window.resize(std::min(stack.end - at, kWindow) / sizeof(uint64_t));
      window_at = at;
      if (!memory_.Read(at, window.data(), window.size() * sizeof(uint64_t))) window.clear();
    }
    const uint64_t index = (at - window_at) / sizeof(uint64_t);
    if (at % sizeof(uint64_t) != 0 || index >= window.size()) return false;
    *value = window[index];
    return true;
  };
  Calls calls;
  calls.rest = registers.values[Registers::kSp];
  const Place* place = &PlaceOf(registers.values[Registers::kIp], false);
  while (calls.returns.size() < kMostFrames && place->has_row) {
    const Row& row = place->row;
    if (row.rules[Registers::kIp].kind == Row::kUndefined) {
      calls.end = Calls::kWhole;
      return calls;
    }
    if (!row.is_known || row.rules[Registers::kIp].kind != Row::kAt) return calls;
    if (!registers.Has(row.base)) {
      calls.end = Calls::kNeedsRegister;
      return calls;
    }
    const uint64_t next = registers.values[row.base] + static_cast<uint64_t>(row.offset);
    if (next <= calls.rest || next > stack.end) return calls;
    Registers caller;
    for (uint32_t number = 0; number < Registers::kCount; ++number) {
      const Row::Rule rule = row.rules[number];
      uint64_t value = registers.values[number];
      if (rule.kind == Row::kAt && !word(next + static_cast<uint64_t>(int64_t{rule.offset}), &value)) return calls;
      if (rule.kind == Row::kAt || (rule.kind == Row::kSame && registers.Has(number) && (kKept >> number & 1) != 0)) {
        caller.Set(number, value);
      }
    }
    caller.Set(Registers::kSp, next);
    const uint64_t address = caller.values[Registers::kIp];
    place = &PlaceOf(address, true);
    if (!place->is_behind_call) return calls;
    calls.returns.push_back(address);
    calls.rest = next;
    registers = caller;
  }
  return calls;
}

}  // namespace perfschema::bindings
