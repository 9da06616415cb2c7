// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/evaluation.h"
#include "core/foreign_model.h"
#include "core/joined_world.h"
#include "daso/comm/gather_text.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/message_of.h"
#include "daso/comm/views.h"
#include "daso/data/shard.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/optim/gradients.h"
#include "daso/record/metrics.h"
#include "daso/record/output_folder.h"
#include "daso/run/interrupt.h"
#include "daso/run/train.h"
#include "daso/run/train_output.h"
#include "daso/run/views/deal.h"
#include "daso/run/views/replay.h"
#include "daso/run/views/takeover.h"
#include "daso/tensor/safetensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace daso::python {
namespace {

// A run whose loop is written in Python: the Run, its Course and what rank 0 keeps of it. Python's
// side (run.py) calls the functions of a Course in their order; what they are for stands there.
class LoopRun {
 public:
  // `loop` has the Python methods that are named below.
  LoopRun(nb::object world, const nb::object& loop, const NamedTensors& parameters,
          const NamedTensors& buffers, const std::vector<std::string>& flags, const nb::dict& facts)
      : world_object_(std::move(world)), world_(nb::cast<JoinedWorld&>(world_object_)) {
    const Held python = held(loop);
    task_ = task_of(python, facts);
    task_.module = TaskModule(module_of(parameters, buffers));
    device_ = parameters.front().second.device();
    steps_ = [python](const DealSeat& seat) {
      const nb::gil_scoped_acquire acquire;
      return nb::cast<std::int64_t>(python->attr("_steps_of")(seat.number, seat.of));
    };
    const auto prepare = [&] {
      settings_ = parse_flags(flags, Settings{.trace = StepRange{0, 200}});
      if (replayed().empty()) return;
      settings_.out = find(this_environment(), kReplayOutVariable).value_or("");
      settings_.resume_from = beginning_of(replayed());
      settings_.resume = !settings_.resume_from.empty();
    };
    world_.survives() ? prepare() : world_.without_lock(prepare);
    if (!world_.survives()) world_.without_lock([&] { begin(); });
  }
  LoopRun(const LoopRun&) = delete;
  LoopRun& operator=(const LoopRun&) = delete;
  ~LoopRun() {
    const nb::gil_scoped_release release;  // what is on its way may wait for others
    if (world_.is_foreign()) {
      static_cast<void>(output_.release());
      static_cast<void>(course_.release());
      static_cast<void>(run_.release());
    }
    output_.reset();
    course_.reset();
    run_.reset();
  }

  // All tensors by name, and the place. What comes from another process must be of as many ranks.
  std::pair<State, std::vector<std::int64_t>> state() {
    const RunState state = course().state();
    State tensors;
    add_section(tensors, "common.", state.common);
    add_section(tensors, "own.", state.own);
    return {tensors, {state.place.epoch, state.place.batch, state.place.step}};
  }
  void load_state(const State& tensors, const std::vector<std::int64_t>& place) {
    RunState state = course().state();  // of which this keeps what says whose it is
    require(place.size() == 3, "a place has an epoch, a batch and a step");
    state.place = {static_cast<int>(place[0]), place[1], place[2]};
    state.common = section(tensors, "common.");
    state.own = section(tensors, "own.");
    output_.reset();
    course_.reset();
    run_->leave(std::move(state));
    begin();
  }

  // Where nodes may be lost (comm/worlds.h).

  // Something between the nodes has failed: unless a loss explains it the view begins anew.
  void note_trouble(const std::string& what) { world_->views()->trouble(what); }
  // Leaves the run as it is to the next view. A step that is not done is as if it had not begun.
  void leave() {
    if (world_->view()->end) {
      end_by_script(*world_, *run_);
      ends_by_script_ = has_come_to(run_->place(), *world_->view()->end);
      lost_by_script_ = ends_by_script_ && !world_->view()->end->left;
      view_ = world_->view()->number;
    }
    course().leave();
    if (output_) output_->leave();
    output_.reset();
    course_.reset();
  }
  // What comes then.
  enum class Next { kView, kLeft, kAgain };
  // Goes on in the world that there is while it holds, and else in the next one (kView), unless its
  // node has left the run (kLeft), or is one that was lost in the run which this is a replay of:
  // the process begins again (kAgain).
  Next enter() {
    for (;;) {
      if (ends_by_script_ && (lost_by_script_ || world_.over())) {
        const bool again = !world_.over();
        world_.close();
        return again ? Next::kAgain : Next::kLeft;
      }
      if (!run_ && !received_) received_ = world_.receive_copy(settings_);
      try {
        if (!world_.holds() || ends_by_script_) world_.next();
      } catch (const NodeLeft&) {
        return Next::kLeft;
      }
      ends_by_script_ = false;
      try {
        with_abandon(*world_, [&] { begin(); });
        return Next::kView;
      } catch (const PeerError&) {
        // What has not begun to go on goes on from where it was left; else it is half of something.
        if (lost_ || !replayed().empty() || (run_ && run_->in_session())) throw;
        output_.reset();
        course_.reset();
      }
    }
  }

  // Empty: in a view. Else "left", or the view that the process begins again after.
  std::string enter_and_tell() {
    switch (enter()) {
      case Next::kView:
        return "";
      case Next::kLeft:
        return "left";
      case Next::kAgain:
        return std::to_string(view_);
    }
    return "";
  }
  // The run that this is a replay of; empty: none.
  static std::string replayed() { return find(this_environment(), kReplayVariable).value_or(""); }

  // Throws PeerError between two views.
  Course& course() {
    if (!course_) throw PeerError("a node was lost: the run goes on with the next batch");
    return *course_;
  }
  Run& run() { return *run_; }
  JoinedWorld& world() { return world_; }

  void watch_signals() { interrupt_.emplace(InterruptOptions{.says = world_->rank() == 0}); }
  void release_signals() {
    if (interrupt_) signal_ = interrupt_->signal();
    interrupt_.reset();
  }
  std::optional<int> signal() const { return signal_; }
  void begin_turn() {
    course().begin_turn([this] { return interrupt_ ? interrupt_->signal() : std::nullopt; });
  }

  // Over all ranks. Those of a node go on together, or fail together.
  at::Tensor reduced(const at::Tensor& own, const std::string& how) {
    NodeLink* const home = world_->views() == nullptr ? nullptr : &world_->node_link("scores");
    at::Tensor found;
    wait_for_nodes(home, world_->limit(), [&] {
      found = world_->everyone().all_reduce(own.clone(), reduce_of(how)).wait(world_->limit());
    });
    return found;
  }

  // While it waits for a batch.
  void begin_data() {
    data_.emplace(world_->timeline(), Track::kData, "data", course().step().step);
  }
  void end_data() { data_.reset(); }

  // An optimizer of Python has made its step; one of ours makes it now.
  void update() {
    if (run_->task().optimizer) {
      run_->optimizer().step(course().step().rate);
    } else {
      course().update();
    }
  }
  // Of the optimizer, in the step that was begun; its mean loss.
  double evaluated(std::int64_t number, double loss) {
    return common_loss(course().averaged_with(), run_->model(),
                       {.step = course().step().step, .number = number, .loss = loss},
                       world_->limit());
  }
  void clip() {
    const std::optional<double>& norm = run_->settings().clip_norm;
    if (norm && run_->task().optimizer) clip_by_norm(run_->model(), *norm);  // else update() does
  }

  OnProgress on_progress() {
    return [this](const Progress& now) {
      now_ = now;
      (*output_)(now);
    };
  }
  std::string metrics() const { return now_ ? record_of(*now_).dump() : "{}"; }

  std::string finish() {
    Summary summary = course().finish();
    if (output_) output_->end(summary);
    if (output_ && !replayed().empty()) {
      fmt::print("{}", compare_replay(replayed(), settings_.out));
    }
    return text_of(summary);
  }

 private:
  void begin() {
    settings_.out = folder();
    if (!run_) {
      run_ = std::make_unique<Run>(settings_, std::move(task_), device_);
      run_->receive(std::move(received_));
    }
    const Takeover takeover = takeover_in(*world_, *run_);
    lost_ = takeover.lost;
    if (lost_) throw PeerError("all nodes that had the run are gone");
    const bool resumes = run_->left().has_value();  // by load_state()
    if (!takeover.any && !resumes) prepare_output(*world_, *run_);
    const DealSeat seat = take_seat(*world_, *run_);
    course_ = std::make_unique<Course>(*world_, *run_, steps_(seat));
    if (world_->rank() != 0) return;
    output_ = std::make_unique<TrainOutput>(*world_, *course_, OutputOptions{.lines = false});
  }

  // Who joins is told where the run writes.
  std::filesystem::path folder() {
    if (!world_->view()) return run_ ? settings_.out : agreed_folder(*world_, settings_.out);
    const std::string own = (run_ ? "+" : "-") + settings_.out.string();
    const std::vector<std::string> all = gather_text(world_->everyone(), own, world_->limit());
    for (const std::string& one : all) {
      if (one.starts_with('+')) return one.substr(1);
    }
    return agreed_folder(*world_, settings_.out);
  }

  // Copied and let go where Python's lock is not held.
  using Held = std::shared_ptr<const nb::object>;
  static Held held(const nb::object& object) {
    return Held(new nb::object(object), [](const nb::object* one) {
      const nb::gil_scoped_acquire acquire;
      delete one;
    });
  }
  template <typename Result>
  static Result call(const Held& loop, const char* name) {
    const nb::gil_scoped_acquire acquire;
    return nb::cast<Result>(loop->attr(name)());
  }
  template <typename Argument>
  static void tell(const Held& loop, const char* name, const Argument& argument) {
    const nb::gil_scoped_acquire acquire;
    loop->attr(name)(argument);
  }

  using Epochs = std::vector<std::tuple<std::string, int, int>>;  // phase, skip, wait
  static std::vector<EpochPlan> schedule_of(const Epochs& epochs) {
    std::vector<EpochPlan> plans;
    for (const auto& [phase, skip, wait] : epochs) {
      const std::array phases{Phase::kWarmup, Phase::kCycling, Phase::kCooldown};
      const auto* found = std::find_if(phases.begin(), phases.end(),
                                       [&](Phase one) { return phase == name_of(one); });
      require(found != phases.end(), "there is no phase '{}'; there are warmup, cycling, cooldown",
              phase);
      plans.push_back({.phase = *found, .cadence = {.skip = skip, .wait = wait}});
    }
    return plans;
  }

  static Task task_of(const Held& loop, const nb::dict& facts) {
    Task task{.own_loop = true};
    task.finite_gradients = nb::cast<bool>(facts["finite_gradients"]);
    task.model = nb::cast<std::string>(facts["model"]);
    task.data = nb::cast<std::string>(facts["data"]);
    task.schedule = schedule_of(nb::cast<Epochs>(facts["schedule"]));
    task.state = [loop] { return call<State>(loop, "_state_of_loop"); };
    task.load_state = [loop](const State& state) { tell(loop, "_load_state_of_loop", state); };
    const auto optimizer = nb::cast<std::string>(facts["optimizer"]);
    if (optimizer.empty()) return task;  // one of ours
    task.optimizer = [loop, optimizer](FlatModel&) {
      return std::make_unique<ForeignOptimizer>(
          optimizer,
          ForeignOptimizer::Calls{
              .state = [loop] { return call<State>(loop, "_optimizer_state"); },
              .load_state =
                  [loop](const State& state) { tell(loop, "_load_optimizer_state", state); },
              .moments = [loop] { return call<std::vector<at::Tensor>>(loop, "_moments"); },
              .set_steps =
                  [loop](std::int64_t steps) { tell(loop, "_set_optimizer_steps", steps); }});
    };
    return task;
  }

  const nb::object world_object_;  // stays while the run is there
  JoinedWorld& world_;
  Task task_;  // until there is a Run
  at::Device device_ = at::Device(at::kCPU);
  Settings settings_;
  std::function<std::int64_t(const DealSeat&)> steps_;  // of an epoch that is dealt so
  bool lost_ = false;                                   // all who had the run are
  bool ends_by_script_ = false;                         // in a replay, the view that was left
  bool lost_by_script_ = false;                         // this node, there
  std::int64_t view_ = 0;                               // its number
  std::unique_ptr<CopyReceiver> received_;              // until there is a run
  std::unique_ptr<Run> run_;
  std::unique_ptr<Course> course_;
  std::unique_ptr<TrainOutput> output_;  // rank 0's
  std::optional<Interrupt> interrupt_;
  std::optional<int> signal_;  // that came while signals were watched
  std::optional<TimedSpan> data_;
  std::optional<Progress> now_;
};

// What Python's function returns; a PeerError of its own is one here.
nb::object called(const nb::callable& function) {
  try {
    return function();
  } catch (const nb::python_error& error) {
    const nb::object peer_error = nb::module_::import_("daso._core").attr("PeerError");
    if (error.matches(peer_error)) throw PeerError(nb::cast<std::string>(nb::str(error.value())));
    throw;
  }
}

// A function of the course, without Python's lock.
template <typename Act>
auto act(const Act& action) {
  return [action](LoopRun& one) { return one.world().without_lock([&] { return action(one); }); };
}

void bind_steps(nb::class_<LoopRun>& one) {
  one.def("watch_signals", &LoopRun::watch_signals)
      .def("release_signals", &LoopRun::release_signals)
      .def("begin_turn", act([](LoopRun& run) { run.begin_turn(); }))
      .def("end_turn", act([](LoopRun& run) { run.course().end_turn(); }))
      .def("begin_data", &LoopRun::begin_data)
      .def("end_data", &LoopRun::end_data)
      .def("clip", act([](LoopRun& run) { run.clip(); }))
      .def("begin_step", act([](LoopRun& run) { run.course().begin_step(); }))
      .def("set_rate", [](LoopRun& run, double rate,
                          std::optional<double> next) { run.course().set_rate(rate, next); })
      .def("zero_gradients", act([](LoopRun& run) { run.run().model().zero_gradients(); }))
      .def("take_back_gradients",
           act([](LoopRun& run) { run.run().model().take_back_gradients(); }))
      .def("begin_backward", act([](LoopRun& run) { run.course().begin_backward(); }))
      .def("average",
           [](LoopRun& run, const at::Tensor& loss) {
             run.world().without_lock([&] { run.course().average(loss); });
           })
      .def("evaluated",
           [](LoopRun& run, std::int64_t number, double loss) {
             return run.world().without_lock([&] { return run.evaluated(number, loss); });
           })
      .def("update", act([](LoopRun& run) { run.update(); }))
      .def("end_step", act([](LoopRun& run) { run.course().end_step(); }))
      .def("after_step",
           act([](LoopRun& run) { return run.course().after_step(run.on_progress()); }))
      .def("end_epoch", act([](LoopRun& run) { run.course().end_epoch(); }))
      .def("evaluate",
           [](LoopRun& run, const nb::callable& score) {
             run.world().without_lock([&] {
               run.course().evaluate([&]() -> Score {
                 const nb::gil_scoped_acquire acquire;
                 const auto [loss, accuracy] = nb::cast<std::pair<double, double>>(called(score));
                 return {.loss = loss, .accuracy = accuracy};
               });
             });
           })
      .def("close_epoch", act([](LoopRun& run) { run.course().close_epoch(run.on_progress()); }))
      .def("average_buffers", act([](LoopRun& run) { run.course().average_buffers(); }))
      .def("go_on_at_end", act([](LoopRun& run) { run.course().go_on_at_end(); }))
      .def("checkpoint", act([](LoopRun& run) { run.course().checkpoint(); }))
      .def("reduce",
           [](LoopRun& run, const at::Tensor& own, const std::string& how) {
             return run.world().without_lock([&] { return run.reduced(own, how); });
           })
      .def("note_trouble",
           [](LoopRun& run, const std::string& what) {
             const nb::gil_scoped_release release;
             run.note_trouble(what);
           })
      .def("leave", [](LoopRun& run) { JoinedWorld::interruptible([&] { run.leave(); }); })
      .def("enter",
           [](LoopRun& run) {
             return JoinedWorld::interruptible([&] { return run.enter_and_tell(); });
           })
      .def("state", act([](LoopRun& run) { return run.state(); }))
      .def("load_state",
           [](LoopRun& run, const State& tensors, const std::vector<std::int64_t>& place) {
             run.world().without_lock([&] { run.load_state(tensors, place); });
           })
      .def("finish", act([](LoopRun& run) { return run.finish(); }));
}

void bind_facts(nb::class_<LoopRun>& one) {
  one.def_prop_ro("epoch", [](LoopRun& run) { return run.run().place().epoch; })
      .def_prop_ro("batch", [](LoopRun& run) { return run.run().place().batch; })
      .def_prop_ro("step", [](LoopRun& run) { return run.run().place().step; })
      .def_prop_ro("steps_per_epoch", [](LoopRun& run) { return run.course().plan().batches; })
      .def_prop_ro("rate", [](LoopRun& run) { return run.course().step().rate; })
      .def_prop_ro("exchanged", [](LoopRun& run) { return run.course().exchanged(); })
      .def_prop_ro("epoch_is_done", [](LoopRun& run) { return run.course().epoch_is_done(); })
      .def_prop_ro("view_over", [](LoopRun& run) { return run.course().view_over(); })
      .def_prop_ro("finished", [](LoopRun& run) { return run.run().finished(); })
      .def_prop_ro("stopping", [](LoopRun& run) { return run.course().stopping(); })
      .def_prop_ro("resumed", [](LoopRun& run) { return run.course().resumed().has_value(); })
      .def_prop_ro("signal", &LoopRun::signal)
      .def_prop_ro("out", [](LoopRun& run) { return run.run().settings().out.string(); })
      .def_prop_ro("stopped_exit",
                   [](LoopRun& run) {
                     return run.replayed().empty() ? run.run().settings().stopped_exit : kExitOk;
                   })
      .def_prop_ro("accumulate", [](LoopRun& run) { return run.run().settings().accumulate; })
      .def_prop_ro("settings",
                   [](LoopRun& run) { return resolved_configuration(*run.world(), run.course()); })
      .def_prop_ro("spans",
                   [](LoopRun& run) {
                     std::vector<std::pair<std::string, std::int64_t>> spans;
                     for (const FlatSpan& span : run.run().model().parameter_spans()) {
                       spans.emplace_back(span.name, span.offset);
                     }
                     return spans;
                   })
      .def_prop_ro("flat_parameters", [](LoopRun& run) { return run.run().model().parameters(); })
      .def_prop_ro("metrics", &LoopRun::metrics)
      .def("count_samples",
           [](LoopRun& run, double per_step) { run.course().count_samples(per_step); });
}

std::vector<std::int64_t> shard(std::int64_t examples, int ranks, int batch_size, bool wrap,
                                std::uint64_t seed, int epoch, int rank) {
  return shard_of({.examples = examples,
                   .ranks = ranks,
                   .batch_size = batch_size,
                   .uneven = wrap ? Uneven::kWrap : Uneven::kDrop,
                   .seed = seed},
                  epoch, rank);
}

}  // namespace

void bind_run(nb::module_& module) {
  nb::class_<LoopRun> one(module, "LoopRun");
  one.def(nb::init<nb::object, const nb::object&, const NamedTensors&, const NamedTensors&,
                   const std::vector<std::string>&, const nb::dict&>());
  bind_steps(one);
  bind_facts(one);
  module.def("shard", &shard, "examples"_a, "ranks"_a, "batch_size"_a, "wrap"_a, "seed"_a,
             "epoch"_a, "rank"_a);
  module.def("write_tensors", [](const std::string& path, const State& tensors) {
    const nb::gil_scoped_release release;
    State kept_tensors;
    for (const auto& [name, tensor] : tensors) kept_tensors[name] = kept(tensor);
    write_tensors(path, kept_tensors);
  });
}

}  // namespace daso::python
