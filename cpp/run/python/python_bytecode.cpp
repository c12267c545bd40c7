// run/python/python_bytecode.cpp: see python_bytecode.h.
#include "run/python/python_bytecode.h"

#include <algorithm>
#include <iterator>

namespace perfschema::run {

namespace {

constexpr size_t kUnit = 2;  // bytes

// An instruction with its argument and its place, in units.
struct Read {
  Instruction what;
  uint32_t argument;
  size_t at, next;
};

// Calls `visit(const Read&) -> bool` until it returns false, or the end. Returns false if nothing is known of the code.
template <typename Visit>
bool ForEach(const Instruction* known, const char* code, size_t units, Visit visit) {
  uint32_t upper = 0;
  for (size_t at = 0; at < units;) {
    // Another thread may specialize the instruction: it stays one of the same family.
    const auto opcode = __atomic_load_n(reinterpret_cast<const uint8_t*>(code) + at * kUnit, __ATOMIC_RELAXED);
    const auto argument = __atomic_load_n(reinterpret_cast<const uint8_t*>(code) + at * kUnit + 1, __ATOMIC_RELAXED);
    const Instruction& what = known[opcode];
    if (what.does == Does::kHides) return false;
    const Read read = {what, upper << 8 | argument, at, at + 1 + what.caches};
    if (!visit(read)) return true;
    upper = what.does == Does::kExtends ? read.argument : 0;
    at = read.next;
  }
  return true;
}

class Stack {
 public:
  explicit Stack(Before* before) : before_(before) { Forget(); }
  void Forget() { before_->count = 0; }
  void Push(const Loaded& value) {
    if (before_->count == Before::kMost) {
      std::copy(before_->stack + 1, before_->stack + Before::kMost, before_->stack);
      --before_->count;
    }
    before_->stack[before_->count++] = value;
  }
  void Take(size_t values) { before_->count -= static_cast<int>(std::min<size_t>(values, static_cast<size_t>(before_->count))); }
  Loaded Top(size_t depth = 1) const {
    return depth != 0 && depth <= static_cast<size_t>(before_->count) ? before_->stack[static_cast<size_t>(before_->count) - depth]
                                                                      : Loaded{};
  }
  // Exchanges the value at the top and another one, which may be below what is known.
  void Swap(size_t depth) {
    const Loaded top = Top(), other = Top(depth);
    if (before_->count > 0) before_->stack[before_->count - 1] = other;
    if (depth != 0 && depth <= static_cast<size_t>(before_->count)) before_->stack[static_cast<size_t>(before_->count) - depth] = top;
  }

 private:
  Before* before_;
};

Loaded Variable(Loaded::From from, uint32_t index) {
  if (index > UINT16_MAX) return {};
  return {from, false, 0, static_cast<uint16_t>(index), {}, 0};
}

// Returns the attribute of a variable, if both are known.
Loaded AttributeOf(Loaded owner, uint32_t name) {
  if (!owner.is_variable() || owner.is_owner_of_method || owner.attributes == std::size(owner.names) || name > UINT16_MAX) return {};
  owner.names[owner.attributes++] = static_cast<uint16_t>(name);
  return owner;
}

void Run(const Read& read, Stack* stack) {
  constexpr uint32_t kBitsOfLocal = 4, kLocal = (1u << kBitsOfLocal) - 1;
  const uint32_t argument = read.argument;
  const auto push_local = [stack](uint32_t index) { stack->Push(Variable(Loaded::From::kLocal, index)); };
  switch (read.what.does) {
    case Does::kLeavesNothing:
      return stack->Push(Variable(Loaded::From::kNothing, 0));
    case Does::kExtends:
      return;
    case Does::kLocal:
      return push_local(argument);
    case Does::kCell:
      return stack->Push(Variable(Loaded::From::kCell, argument));
    case Does::kTwoLocals:
      return push_local(argument >> kBitsOfLocal), push_local(argument & kLocal);
    case Does::kSecondLocal:
      return stack->Take(1), push_local(argument & kLocal);
    case Does::kName:
      return stack->Push(Variable(Loaded::From::kName, argument));
    case Does::kGlobal:
      stack->Push(Variable(Loaded::From::kName, argument >> 1));
      if ((argument & 1) != 0) stack->Push(Variable(Loaded::From::kNothing, 0));
      return;
    case Does::kAttribute: {
      Loaded owner = stack->Top();
      stack->Take(1);
      stack->Push(AttributeOf(owner, argument >> 1));
      if ((argument & 1) == 0) return;
      if (owner.is_owner_of_method || argument >> 1 > UINT16_MAX) owner = {};
      owner.is_owner_of_method = true;
      owner.method = static_cast<uint16_t>(argument >> 1);
      return stack->Push(owner);
    }
    case Does::kCopies:
      return stack->Push(stack->Top(argument));
    case Does::kSwaps:
      return stack->Swap(argument);
    case Does::kPlain:
    case Does::kJumps:
    case Does::kJumpsAlways:
    case Does::kSetsAttribute:
    case Does::kSetsName:
      stack->Take(read.what.takes + size_t{read.what.takes_per_argument} * argument);
      for (int i = 0; i < read.what.leaves; ++i) stack->Push({});
      return;
    case Does::kHides:
    case Does::kOther:
    case Does::kBranches:
    case Does::kJumpsBack:
      return stack->Forget();
  }
}

// The stacks that jumps leave at the places that they lead to. A place has what all its ways have in common.
class Edges {
 public:
  // Adds a way. Returns false if there are too many places.
  bool Add(size_t target, const Before& stack) {
    const auto same = std::find_if(edges_, edges_ + count_, [target](const Edge& edge) { return edge.target == target; });
    if (same != edges_ + count_) return Meet(stack, &same->stack), true;
    if (count_ == std::size(edges_)) return false;
    edges_[count_++] = {target, stack};
    return true;
  }
  // Comes to a place. `is_reached`: from the instruction in front of it.
  void Take(size_t place, bool is_reached, Before* stack) {
    const auto here = std::find_if(edges_, edges_ + count_, [place](const Edge& edge) { return edge.target == place; });
    if (here == edges_ + count_) {
      if (!is_reached) stack->count = 0;  // it handles exceptions
      return;
    }
    if (is_reached) {
      Meet(here->stack, stack);
    } else {
      *stack = here->stack;
    }
    *here = edges_[--count_];
  }

 private:
  struct Edge {
    size_t target;
    Before stack;
  };
  static void Meet(const Before& from, Before* to) {
    const int count = std::min(from.count, to->count);
    std::copy(to->stack + to->count - count, to->stack + to->count, to->stack);
    for (int i = 0; i < count; ++i) {
      if (!(to->stack[i] == from.stack[from.count - count + i])) to->stack[i] = {};
    }
    to->count = count;
  }

  Edge edges_[8];
  size_t count_ = 0;
};

// Returns the place from which the stack can be followed up to `wanted`: no way comes from elsewhere into what is between them. Returns
// `wanted` or more if nothing is known of the code.
size_t BeginOf(const Instruction* known, const char* code, size_t units, size_t wanted) {
  size_t begin = 0, before = 0;
  const auto note_target = [&begin, &before, wanted](const Read& read) {
    const bool is_back = read.what.does == Does::kJumpsBack,
               is_followed = read.what.does == Does::kJumps || read.what.does == Does::kJumpsAlways;
    if (!is_back && !is_followed && read.what.does != Does::kBranches) return true;
    const size_t target = is_back ? read.next - read.argument : read.next + read.argument;
    if (target <= wanted && !(is_followed && read.at >= before)) begin = std::max(begin, target);
    return true;
  };
  do {
    before = begin;
    if (!ForEach(known, code, units, note_target)) return units;
  } while (begin != before);
  return begin;
}

}  // namespace

bool ReadInstructions(const Instruction* known, const char* code, size_t bytes, size_t at, Before* before) {
  constexpr size_t kMostUnits = 1 << 16;
  const size_t units = bytes / kUnit, wanted = at / kUnit;
  if (wanted >= units || units > kMostUnits) return false;
  const size_t begin = BeginOf(known, code, units, wanted);
  Stack stack(before);
  Edges edges;
  bool is_found = false, is_reached = true, is_known = begin <= wanted;
  const auto run = [&](const Read& read) {
    if (read.at < begin) return true;
    edges.Take(read.at, is_reached, before);
    if (read.at == wanted) {
      is_known = read.what.enters == 0;
      before->does = read.what.does;
      before->argument = read.argument;
      is_found = true;
    }
    if (read.at >= wanted) return false;
    Run(read, &stack);
    is_reached = read.what.does != Does::kJumpsAlways;
    const bool jumps = read.what.does == Does::kJumps || !is_reached;
    is_known = !jumps || edges.Add(read.next + read.argument, *before);
    return is_known;
  };
  return is_known && ForEach(known, code, units, run) && is_known && is_found;
}

}  // namespace perfschema::run
