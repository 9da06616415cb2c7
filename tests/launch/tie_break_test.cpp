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
using membership::View;
using Half = std::vector<Member>;

const Half kLow = {{0, 1}, {1, 1}};
const Half kHigh = {{2, 1}, {3, 7}};
constexpr int kViews = 20;

View view(int number) {
  return {.number = static_cast<membership::ViewNumber>(number),
          .members = {{0, 1}, {1, 1}, {2, 1}, {3, 7}}};
}

// As if all members of the view had been there.
std::unique_ptr<FileTieBreak> shared(const std::filesystem::path& folder) {
  std::unique_ptr<FileTieBreak> last;
  for (const Member& member : view(1).members) {
    last = std::make_unique<FileTieBreak>(folder, member);
  }
  return last;
}

// Claims these views, one after the other.
std::vector<std::optional<Half>> claim_all(TieBreak& tie_break, const Half& half) {
  std::vector<std::optional<Half>> named;
  for (int number = 1; number <= kViews; ++number) {
    named.push_back(tie_break.claim(view(number), half));
  }
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
  expect_one_winner([&] { return shared(scratch.path() / "views"); });
  EXPECT_EQ(names_in(scratch.path() / "views").size(), kViews + 4);  // no drafts
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
      const auto tie_break = shared(scratch.path() / "views");
      std::string answers;
      for (const auto& named : claim_all(*tie_break, process % 2 == 0 ? kLow : kHigh)) {
        answers += named ? text_of_half(*named) + "\n" : tie_break->trouble() + "\n";
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
  const auto blocked = shared(scratch.path() / "views");
  EXPECT_EQ(blocked->claim(view(2), kLow), std::nullopt);
  EXPECT_NE(blocked->trouble(), "");
  const auto path = scratch.path() / name_of(view(2));
  write_file(path, "who knows");
  const auto damaged = shared(scratch.path());
  EXPECT_EQ(damaged->claim(view(2), kLow), std::nullopt);
  EXPECT_EQ(damaged->trouble(), path.string() + " names no half of a view");
  EXPECT_EQ(damaged->claim(view(3), kLow), kLow);
  EXPECT_EQ(damaged->trouble(), "");
}

TEST(FileTieBreak, NamesNobodyInAFolderThatNotAllSee) {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "views";
  FileTieBreak low(folder, {0, 1});
  FileTieBreak(folder, {1, 1});
  FileTieBreak(scratch.path() / "another machine's", {2, 1});
  FileTieBreak(folder, {3, 0});  // an earlier life of its launcher, of another job perhaps
  EXPECT_EQ(low.claim(view(2), kLow), std::nullopt);
  EXPECT_EQ(
      low.trouble(),
      folder.string() + " is not a folder that all nodes see: node 2 has left no trace there");
}

TEST(NameOfView, TellsJobsApart) {
  View later = view(2);
  later.members[1].incarnation = 2;
  EXPECT_NE(name_of(view(2)), name_of(later));
  EXPECT_NE(name_of(view(2)), name_of(view(3)));
  EXPECT_EQ(name_of(view(2)), name_of(view(2)));
}

// --- a witness ---

std::unique_ptr<Witness> start_witness(const std::filesystem::path& file = {}) {
  return std::make_unique<Witness>(
      Witness::Options{.listening = listen_on({"127.0.0.1", 0}), .key = "key", .file = file});
}

std::unique_ptr<WitnessTieBreak> ask(const Witness& witness) {
  return std::make_unique<WitnessTieBreak>(
      WitnessTieBreak::Options{.witness = witness.address(), .key = "key", .limit = Seconds(5)});
}

TEST(Witness, NamesOneHalf) {
  const auto witness = start_witness();
  expect_one_winner([&] { return ask(*witness); });
}

TEST(Witness, KeepsJobsAndViewsApart) {
  const auto witness = start_witness();
  View of_another_job = view(2);
  of_another_job.members.back().incarnation = 8;
  EXPECT_EQ(ask(*witness)->claim(view(2), kLow), kLow);
  EXPECT_EQ(ask(*witness)->claim(of_another_job, kHigh), kHigh);
  EXPECT_EQ(ask(*witness)->claim(view(3), kHigh), kHigh);
  EXPECT_EQ(ask(*witness)->claim(view(2), kHigh), kLow);
}

TEST(Witness, RefusesAWrongKey) {
  const auto witness = start_witness();
  WitnessTieBreak stranger(
      {.witness = witness->address(), .key = "another", .limit = Seconds(0.3)});
  EXPECT_EQ(stranger.claim(view(2), kLow), std::nullopt);
  EXPECT_EQ(stranger.trouble(),
            "the witness at " + witness->address().text() + ": it does not belong to this job");
  EXPECT_EQ(ask(*witness)->claim(view(2), kHigh), kHigh);  // the other has not counted
}

TEST(Witness, IsMissedWithinALimit) {
  const FileDescriptor deaf = listen_on({"127.0.0.1", 0});  // lets in, and says nothing
  WitnessTieBreak tie_break({.witness = bound_address(deaf), .key = "key", .limit = Seconds(0.3)});
  const auto begin = Clock::now();
  EXPECT_EQ(tie_break.claim(view(2), kLow), std::nullopt);
  EXPECT_LT(since(begin), Seconds(2));
  EXPECT_NE(tie_break.trouble(), "");
  EXPECT_THROW(WitnessTieBreak({.witness = bound_address(deaf), .key = ""}), ConfigError);
}

TEST(Witness, RemembersWhatItHasSaidInAFile) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / "claims";
  EXPECT_EQ(ask(*start_witness(file))->claim(view(2), kLow), kLow);
  std::ofstream(file, std::ios::app)
      << name_of(view(3)) + " 0.1,1.";  // a witness that was killed in between
  {
    const auto witness = start_witness(file);
    EXPECT_EQ(ask(*witness)->claim(view(2), kHigh), kLow);
    EXPECT_EQ(ask(*witness)->claim(view(3), kHigh), kHigh);
    EXPECT_THROW(start_witness(file), ConfigError);  // two of them might name both halves
  }
  EXPECT_EQ(read_file(file), name_of(view(2)) + " 0.1,1.1\n" + name_of(view(3)) + " 2.1,3.7\n");
  EXPECT_EQ(ask(*start_witness(file))->claim(view(3), kLow), kHigh);
  write_file(scratch.path() / "letter", "Dear witness,\n");
  EXPECT_THROW(start_witness(scratch.path() / "letter"), ConfigError);
}

}  // namespace
}  // namespace daso::test
