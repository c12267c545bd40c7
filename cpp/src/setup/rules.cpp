#include "setup/rules.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/like.h"
#include "record/engine/slots.h"
#include "record/engine/texts.h"

namespace perfschema {
namespace {

ShmInstrumentRule* InstrumentRules() { return g_runtime.segment.element<ShmInstrumentRule>(ArrayId::kInstrumentRules, 0); }

// The options performance_schema_preset.
struct PresetRule {
  std::string_view pattern;
  Timing timing;
};
// No wait that is common in a busy program is timed each time.
constexpr PresetRule kProduction[] = {
    {"wait/%", Timing::kSampled},
    {"wait/app/%", Timing::kYes},
    {"wait/system/%", Timing::kYes},
    {"wait/synch/cond/%", Timing::kYes},
    {"wait/synch/mutex/%", Timing::kContended},
    {"wait/synch/rwlock/%", Timing::kContended},
};
// A sampler sees how long waits take.
constexpr PresetRule kSampling[] = {{"wait/%", Timing::kState}, {"idle", Timing::kState}};
constexpr std::span<const PresetRule> kPresets[] = {{}, kProduction, kSampling};
static_assert(std::size(kPresets) == std::size(kPresetWords));

// Returns the indexes of all rules, oldest first.
std::vector<uint64_t> InOrder() {
  std::vector<uint64_t> live;
  const uint64_t used = g_runtime.segment.array(ArrayId::kInstrumentRules).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    if (InstrumentRules()[i].ordinal.load(kRelaxed) != 0) live.push_back(i);
  }
  std::sort(live.begin(), live.end(), [](uint64_t a, uint64_t b) {
    return InstrumentRules()[a].ordinal.load(kRelaxed) < InstrumentRules()[b].ordinal.load(kRelaxed);
  });
  return live;
}

RuleSettings SettingsOf(uint64_t index) { return RuleSettings::Unpack(InstrumentRules()[index].settings.load(kRelaxed)); }

void Free(uint64_t index) {
  InstrumentRules()[index].ordinal.store(0, kRelease);
  FreeSlot(ArrayId::kInstrumentRules, InstrumentRules(), &ShmInstrumentRule::next, index);
}

// Returns a pattern of PFS_OPTIONS, in which '?' stands for one character, as a pattern of LIKE.
std::string LikeOf(std::string_view preset) {
  std::string pattern;
  for (size_t i = 0; i < preset.size(); ++i) {
    if (preset[i] == '\\' && i + 1 < preset.size()) {
      pattern += preset.substr(i++, 2);
    } else if (preset[i] == '_') {
      pattern += "\\_";
    } else {
      pattern += preset[i] == '?' ? '_' : preset[i];
    }
  }
  return pattern;
}

// Returns whether a text that begins with `prefix` can match the pattern.
bool MayBeginWith(std::string_view prefix, std::string_view pattern) {
  size_t p = 0;
  for (const char c : prefix) {
    if (p == pattern.size()) return false;
    if (pattern[p] == '%') return true;
    const bool is_any = pattern[p] == '_';
    if (pattern[p] == '\\' && p + 1 < pattern.size()) ++p;
    if (!is_any && AsciiLower(pattern[p]) != AsciiLower(c)) return false;
    ++p;
  }
  return p < pattern.size();
}

}  // namespace

void StartInstrumentRules(const Options& options) {
  std::vector<const Preset*> presets;
  for (uint32_t i = 0; i < options.preset_count; ++i) {
    if (!options.presets[i].is_consumer) presets.push_back(&options.presets[i]);
  }
  // The rows of a preset come first: all that the options say themselves holds over it.
  for (const auto& [pattern, timing] : kPresets[options.Get(OptionId::preset)])
    (void)AddInstrumentRule(pattern, {std::nullopt, timing, std::nullopt, true});
  const auto length = [](const Preset* preset) { return std::string_view(preset->pattern).size(); };
  std::stable_sort(presets.begin(), presets.end(), [&](const Preset* a, const Preset* b) { return length(a) < length(b); });
  for (const Preset* preset : presets) {
    (void)AddInstrumentRule(LikeOf(preset->pattern), {preset->enabled, preset->timed, std::nullopt, true});
  }
}

RuleSettings RulesFor(Family family, std::string_view full_name) {
  RuleSettings result;
  for (const uint64_t i : InOrder()) {
    const RuleSettings settings = SettingsOf(i);
    if (family == Family::kThread && !settings.is_preset) continue;  // setup_threads has its own settings
    char bytes[kRulePatternBytes];
    CopyFromShared(bytes, InstrumentRules()[i].pattern, sizeof bytes);
    if (!Like(full_name, {bytes, strnlen(bytes, sizeof bytes)})) continue;
    if (settings.enabled) result.enabled = settings.enabled;
    if (settings.timed) result.timed = settings.timed;
    if (settings.traced) result.traced = settings.traced;
  }
  // CONTENDED applies to locks, SAMPLED and STATE to waits; other instruments that match the pattern are timed.
  if (result.timed == Timing::kContended && !MayBeContended(family)) result.timed = Timing::kYes;
  if (IsForWaits(result.timed) && !MayBeSampled(family)) result.timed = Timing::kYes;
  return result;
}

bool AddInstrumentRule(std::string_view pattern, const RuleSettings& settings) {
  for (const uint64_t i : InOrder()) {
    RuleSettings older = SettingsOf(i);
    if (older.is_preset != settings.is_preset || !IsText(InstrumentRules()[i].pattern, pattern)) continue;
    if (settings.enabled) older.enabled.reset();
    if (settings.timed) older.timed.reset();
    if (settings.traced) older.traced.reset();
    if (older.is_empty()) {
      Free(i);
    } else {
      InstrumentRules()[i].settings.store(older.Pack(), kRelease);
    }
  }
  const uint64_t index = AllocateSlot(ArrayId::kInstrumentRules, InstrumentRules(), &ShmInstrumentRule::next);
  if (index == 0) return false;
  ShmInstrumentRule& rule = InstrumentRules()[index];
  StoreText(rule.pattern, pattern);
  rule.settings.store(settings.Pack(), kRelease);
  Word& last = g_runtime.header->program.last_rule;
  last.store(last.load(kRelaxed) + 1, kRelaxed);
  rule.ordinal.store(last.load(kRelaxed), kRelease);  // last: pairs with InstrumentRules
  return true;
}

bool DropInstrumentRule(uint64_t ordinal) {
  for (const uint64_t i : InOrder()) {
    if (InstrumentRules()[i].ordinal.load(kRelaxed) != ordinal) continue;
    Free(i);
    return true;
  }
  return false;
}

void DropAllInstrumentRules() {
  for (const uint64_t i : InOrder()) Free(i);
}

bool MayMatch(std::string_view pattern, bool (*is_wanted)(Family)) {
  for (int i = 1; i < kFamilyCount; ++i) {
    const auto family = static_cast<Family>(i);
    const FamilyTraits& traits = TraitsOf(family);
    if (traits.prefix.empty() || !traits.is_instrument || !is_wanted(family)) continue;
    if (traits.is_single ? Like(traits.prefix, pattern) : MayBeginWith(std::string(traits.prefix) + "/", pattern)) return true;
  }
  return false;
}

}  // namespace perfschema
