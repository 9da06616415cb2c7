// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/run/settings_table.h"

// The kinds of rows that the table of settings has: counts, numbers, names, switches. Each makes a
// Setting of a name, a member of Settings (or of its OptimizerOptions) and what help says; and the
// uses that a row can have.
namespace daso::rows {

// By what a strategy does, whatever its name.
SettingUse for_cycling();
SettingUse for_late_merges();
SettingUse for_one_model();
SettingUse for_schedule(ScheduleKind kind);
// By names.
SettingUse for_rates(const std::vector<std::string>& names);
SettingUse for_optimizers(const std::vector<std::string>& names);
SettingUse for_models(const std::vector<std::string>& names);
SettingUse for_dropout();  // models that have it

inline constexpr int kNoLimit = std::numeric_limits<int>::max();

// Where a value is.
template <typename Member>
const Member& in(const Settings& settings, Member Settings::*member) {
  return settings.*member;
}
template <typename Member>
const Member& in(const Settings& settings, Member OptimizerOptions::*member) {
  return settings.optimizer.*member;
}
template <typename Member>
Member& in(Settings& settings, Member Settings::*member) {
  return settings.*member;
}
template <typename Member>
Member& in(Settings& settings, Member OptimizerOptions::*member) {
  return settings.optimizer.*member;
}

template <typename T>
struct Inner {
  using Type = T;
};
template <typename T>
struct Inner<std::optional<T>> {
  using Type = T;
};
template <typename Member>
using Value = typename Inner<Member>::Type;

// Null where there is none.
template <typename T>
const T* value_in(const std::optional<T>& member) {
  return member ? &*member : nullptr;
}
template <typename T>
const T* value_in(const T& member) {
  if constexpr (requires { member.empty(); }) {
    return member.empty() ? nullptr : &member;
  } else {
    return &member;
  }
}

// A row that still knows the type of its member.
template <typename Class, typename Member>
struct Row : Setting {
  Member Class::*member;

  // Counts only there.
  Row& only(SettingUse use) {
    uses.push_back(std::move(use));
    return *this;
  }
  // "--lr must be above 0, got -1"
  Row& must(const char* be, bool (*hold)(const Value<Member>&)) {
    check = [=, named = flag(), where = member](const Settings& settings) {
      const Value<Member>* value = value_in(in(settings, where));
      if (value == nullptr || hold(*value)) return;
      throw ConfigError(fmt::format("{} must {}, got {}", named, be, *value));
    };
    return *this;
  }
  // Where it is not given, a run has this value.
  template <typename From>
  Row& from(From value) {
    resolve = [=, where = member](Settings& settings, const Resolution& resolution) {
      in(settings, where) = value(resolution);
    };
    return *this;
  }
  Row& resolved_by(void (*by)(Settings&, const Resolution&)) {
    resolve = by;
    return *this;
  }
  Row& replacing(std::vector<std::string> keys, bool (*when)(const Settings&) = nullptr) {
    replaces = std::move(keys);
    replaces_when = when;
    return *this;
  }
  Row& in_presets() {
    of_preset = true;
    return *this;
  }
  Row& in_state() {
    of_state = true;
    return *this;
  }
  // It says where to, or how to end, not what to train.
  Row& outside_the_configuration() {
    print = nullptr;
    return *this;
  }
};

template <typename Class, typename Member, typename Parse, typename Print>
Row<Class, Member> row(const char* name, Member Class::*member, const char* type, std::string help,
                       Parse parse, Print print) {
  Row<Class, Member> made;
  made.name = name;
  made.type = type;
  made.help = std::move(help);
  made.member = member;
  made.parse = [=, flag = made.flag()](Settings& settings, const std::string& text) {
    in(settings, member) = parse(flag, text);
  };
  made.print = [=](const Settings& settings) -> std::optional<std::string> {
    const Value<Member>* value = value_in(in(settings, member));
    return value == nullptr ? std::nullopt : std::optional<std::string>(print(*value));
  };
  made.given = [=](const Settings& settings) {
    return in(settings, member) != in(Settings(), member);
  };
  made.drop = [=](Settings& settings) { in(settings, member) = in(Settings(), member); };
  return made;
}

inline const auto kShown = [](const auto& value) { return fmt::format("{}", value); };

template <typename Class, typename Member>
auto count(const char* name, Member Class::*member, const char* help, int at_least,
           int at_most = kNoLimit) {
  auto made = row(
      name, member, "N", help,
      [=](const std::string& flag, const std::string& text) {
        return parse_count(flag, text, at_least, at_most);
      },
      kShown);
  made.check = [=, flag = made.flag()](const Settings& settings) {
    const int* value = value_in(in(settings, member));
    if (value == nullptr || (*value >= at_least && *value <= at_most)) return;
    throw ConfigError(
        at_most == kNoLimit
            ? fmt::format("{} must be at least {}, got {}", flag, at_least, *value)
            : fmt::format("{} must be in {} ... {}, got {}", flag, at_least, at_most, *value));
  };
  return made;
}

template <typename Class, typename Member>
auto number(const char* name, Member Class::*member, const char* help) {
  return row(name, member, "NUMBER", help, parse_number, kShown);
}

template <typename Class>
auto text(const char* name, std::string Class::*member, const char* type, std::string help) {
  return row(
      name, member, type, std::move(help),
      [](const std::string&, const std::string& value) { return value; }, kShown);
}

template <typename Class>
auto names(const char* name, std::vector<std::string> Class::*member, const char* help) {
  return row(
      name, member, "NAME,...", help,
      [](const std::string&, const std::string& value) { return split(value, ','); },
      [](const std::vector<std::string>& value) { return join(value, ","); });
}

// `on` is what the member becomes where the switch is given.
template <typename Class>
auto toggle(const char* name, bool Class::*member, const char* help, bool on = true) {
  return row(
      name, member, "", help,
      [=](const std::string&, const std::string& value) { return value == "true" ? on : !on; },
      [=](bool value) { return value == on ? "true" : "false"; });
}

// A member that is an enumerator; `find` takes one of the names.
template <typename Class, typename Member, typename Find>
auto choice(const char* name, Member Class::*member, const std::vector<std::string>& all,
            Find find) {
  return row(
      name, member, "NAME", join(all, ", "),
      [=](const std::string& flag, const std::string& value) -> Value<Member> {
        return find(parse_choice(flag, value, all));
      },
      [](const Value<Member>& value) { return std::string(name_of(value)); });
}

// A member that is itself a name of these. It may also have come from a program that uses us.
template <typename Class>
auto known(Row<Class, std::string> made, const std::vector<std::string>& all) {
  made.check = [=, flag = made.flag(), member = made.member](const Settings& settings) {
    const std::string& value = in(settings, member);
    if (value.empty() || std::find(all.begin(), all.end(), value) != all.end()) return;
    throw ConfigError(fmt::format("{} '{}' is unknown; did you mean {}? There are {}", flag, value,
                                  nearest(value, all).value_or(all.front()), join(all, ", ")));
  };
  return made;
}

template <typename Class>
auto one_of(const char* name, std::string Class::*member, const std::vector<std::string>& all,
            const std::string& more = "") {
  return known(row(
                   name, member, "NAME", join(all, ", ") + more,
                   [=](const std::string& flag, const std::string& value) {
                     return parse_choice(flag, value, all);
                   },
                   kShown),
               all);
}

// Names and values of an enumeration that has none of its own.
template <typename Class, typename Member, std::size_t kSize>
auto choice(const char* name, Member Class::*member,
            const std::array<std::pair<const char*, Member>, kSize>& all, const char* more = "") {
  std::vector<std::string> known_names;
  for (const auto& [known_name, value] : all) known_names.emplace_back(known_name);
  return row(
      name, member, "NAME", join(known_names, ", ") + more,
      [=](const std::string& flag, const std::string& asked) {
        const std::string found = parse_choice(flag, asked, known_names);
        return std::find_if(all.begin(), all.end(), [&](auto& one) { return one.first == found; })
            ->second;
      },
      [=](const Member& value) -> std::string {
        return std::find_if(all.begin(), all.end(), [&](auto& one) { return one.second == value; })
            ->first;
      });
}

}  // namespace daso::rows
