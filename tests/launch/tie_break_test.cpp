// SPDX-License-Identifier: Apache-2.0
// Two halves that claim one view at once: by files, and before a witness.
#include "daso/launch/tie_break.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <future>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/launch/witness.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

using membership::Member;
using membership::ViewNumber;
using Half = std::vector<Member>;

const Half kLow = {{0, 1}, {1, 1}};
const Half kHigh = {{2, 1}, {3, 7}};
constexpr ViewNumber kViews = 20;

// Claims these views, one after the other.
std::vector<std::optional<Half>> claim_all(TieBreak& tie_break, const Half& half) {
  std::vector<std::optional<Half>> named;
  for (ViewNumber view = 1; view <= kViews; ++view) named.push_back(tie_break.claim(view, half));
  return named;
}

// Four who claim at once: two for each half. Each view has one winner, whoever asks.
void expect_one_winner(const std::function<std::unique_ptr<TieBreak>()>& make) {
  std::vector<std::future<std::vector<std::optional<Half>>>> claims;
  for (const Half& half : {kLow, kHigh, kLow, kHigh}) {
    claims.push_back(std::async(std::launch::async, [&make, half] {
      const auto tie_break = make();
      return claim_all(*tie_break, half);
    }));
  }
  const std::vector<std::optional<Half>> first = claims[0].get();
  for (const auto& named : first) EXPECT_TRUE(named == kLow || named == kHigh);
  for (std::size_t i = 1; i < claims.size(); ++i) EXPECT_EQ(claims[i].get(), first);
}

TEST(Half, ComesBackAsItWas) {
  EXPECT_EQ(text_of_half(kHigh), "2.1,3.7");
  EXPECT_EQ(parse_half("2.1,3.7"), kHigh);
  EXPECT_EQ(parse_half("4294967295.18446744073709551615"),
            (Half{{4294967295u, 18446744073709551615u}}));
  for (const char* wrong : {"", "2", "2.", ".1", "2.1,", "2.1,1.1", "2.1,2.1", "2.1 ", "-1.1",
                            "4294967296.1", "2.1,3.7,x"}) {
    EXPECT_FALSE(parse_half(wrong).has_value()) << wrong;
  }
}

TEST(FileTieBreak, NamesOneHalfToThreads) {
  const ScratchFolder scratch;
  expect_one_winner([&] { return std::make_unique<FileTieBreak>(scratch.path() / "views"); });
  EXPECT_EQ(names_in(scratch.path() / "views").size(), kViews);  // no drafts
}

TEST(FileTieBreak, NamesOneHalfToProcesses) {
  const ScratchFolder scratch;
  const auto answers_of = [&](int process) {
    return scratch.path() / ("answers" + std::to_string(process));
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      FileTieBreak tie_break(scratch.path() / "views");
      std::string answers;
      for (const auto& named : claim_all(tie_break, process % 2 == 0 ? kLow : kHigh)) {
        answers += named ? text_of_half(*named) + "\n" : tie_break.trouble() + "\n";
      }
      write_file(answers_of(process), answers);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  const std::string first = read_file(answers_of(0));
  EXPECT_EQ(std::ranges::count(first, '\n'), std::ptrdiff_t{kViews});
  EXPECT_EQ(first.find("cannot"), std::string::npos) << first;
  for (int process = 1; process < 4; ++process) EXPECT_EQ(read_file(answers_of(process)), first);
}

TEST(FileTieBreak, SaysWhyItNamesNobody) {
  const ScratchFolder scratch;
  write_file(scratch.path() / "views", "a file where the folder is to be");
  FileTieBreak blocked(scratch.path() / "views");
  EXPECT_EQ(blocked.claim(2, kLow), std::nullopt);
  EXPECT_NE(blocked.trouble(), "");
  write_file(scratch.path() / "2", "who knows");
  FileTieBreak damaged(scratch.path());
  EXPECT_EQ(damaged.claim(2, kLow), std::nullopt);
  EXPECT_EQ(damaged.trouble(), (scratch.path() / "2").string() + " names no half of a view");
  EXPECT_EQ(damaged.claim(3, kLow), kLow);
  EXPECT_EQ(damaged.trouble(), "");
}

// --- a witness ---

std::unique_ptr<Witness> start_witness(const std::filesystem::path& file = {}) {
  return std::make_unique<Witness>(
      Witness::Options{.listening = listen_on({"127.0.0.1", 0}), .key = "key", .file = file});
}

std::unique_ptr<WitnessTieBreak> ask(const Witness& witness, const std::string& job = "job",
                                     const std::string& key = "key") {
  return std::make_unique<WitnessTieBreak>(WitnessTieBreak::Options{
      .witness = witness.address(), .key = key, .job = job, .limit = Seconds(5)});
}

TEST(Witness, NamesOneHalf) {
  const auto witness = start_witness();
  expect_one_winner([&] { return ask(*witness); });
}

TEST(Witness, KeepsJobsAndViewsApart) {
  const auto witness = start_witness();
  EXPECT_EQ(ask(*witness, "one")->claim(2, kLow), kLow);
  EXPECT_EQ(ask(*witness, "two")->claim(2, kHigh), kHigh);
  EXPECT_EQ(ask(*witness, "one")->claim(3, kHigh), kHigh);
  EXPECT_EQ(ask(*witness, "one")->claim(2, kHigh), kLow);
}

TEST(Witness, RefusesAWrongKey) {
  const auto witness = start_witness();
  WitnessTieBreak stranger(
      {.witness = witness->address(), .key = "another", .job = "job", .limit = Seconds(0.3)});
  EXPECT_EQ(stranger.claim(2, kLow), std::nullopt);
  EXPECT_EQ(stranger.trouble(),
            "the witness at " + witness->address().text() + ": it does not belong to this job");
  EXPECT_EQ(ask(*witness)->claim(2, kHigh), kHigh);  // the other has not counted
}

TEST(Witness, IsMissedWithinALimit) {
  const FileDescriptor deaf = listen_on({"127.0.0.1", 0});  // lets in, and says nothing
  WitnessTieBreak tie_break(
      {.witness = bound_address(deaf), .key = "key", .job = "job", .limit = Seconds(0.3)});
  const auto begin = Clock::now();
  EXPECT_EQ(tie_break.claim(2, kLow), std::nullopt);
  EXPECT_LT(since(begin), Seconds(2));
  EXPECT_NE(tie_break.trouble(), "");
  EXPECT_THROW(WitnessTieBreak({.witness = bound_address(deaf), .key = "key", .job = "a job"}),
               ConfigError);
}

TEST(Witness, RemembersWhatItHasSaidInAFile) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "claims";
  EXPECT_EQ(ask(*start_witness(file))->claim(2, kLow), kLow);
  std::ofstream(file, std::ios::app) << "job 3 0.1,1.";  // a witness that was killed in between
  {
    const auto witness = start_witness(file);
    EXPECT_EQ(ask(*witness)->claim(2, kHigh), kLow);
    EXPECT_EQ(ask(*witness)->claim(3, kHigh), kHigh);
    EXPECT_THROW(start_witness(file), ConfigError);  // two of them might name both halves
  }
  EXPECT_EQ(read_file(file), "job 2 0.1,1.1\njob 3 2.1,3.7\n");
  EXPECT_EQ(ask(*start_witness(file))->claim(3, kLow), kHigh);
  write_file(scratch.path() / "letter", "Dear witness,\n");
  EXPECT_THROW(start_witness(scratch.path() / "letter"), ConfigError);
}

}  // namespace
}  // namespace daso::test
