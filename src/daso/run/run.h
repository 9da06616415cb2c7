// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "daso/base/seconds.h"
#include "daso/data/loader.h"
#include "daso/optim/gradients.h"
#include "daso/optim/optimizer.h"
#include "daso/record/membership.h"
#include "daso/run/checkpoint.h"
#include "daso/run/saved_model.h"
#include "daso/run/settings.h"
#include "daso/run/tally.h"
#include "daso/run/task.h"
#include "daso/run/views/copies.h"
#include "daso/tensor/flat_model.h"

// A run is one training from its first step to its last, whoever takes part in it and however often
// it is stopped. This folder keeps apart what belongs to it for good and what belongs to the ranks
// that train it now:
//
//   Run         (run.h)          what stays: settings, data, network, optimizer, loss scaler,
//                                tally, and the place that it has come to
//   Task        (task.h)         data, module, loss, optimizer of one's own, for a Run
//   Course      (course.h)       what is made from one world and ends with it: strategy, groups of
//                                ranks, control, checkpoint writer, trace, times; for any loop
//   Session     (session.h)      a course, shares of the data, and what computes: our own loop
//   checkpoint  (checkpoint.h)   a run written down, with what the strategy has to carry over
//   record      (../record)      what people see of it: progress, summary, traces
//   train()     (train.h)        all of it in one call, as `daso train` does it
//
//   Run run(settings);                           // or run(settings, task)
//   Session session(world, run);                 // begins, or goes on from a checkpoint
//   session.train(on_progress, interrupted);
//
// A session goes on where another one has left the run, in this process (Session::leave()) or in
// another (a checkpoint): both hand over the same RunState, and end with the same bits. In the
// middle of an epoch it takes as many ranks and nodes; from an epoch's beginning, when all nodes
// are equal, any number can go on, with what rank 0 has. So a run outlives its world:
//
//   session->leave();  session.reset();
//   World smaller = std::move(world).next_generation(limit);
//   Session rest(smaller, run);
namespace daso {

class CopyReceiver;  // in views/copy_receiver.h
class Network;       // in network.h

// How the examples of an epoch are dealt: a share for each of these ranks, by the numbers that they
// were started with (World::rank_id()). It stays as it is until the epoch ends, whoever is lost.
struct Deal {
  std::vector<int> rank_ids;
  int nodes = 0;  // that they stood on

  bool empty() const { return rank_ids.empty(); }
  int ranks() const { return static_cast<int>(rank_ids.size()); }
  bool operator==(const Deal&) const = default;
};

// How a session uses it: what a Run has is lent out, and the session changes it step by step.
class Run {
 public:
  // Opens the data and draws the network's parameters by the seed, where the task leaves them to
  // the settings; the process's own random numbers go on as if nothing had been drawn. A module of
  // the task becomes the run's (FlatModel). Throws ConfigError for what does not fit.
  // The device is that of rank_device(), where the module is moved to.
  explicit Run(const Settings& settings, Task task = {}, at::Device device = at::Device(at::kCPU));
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  const Settings& settings() const { return settings_; }  // with the names of the task
  const Task& task() const { return task_; }
  bool is_own() const;  // the settings do not name all of it: only its own program can go on
  // These three are empty where the examples are the task's.
  const Datasets& data() const { return data_; }
  const Normalisation& normalisation() const { return normalisation_; }
  ModelInput input() const;

  Network& network() { return *network_; }          // gives scores
  torch::nn::Module& module() { return *module_; }  // has the layers and parameters
  at::Device device() const { return model_.parameters().device(); }
  FlatModel& model() { return model_; }
  const FlatModel& model() const { return model_; }
  Optimizer& optimizer() { return *optimizer_; }
  std::optional<LossScaler>& scaler() { return scaler_; }  // of fp16
  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }

  // The step to go on with.
  const RunPlace& place() const { return place_; }
  void move_to(const RunPlace& place) { place_ = place; }
  // When this process has done a step of it last; none: it has not yet.
  const std::optional<Clock::time_point>& last_step() const { return last_step_; }
  void step_done() { last_step_ = Clock::now(); }
  bool finished() const {
    return place_.epoch >= settings_.epochs ||
           (settings_.max_steps && place_.step >= *settings_.max_steps);
  }

  // Exchanges that were done before the job that trains it now began.
  std::int64_t exchanges_before() const { return exchanges_before_; }
  void exchanges_before(std::int64_t number) { exchanges_before_ = number; }

  // What this process gives ahead to nodes that are to join, and what it was given itself.
  JoinerCopies& copies() { return copies_; }
  const JoinerCopies& copies() const { return copies_; }
  const std::unique_ptr<CopyReceiver>& received() const { return received_; }
  void receive(std::unique_ptr<CopyReceiver> receiver);

  // The views that it was trained in of late, for those who write them down (record/membership.h).
  const std::vector<ViewRecord>& views() const { return views_; }
  void remember(ViewRecord view);

  // The last checkpoint was broken off by the end of a view, and is to be written again.
  bool owes_checkpoint() const { return owes_checkpoint_; }
  void owe_checkpoint(bool owes) { owes_checkpoint_ = owes; }

  const Deal& deal() const { return deal_; }
  void deal(Deal deal) { deal_ = std::move(deal); }

  // What a checkpoint keeps of it, in copies; the session adds what is its own. load() is the way
  // back, but for the place; it throws ConfigError where the tensors are those of another run.
  RunState state() const;
  void load(const RunState& state);

  // One session at a time has the run. A session that ends by an error does not leave it: its
  // tensors may be half of one step and half of the next.
  bool in_session() const { return in_session_; }
  void enter();
  void leave(RunState state);
  const std::optional<RunState>& left() const { return left_; }

 private:
  const Task task_;
  const Settings settings_;
  const Datasets data_;
  const std::shared_ptr<Network> network_;
  const std::shared_ptr<torch::nn::Module> module_;
  FlatModel model_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Normalisation normalisation_;
  std::optional<LossScaler> scaler_;
  Tally tally_;
  RunPlace place_;
  std::optional<Clock::time_point> last_step_;
  Deal deal_;
  std::vector<ViewRecord> views_;
  JoinerCopies copies_;
  std::unique_ptr<CopyReceiver> received_;  // null: nothing
  std::int64_t exchanges_before_ = 0;
  bool owes_checkpoint_ = false;
  bool in_session_ = false;
  std::optional<RunState> left_;  // by the last session; none: there was none, or one has it
};

}  // namespace daso
