// SPDX-License-Identifier: Apache-2.0
// What a node that is to join is given ahead, over real sockets, with the test as its launcher.
#include "daso/run/views/copies.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "daso/base/error.h"
#include "daso/comm/tcp/mailbox.h"
#include "daso/exchange/outer_rule.h"
#include "daso/kernels/merge.h"
#include "daso/run/views/copy_letters.h"
#include "daso/run/views/copy_receiver.h"
#include "daso/tensor/large_tensor.h"

namespace daso::test {
namespace {

constexpr Seconds kForCopy{20};
constexpr std::int64_t kRows = 5000;  // more than follow() takes at once, and than a piece holds

class Launcher final : public ViewSource {
 public:
  NextView next_view(Seconds) override { return {}; }
  Start start(std::int64_t) override { return Start::kGoes; }
  void prepared(std::int64_t) override {}
  bool committed(std::int64_t, Seconds) override { return true; }
  bool ended() override { return false; }
  void when_ended(std::function<void()>) override {}
  void ask_copy(const std::string& place) override {
    const std::lock_guard lock(mutex_);
    places_.push_back(place);
    changed_.notify_all();
  }
  void caught_up() override {
    const std::lock_guard lock(mutex_);
    caught_up_ = true;
    changed_.notify_all();
  }

  // The one that was asked for after so many others.
  std::string place(std::size_t number) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kForCopy, [&] { return places_.size() > number; }));
    return places_.at(number);
  }
  void await_catching_up() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kForCopy, [&] { return caught_up_; }));
  }
  bool has_caught_up() {
    const std::lock_guard lock(mutex_);
    return caught_up_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> places_;
  bool caught_up_ = false;
};

WorldOptions joiner() {
  WorldOptions options;
  options.place.rendezvous = Address{"127.0.0.1", 1};
  options.place.job_token = "secret";
  options.limit = kForCopy;
  return options;
}

class JoinerCopy : public testing::Test {
 protected:
  JoinerCopy()
      : state_{{kAnchorOfCopy, at::randn({kRows, kBlockElements})},
               {"optimizer.momentum", at::randn({kRows * kBlockElements})},
               {"optimizer.steps", integer(7)},
               {"model.mask", at::arange(2).to(at::kBool)},
               {"model.nothing", at::empty({0, 3})}} {}

  void send(const std::string& place, const std::string& key = "secret") {
    copies_.begin({place}, 10, state_,
                  {.key = key, .limit = kForCopy, .exchange = {.wire = Wire::kInt8}});
  }
  at::Tensor answer(std::int64_t number) const {
    const at::Tensor encoded = at::empty(
        {kRows, static_cast<std::int64_t>(encoded_bytes(Wire::kInt8, kBlockElements))}, at::kChar);
    const at::Tensor values = at::sin(at::arange(kRows * kBlockElements, at::kFloat) + number);
    const at::Tensor none = at::zeros_like(values);
    EXPECT_TRUE(encode(Wire::kInt8, floats(values), floats(none), bytes(encoded)));
    return encoded;
  }
  // The anchor moved by the answers of these exchanges, by hand.
  at::Tensor anchor_after(const std::vector<std::int64_t>& exchanges) const {
    at::Tensor anchor = state_.at(kAnchorOfCopy).clone();
    const at::Tensor step = at::empty({kRows, kBlockElements});
    for (const std::int64_t exchange : exchanges) {
      decode(Wire::kInt8, bytes(answer(exchange)), floats(step));
      anchor += step;
    }
    return anchor;
  }
  std::int64_t hurry() { return copies_.all().front().sender->hurry(); }

  const State state_;
  JoinerCopies copies_;
  const std::shared_ptr<Launcher> launcher_ = std::make_shared<Launcher>();
};

// A member of the job with other letters than a copy's, which is gone soon.
class SomebodyElse {
 public:
  explicit SomebodyElse(const std::string& text) {
    const CopyPlace place = parse_copy_place(text);
    mailbox_ = std::make_unique<tcp::Mailbox>(tcp::MailboxOptions{
        .rank = kCopySender, .view = place.number, .key = "secret", .listening = {}, .limits = {}});
    mailbox_->connect({{kCopyReceiver, place.address}}, kForCopy);
  }
  void say(const std::string& text) {
    const auto kept = std::make_shared<std::string>(text);
    mailbox_->post(kCopyReceiver, {.tag = {.group = kCopyLetters, .number = 0},
                                   .bytes = std::as_bytes(std::span(*kept)),
                                   .done = [kept](const std::exception_ptr&) {}});
  }

 private:
  std::unique_ptr<tcp::Mailbox> mailbox_;
};

TEST_F(JoinerCopy, IsWhatWasCopiedMovedByWhatCameThen) {
  CopyReceiver receiver(launcher_, joiner());
  EXPECT_EQ("", receiver.place());
  send(launcher_->place(0));
  copies_.add(9, answer(9));  // is part of it
  copies_.add(10, answer(10));
  launcher_->await_catching_up();
  EXPECT_EQ(launcher_->place(0), receiver.place());
  copies_.add(12, answer(12));  // 11 was abandoned
  copies_.add(12, answer(12));
  EXPECT_EQ(2, hurry());
  const State taken = receiver.take(2, kForCopy);
  ASSERT_EQ(state_.size(), taken.size());
  EXPECT_TRUE(at::equal(anchor_after({10, 12}), taken.at(kAnchorOfCopy)));
  for (const auto& [name, tensor] : state_) {
    EXPECT_EQ(tensor.scalar_type(), taken.at(name).scalar_type()) << name;
    if (name == kAnchorOfCopy) continue;
    EXPECT_TRUE(at::equal(tensor, taken.at(name))) << name;
  }
  EXPECT_EQ("", receiver.place());
}

TEST_F(JoinerCopy, IsAskedForAgainWhenItsSenderIsGone) {
  CopyReceiver receiver(launcher_, joiner());
  SomebodyElse(launcher_->place(0));
  send(launcher_->place(1));
  launcher_->await_catching_up();
  EXPECT_EQ(launcher_->place(1), receiver.place());
  EXPECT_EQ(0, hurry());
  EXPECT_TRUE(at::equal(state_.at(kAnchorOfCopy), receiver.take(0, kForCopy).at(kAnchorOfCopy)));
}

TEST_F(JoinerCopy, IsGivenUpAfterSomeTries) {
  CopyReceiver receiver(launcher_, joiner());
  for (const std::size_t number : {0U, 1U, 2U}) {
    EXPECT_FALSE(launcher_->has_caught_up());
    SomebodyElse(launcher_->place(number)).say("no index of a copy");
  }
  launcher_->await_catching_up();  // it enters as it is
  EXPECT_EQ("", receiver.place());
  EXPECT_THROW(receiver.take(0, kForCopy), PeerError);
}

TEST_F(JoinerCopy, EndsWhenItsSenderIsLostLater) {
  CopyReceiver receiver(launcher_, joiner());
  send(launcher_->place(0));
  launcher_->await_catching_up();
  copies_.drop();
  EXPECT_THROW(receiver.take(1, kForCopy), PeerError);
  EXPECT_EQ("", receiver.place());
}

TEST_F(JoinerCopy, ComesFromNobodyWithoutTheKey) {
  WorldOptions options = joiner();
  options.limit = Seconds(1);
  CopyReceiver receiver(launcher_, options);
  send(launcher_->place(0), "guessed");
  EXPECT_NE("", launcher_->place(1));  // nobody came in time
  EXPECT_EQ("", receiver.place());
}

// Answers that wait may take as much memory as the copy, and no more.
TEST_F(JoinerCopy, IsOfNoUseToAJoinerThatDoesNotKeepUp) {
  send("127.0.0.1:1/5");  // where nobody listens
  const auto answers =
      static_cast<std::int64_t>(2 * state_.at(kAnchorOfCopy).nbytes() / answer(0).nbytes());
  const at::Tensor one = answer(0);
  for (std::int64_t exchange = 10; exchange <= 10 + answers; ++exchange) copies_.add(exchange, one);
  EXPECT_FALSE(copies_.all().front().holds());
}

TEST_F(JoinerCopy, StaysHereInAReplay) {
  copies_.begin({replayed_place(3, 1)}, 10, state_, {.sends = false});
  const JoinerCopies::Copy* copy = copies_.find("node 1 before view 3");
  ASSERT_NE(nullptr, copy);
  EXPECT_TRUE(copy->holds());
  EXPECT_TRUE(at::equal(state_.at("optimizer.momentum"), copy->state.at("optimizer.momentum")));
}

TEST(CopyPlace, IsReadAsItWasWritten) {
  const CopyPlace place = parse_copy_place("[fe80::1]:4000/18446744073709551615");
  EXPECT_EQ("[fe80::1]:4000/18446744073709551615", place.text());
  EXPECT_EQ(~std::uint64_t{0}, place.number);
  for (const char* text : {"", "a:1", "a:1/", "a:1/x", "a/5"}) {
    EXPECT_THROW(parse_copy_place(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace daso::test
