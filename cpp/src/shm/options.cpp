#include "shm/options.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "base/consumers.h"
#include "base/digest.h"
#include "base/like.h"
#include "base/nearest.h"

namespace perfschema {

namespace {
constexpr std::string_view SqlName(std::string_view identifier, std::string_view prefixed) {
  return identifier == "performance_schema" ? identifier : prefixed;
}
}  // namespace

constinit const OptionTraits kOptions[kOptionCount] = {  // constinit: objects with static storage read it while they are made
#define X(name, initial, minimum, maximum, autosize, doc) \
  {SqlName(#name, "performance_schema_" #name), initial, minimum, maximum, autosize, doc},
    PFS_FOR_EACH_OPTION(X)
#undef X
};

constinit const TextOptionTraits kTextOptions[kTextOptionCount] = {
#define X(name, initial, doc) {"performance_schema_" #name, initial, doc},
    PFS_FOR_EACH_TEXT_OPTION(X)
#undef X
};

namespace {

std::string_view TrimQuoted(std::string_view text) {
  constexpr std::string_view kDropped = " \t\r\n'\"";
  const size_t first = text.find_first_not_of(kDropped);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kDropped) - first + 1);
}

// Returns 1 for ON, YES, TRUE, 1, 0 for OFF, NO, FALSE, 0, and -1 for anything else.
int ParseSwitch(std::string_view value) {
  for (std::string_view yes : {"ON", "YES", "TRUE", "1"}) {
    if (EqualsIgnoringCase(value, yes)) return 1;
  }
  for (std::string_view no : {"OFF", "NO", "FALSE", "0"}) {
    if (EqualsIgnoringCase(value, no)) return 0;
  }
  return -1;
}

// Returns the millionths of "1%", "0.25%" or "10000"; -1 for anything else, and for more than the whole.
int64_t ParsePartsPerMillion(std::string_view value) {
  constexpr int64_t kWhole = 1'000'000, kPercent = kWhole / 100;
  const bool is_percent = !value.empty() && value.back() == '%';
  if (is_percent) value.remove_suffix(1);
  int64_t number = 0, unit = is_percent ? kPercent : 1;
  bool is_fraction = false, has_digit = false;
  for (const char c : value) {
    if (c == '.' && is_percent && !is_fraction) {
      is_fraction = true;
    } else if (c >= '0' && c <= '9' && (!is_fraction || unit >= 10)) {
      has_digit = true;
      if (is_fraction) {
        unit /= 10;
        number += (c - '0') * unit;
      } else {
        number = number * 10 + (c - '0') * unit;
      }
    } else {
      return -1;
    }
    if (number > kWhole) return -1;
  }
  return has_digit ? number : -1;
}

Status BadValue(std::string_view name, std::string_view value, const std::string& legal) {
  return Status(Code::kInvalidArgument, "bad value '" + std::string(value) + "' for option '" + std::string(name) + "': legal is " + legal);
}

Status CheckText(TextOptionId id, std::string_view value) {
  Normalizer checked;
  return id == TextOptionId::digest_normalizer ? Normalizer::Make(value, &checked) : Status();
}

// Returns the end of a message about an option that does not exist.
std::string HintOfOption(std::string_view name) {
  std::vector<std::string> names{"performance_schema_instrument"};
  for (const OptionTraits& traits : kOptions) names.emplace_back(traits.name);
  for (const TextOptionTraits& traits : kTextOptions) names.emplace_back(traits.name);
  for (const ConsumerTraits& traits : kConsumers) names.push_back("performance_schema_consumer_" + std::string(traits.name));
  return NearestHint(name, names, [](const std::string& one) { return std::string_view(one); });
}

// Words that a preset of instruments takes besides ON and OFF.
struct TimingWord {
  std::string_view word;
  Timing timed;
};
constexpr TimingWord kTimingWords[] = {
    {"COUNTED", Timing::kNo}, {"CONTENDED", Timing::kContended}, {"SAMPLED", Timing::kSampled}, {"STATE", Timing::kState}};
constexpr char kInstrumentValues[] = "'PATTERN=ON|OFF|COUNTED|CONTENDED|SAMPLED|STATE'";

}  // namespace

void Options::SetInitial() {
  for (uint32_t i = 0; i < kTextOptionCount; ++i) kTextOptions[i].initial.copy(texts[i], kTextOptionBytes - 1);
  for (uint32_t i = 0; i < kOptionCount; ++i) values[i] = kOptions[i].initial;
}

Status Options::Set(std::string_view name, std::string_view value) {
  name = TrimQuoted(name);
  value = TrimQuoted(value);
  constexpr std::string_view kConsumer = "performance_schema_consumer_";
  const bool is_consumer = name.size() > kConsumer.size() && EqualsIgnoringCase(name.substr(0, kConsumer.size()), kConsumer);
  if (is_consumer || EqualsIgnoringCase(name, "performance_schema_instrument")) {
    std::string_view pattern, wanted;
    if (is_consumer) {
      pattern = name.substr(kConsumer.size());
      wanted = value;
      if (FindConsumer(pattern) == Consumer::kCount) {
        return Status(Code::kInvalidArgument, "unknown consumer '" + std::string(pattern) + "': legal are " + ConsumerNames());
      }
    } else {
      const size_t equals = value.rfind('=');
      if (equals == std::string_view::npos) return BadValue(name, value, kInstrumentValues);
      pattern = TrimQuoted(value.substr(0, equals));
      wanted = TrimQuoted(value.substr(equals + 1));
    }
    const auto is_word = [&](const TimingWord& word) { return !is_consumer && EqualsIgnoringCase(wanted, word.word); };
    const auto* const word = std::find_if(std::begin(kTimingWords), std::end(kTimingWords), is_word);
    const int on = word != std::end(kTimingWords) ? 1 : ParseSwitch(wanted);
    if (on < 0) return BadValue(name, value, is_consumer ? "ON or OFF" : kInstrumentValues);
    if (pattern.empty() || pattern.size() >= sizeof(Preset::pattern)) return BadValue(name, value, "a pattern of 1 to 128 characters");
    if (preset_count == kMaxPresets) {
      return Status(Code::kFull, "more than " + std::to_string(kMaxPresets) + " presets of instruments and consumers");
    }
    Preset& preset = presets[preset_count++];
    std::memcpy(preset.pattern, pattern.data(), pattern.size());
    preset.pattern[pattern.size()] = 0;
    preset.is_consumer = is_consumer;
    preset.enabled = on == 1;
    preset.timed = word != std::end(kTimingWords) ? word->timed : on == 1 ? Timing::kYes : Timing::kNo;
    return {};
  }
  for (uint32_t i = 0; i < kTextOptionCount; ++i) {
    if (!EqualsIgnoringCase(name, kTextOptions[i].name)) continue;
    if (Status bad = CheckText(static_cast<TextOptionId>(i), value); !bad.ok()) {
      return Status(Code::kInvalidArgument, std::string(name) + ": " + bad.message());
    }
    if (value.size() >= kTextOptionBytes) return BadValue(name, value, "a text of at most 1023 bytes");
    std::fill_n(texts[i], kTextOptionBytes, '\0');
    value.copy(texts[i], value.size());
    return {};
  }
  for (uint32_t i = 0; i < kOptionCount; ++i) {
    const OptionTraits& traits = kOptions[i];
    if (!EqualsIgnoringCase(name, traits.name)) continue;
    int64_t number = 0;
    if (const auto words = WordsOf(static_cast<OptionId>(i)); !words.empty()) {
      const auto is_word = [&](std::string_view word) { return EqualsIgnoringCase(word, value); };
      number = std::find_if(words.begin(), words.end(), is_word) - words.begin();
      if (number == static_cast<int64_t>(words.size())) {
        std::string legal(words[0]);
        for (const std::string_view word : words.subspan(1)) legal += " or " + std::string(word);
        return BadValue(name, value, legal);
      }
    } else if (static_cast<OptionId>(i) == OptionId::overhead_limit) {
      number = ParsePartsPerMillion(value);
      if (number < 0) return BadValue(name, value, "a share such as 1% or 0.5%, at most 100%; or a number of millionths up to 1000000");
    } else if (traits.minimum == 0 && traits.maximum == 1) {
      number = ParseSwitch(value);
      if (number < 0) return BadValue(name, value, "ON or OFF");
    } else {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc{} || end != value.data() + value.size() || number < traits.minimum || number > traits.maximum) {
        return BadValue(name, value, "a number from " + std::to_string(traits.minimum) + " to " + std::to_string(traits.maximum));
      }
    }
    values[i] = number;
    is_set[i] = true;
    return {};
  }
  return Status(Code::kNotFound,
                "unknown option '" + std::string(name) + "'" + HintOfOption(name) + "; global_variables lists all of them");
}

Status Options::Parse(std::string_view text) {
  Status first_bad;
  // A comma inside quotes does not end an entry: performance_schema_instrument='a%=on'.
  while (!text.empty()) {
    size_t end = 0;
    char quote = 0;
    for (; end < text.size(); ++end) {
      const char c = text[end];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == ',') {
        break;
      }
    }
    const std::string_view entry = TrimQuoted(text.substr(0, end));
    text.remove_prefix(end < text.size() ? end + 1 : end);
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    Status status = equals == std::string_view::npos
                        ? Status(Code::kInvalidArgument, "'" + std::string(entry) + "' is not of the form name=value")
                        : Set(entry.substr(0, equals), entry.substr(equals + 1));
    if (!status.ok() && first_bad.ok()) first_bad = status;
  }
  return first_bad;
}

}  // namespace perfschema
