// SPDX-License-Identifier: Apache-2.0
// A rank of a job of two nodes that goes on when one is lost. Node 1 dies in each of the first
// views. Then node 0 looks at what the store still has of views that are over: it ends with code 0
// if that is nothing but what belongs to the last of them.
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/alarm.h"
#include "daso/comm/operation.h"
#include "daso/comm/rank_main.h"
#include "daso/comm/store.h"
#include "daso/comm/views.h"
#include "daso/comm/worlds.h"

namespace {

using namespace daso;

constexpr std::int64_t kEnough = 5;  // views
constexpr Seconds kPatience{5};

// All keys of a view are gone if those are that its ranks meet by.
bool is_kept(const Store& store, std::int64_t view) {
  return store.under(part_of_view(view)).find("job").has_value();
}

int look(const Store& store, std::set<std::int64_t> views) {
  const std::int64_t now = *views.rbegin();
  if (!is_kept(store, now)) {
    std::puts("the view has no keys");
    return kExitBug;
  }
  std::erase_if(views, [&](std::int64_t view) { return view >= now - 1; });
  for (const Deadline deadline(kPatience); !deadline.passed() && !views.empty();) {
    std::erase_if(views, [&](std::int64_t view) { return !is_kept(store, view); });
    std::this_thread::sleep_for(Seconds(0.01));
  }
  std::printf("of views before %d %zu are kept\n", static_cast<int>(now - 1), views.size());
  return views.empty() ? kExitOk : kExitBug;
}

int follow(Worlds& worlds) {
  std::set<std::int64_t> views;
  for (;;) {
    World& world = worlds.next();
    views.insert(worlds.view().number);
    const bool both = world.topology().nodes() == 2;
    if (worlds.view().number >= kEnough && both) {
      if (world.node_id() != 0) return kExitOk;
      return look(Store::connect_as_member(*world.view()->home, worlds.options().place.job_token,
                                           kPatience, kPatience),
                  views);
    }
    if (world.node_id() == 1) ::raise(SIGKILL);
    world.guard().alarm->wait([] { return false; }, Deadline(kPatience));
  }
}

}  // namespace

int main() { return daso::rank_main(follow); }
