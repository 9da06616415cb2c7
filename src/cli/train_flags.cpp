// SPDX-License-Identifier: Apache-2.0
#include "cli/train_flags.h"

#include <CLI/CLI.hpp>

#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/data/loader.h"

namespace daso::cli {
namespace {

template <typename Wanted>
std::vector<CLI::Option*> add_if(CLI::App& app, Settings& settings, const Wanted& wanted) {
  std::vector<CLI::Option*> added;
  for (const Setting& one : settings_table()) {
    if (wanted(one)) added.push_back(add_setting(app, settings, one));
  }
  return added;
}

}  // namespace

CLI::Option* add_setting(CLI::App& app, Settings& settings, const Setting& setting) {
  if (setting.type.empty()) {
    return app.add_flag_callback(
        setting.flag(), [&] { setting.parse(settings, "true"); }, setting.help);
  }
  CLI::Option* option = app.add_option_function<std::string>(
      setting.flag(), [&](const std::string& text) { setting.parse(settings, text); },
      setting.help);
  option->type_name(setting.type)->configurable(!setting.only_on_command_line);
  if (setting.type.starts_with('[')) option->expected(0, 1)->default_str("");
  if (setting.print) option->default_str(setting.print(settings).value_or(""));
  return option;
}

void add_settings(CLI::App& app, Settings& settings, const std::vector<std::string>& names) {
  for (const std::string& name : names) add_setting(app, settings, setting(name));
}

std::vector<CLI::Option*> add_settings(CLI::App& app, Settings& settings, SettingPart part) {
  return add_if(app, settings, [=](const Setting& one) { return one.part == part; });
}

void add_train_flags(CLI::App& app, Settings& settings) {
  add_if(app, settings, [](const Setting&) { return true; });
}

void add_job_flags(CLI::App& app, Settings& settings) {
  add_if(app, settings, [](const Setting& one) {
    return one.part != SettingPart::kStrategy && one.part != SettingPart::kRecord;
  });
}

std::vector<std::string> replaced_keys(const CLI::App& app, const Settings& settings) {
  return daso::replaced_keys(settings,
                             [&](const Setting& one) { return app.count(one.flag()) > 0; });
}

void take_threads(const CLI::App& app, Settings& settings, const Environment& environment) {
  const std::string name = "OMP_NUM_THREADS";
  const std::optional<std::string> asked = find(environment, name);
  if (!asked || app.count("--threads") > 0) return;
  // OpenMP also takes a list: the number of each level of nesting, the outermost first.
  settings.threads =
      parse_count("environment variable " + name, split(*asked, ',').front(), 1, kMostThreads);
}

}  // namespace daso::cli
