// SPDX-License-Identifier: Apache-2.0
// The Python module daso._core, which the package's own files use; users see theirs.
#include "core/joined_world.h"
#include "daso/base/error.h"
#include "daso/base/version.h"
#include "daso/comm/launcher_line.h"
#include "daso/launch/output.h"
#include "daso/run/settings_table.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // The first of the base classes must be made first.
  const nb::exception<daso::Error> error(module, "Error", PyExc_RuntimeError);
  nb::exception<daso::ConfigError> config_error(module, "ConfigError", error);
  nb::exception<daso::PeerError> peer_error(module, "PeerError", error);
  const nb::exception<daso::NodeLeft> node_left(module, "NodeLeft", error);
  error.attr("exit_code") = daso::kExitBug;  // those of the program
  config_error.attr("exit_code") = daso::kExitConfig;
  peer_error.attr("exit_code") = daso::kExitPeer;
  module.attr("replay_after") = daso::kReplayAfterVariable;
  module.attr("stopped_exit") = daso::kExitStopped;
  module.attr("peer_error_mark") = std::string(daso::kPythonPeerMark);
  module.attr("version") = daso::kVersion;
  module.def("flags", [] {
    std::vector<std::pair<std::string, std::string>> rows;  // name, type; no type: a switch
    for (const daso::Setting& one : daso::settings_table()) rows.emplace_back(one.name, one.type);
    return rows;
  });
  daso::python::bind_world(module);
  daso::python::bind_run(module);
}
