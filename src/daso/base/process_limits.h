// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// What the system lets this process have. Asked for before work begins: what runs out later ends in
// errors that name something else.
namespace daso {

// Throws ConfigError where `who` may not have so many files and connections open. The limit that is
// in force is raised as far as it must be and may be.
void require_open_files(int needed, std::string_view who);

// Throws ConfigError where so many threads cannot be started, whichever limit it is that forbids
// them: they are started, and end at once.
void require_threads(int needed, std::string_view who);

}  // namespace daso
