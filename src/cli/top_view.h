// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace daso::cli {

struct ViewSize {
  int width = 80;   // letters
  int height = 24;  // lines
};

// True for a run that will not write its status again.
bool is_over(const nlohmann::json& status);

// What daso top shows of a run: how it goes, then its ranks and how long each works for a step, the
// slowest ones if there is no room for all. `status` is the content of the run's status.json, where
// any field may be absent or null; `now` is in seconds of Unix time. Lines end with \n, hold no
// control characters, and neither they nor their number exceed the size.
std::string top_view(const nlohmann::json& status, double now, ViewSize size);

}  // namespace daso::cli
