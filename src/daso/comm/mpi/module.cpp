// SPDX-License-Identifier: Apache-2.0
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/version.h"
#include "daso/comm/backend.h"
#include "daso/comm/mpi/group.h"
#include "daso/comm/mpi/progress.h"

// What libdaso_mpi.so exports.
namespace daso::mpi {
namespace {

// For MPI's start, which has to meet ranks that may still be loading their program, and for
// gather(). What comes later has its group's limit.
constexpr Seconds kStartLimit{120};

// MPI exists once per process and starts once in its life, and a module's functions come without an
// object; so this is the one thing here that is global.
struct Process {
  std::mutex mutex;
  bool started = false;
  bool open = false;                 // a backend is alive
  std::weak_ptr<Progress> progress;  // owned by the backend and its groups
  std::shared_ptr<Progress> kept;    // by gather() for the backend, which may never be opened
};

Process& process() {
  static Process one;
  return one;
}

// Whether this process may read memory of others by the kernel's call for it, which containers
// commonly forbid. Reading our own meets the same filter.
bool can_read_memory() {
  char from = 0;
  char into = 0;
  const iovec remote{&from, sizeof from};
  const iovec local{&into, sizeof into};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, /*flags=*/0) == sizeof from;
}

// Settings of Open MPI that the user has not made; other libraries do not read them. They are in
// the environment while MPI starts, which is when it reads them, and no longer.
class OpenMpiDefaults {
 public:
  OpenMpiDefaults() {
    // Ring: its default takes up to twice as long on 2 ranks from 64 KB on.
    set("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1");
    set("OMPI_MCA_mpi_yield_when_idle", "1");  // ranks may share cores
    // Open MPI only notices in the middle of an operation that the call is forbidden. Where it is
    // not, ranks of one node exchange 16 MB three times as fast with it.
    if (!can_read_memory()) set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  }
  OpenMpiDefaults(const OpenMpiDefaults&) = delete;
  OpenMpiDefaults& operator=(const OpenMpiDefaults&) = delete;
  ~OpenMpiDefaults() {
    for (const char* name : ours_) ::unsetenv(name);
  }

 private:
  void set(const char* name, const char* value) {
    if (std::getenv(name) != nullptr) return;
    ::setenv(name, value, /*overwrite=*/0);
    ours_.push_back(name);
  }

  std::vector<const char*> ours_;
};

void require_mpirun() {
  const Environment environment = this_environment();
  const bool found = find(environment, "OMPI_COMM_WORLD_SIZE") || find(environment, "PMI_SIZE") ||
                     find(environment, "PMIX_RANK");
  require(found,
          "the mpi backend needs ranks started by MPI, and there is no sign of it here "
          "(OMPI_COMM_WORLD_SIZE, PMI_SIZE, PMIX_RANK); start with `daso run --backend mpi` or "
          "`mpirun -n RANKS PROGRAM`, or use --backend gloo");
}

// The library's name and version: the first line, as far as the first comma. MPI allows this call,
// and few others, before it has started.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown version";
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

std::string launcher_name() {
  const Environment environment = this_environment();
  if (find(environment, "OMPI_COMM_WORLD_SIZE")) return "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE)";
  if (find(environment, "MPI_LOCALRANKID")) return "MPICH's mpirun (PMI_SIZE)";
  if (find(environment, "SLURM_STEP_ID")) return "srun (SLURM_STEP_ID)";
  return "another launcher";
}

// An mpirun of another MPI starts as many processes, but to our library each of them is alone.
void require_own_launcher(int found, int ranks) {
  require(found == ranks,
          "{} has started {} ranks, but this daso is built with {}, which finds {}: they do not "
          "belong together; start with the mpirun of {}, or meet without MPI: --backend gloo and "
          "DASO_RENDEZVOUS=HOST:PORT, an address of rank 0's machine",
          launcher_name(), ranks, library_version(), found, library_version());
}

// The last owner may be a callback on the progress thread, which cannot join itself.
void destroy(Progress* progress) {
  if (progress->is_this_thread()) {
    std::thread([progress] { delete progress; }).detach();
  } else {
    delete progress;
  }
}

// Gives the running MPI, or starts it, and compares its ranks with those that the launcher has
// started. Under the lock of `one`.
std::shared_ptr<Progress> join(Process& one, int ranks) {
  if (auto running = one.progress.lock()) {
    require_own_launcher(running->size(), ranks);
    return running;
  }
  require(!one.started,
          "MPI has already ended in this process and cannot start again; keep the world open, or "
          "use --backend gloo");
  require_mpirun();
  const OpenMpiDefaults defaults;
  one.started = true;
  std::shared_ptr<Progress> progress(new Progress(kStartLimit), &destroy);
  require_own_launcher(progress->size(), ranks);
  one.progress = progress;
  return progress;
}

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(std::shared_ptr<Progress> progress) : progress_(std::move(progress)) {}
  ~MpiBackend() override {
    const std::lock_guard lock(process().mutex);
    process().open = false;
  }

  c10::intrusive_ptr<c10d::Backend> make_group(const GroupPlan& plan) override {
    return mpi::make_group(progress_, plan);
  }
  void leak() override { progress_->leak(); }

 private:
  std::shared_ptr<Progress> progress_;
};

std::unique_ptr<Backend> open(int ranks) {
  Process& one = process();
  const std::lock_guard lock(one.mutex);
  require(!one.open,
          "the mpi backend is already open in this process; MPI counts processes, so ranks cannot "
          "be threads on it (use processes, or --backend gloo)");
  auto backend = std::make_unique<MpiBackend>(join(one, ranks));
  one.kept.reset();
  one.open = true;
  return backend;
}

std::vector<std::string> gather(const std::string& text, int ranks) {
  Process& one = process();
  std::shared_ptr<Progress> progress;
  {
    const std::lock_guard lock(one.mutex);
    progress = join(one, ranks);
    if (!one.open) one.kept = progress;
  }
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<int> lengths(size);
  std::vector<int> offsets(size);
  std::string all;
  progress->call("telling all ranks", kStartLimit, [&] {
    const auto own = static_cast<int>(text.size());
    mpi_check(MPI_Allgather(&own, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD));
    std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
    all.resize(static_cast<std::size_t>(offsets.back() + lengths.back()));
    mpi_check(MPI_Allgatherv(text.data(), own, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                             MPI_CHAR, MPI_COMM_WORLD));
  });
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < size; ++rank) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[rank]),
                               static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace
}  // namespace daso::mpi

extern "C" const daso::BackendModule* daso_backend_module() {
  static const std::string version = daso::mpi::library_version();
  static const daso::BackendModule module = {.version = daso::kVersion,
                                             .detail = version.c_str(),
                                             .open = &daso::mpi::open,
                                             .gather = &daso::mpi::gather};
  return &module;
}
