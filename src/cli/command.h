// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

// What main() and the sub-commands know of each other.
namespace daso::cli {

// The command line, as it was given.
struct Invocation {
  std::vector<std::string> arguments;  // all of it but the program's name
  std::vector<std::string> program;    // what stands after --
};

// One sub-command. Its options are filled while `parser` parses; `act` then does it.
struct Command {
  CLI::App* parser = nullptr;
  std::function<int(const Invocation&)> act;
};

// Each adds its own sub-command to `parent` and lives in a file of its name.
Command add_run(CLI::App& parent);
Command add_doctor(CLI::App& parent);
Command add_schedule(CLI::App& parent);
Command add_verify(CLI::App& parent);
Command add_train(CLI::App& parent);
Command add_eval(CLI::App& parent);
Command add_export(CLI::App& parent);
Command add_predict(CLI::App& parent);
Command add_generate(CLI::App& parent);
Command add_compare(CLI::App& parent);
Command add_report(CLI::App& parent);
Command add_witness(CLI::App& parent);
Command add_top(CLI::App& parent);
Command add_make_images(CLI::App& parent);
Command add_make_text(CLI::App& parent);
Command add_bench_comm(CLI::App& parent);
Command add_bench_overlap(CLI::App& parent);
Command add_bench_merge(CLI::App& parent);
Command add_bench_step(CLI::App& parent);
Command add_bench_loader(CLI::App& parent);
Command add_bench_train(CLI::App& parent);

}  // namespace daso::cli
