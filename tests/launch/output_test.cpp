// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/output.h"

#include <gtest/gtest.h>

#include <array>

#include "daso/launch/child_process.h"

namespace daso {
namespace {

// A sink and the pipe behind it.
class Output : public ::testing::Test {
 protected:
  LineStream stream(const std::string& prefix) { return LineStream({&sink_, &last_, prefix}); }

  std::string written() {
    std::string text;
    while (sink_.waiting()) {
      sink_.write_some();
      std::array<char, 65536> bytes;
      const ssize_t count = ::read(pipe_.read.get(), bytes.data(), bytes.size());
      if (count > 0) text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

  Pipe pipe_ = make_pipe();
  Sink sink_{pipe_.write.get()};
  LastLines last_;
};

TEST_F(Output, PutsThePrefixBeforeWholeLines) {
  LineStream lines = stream("[0.1] ");
  lines.feed("a");
  EXPECT_EQ(written(), "");
  lines.feed("b\n\nc");
  EXPECT_EQ(written(), "[0.1] ab\n[0.1] \n");
  lines.finish();
  EXPECT_EQ(written(), "[0.1] c\n");
}

TEST_F(Output, WithoutPrefixChangesNothing) {
  LineStream lines = stream("");
  const std::string bytes("x\r\ny\rz\0\377\n\nend", 14);
  lines.feed(bytes);
  lines.finish();
  EXPECT_EQ(written(), bytes);
}

TEST_F(Output, TakesACarriageReturnForTheEndOfALine) {
  LineStream lines = stream("> ");
  lines.feed("1%\r2%\rdos\r");
  lines.feed("\nx\n");
  EXPECT_EQ(written(), "> 1%\r> 2%\r> dos\r\n> x\n");
}

TEST_F(Output, PassesAnEndlessLineInPiecesWithOnePrefix) {
  LineStream lines = stream("> ");
  const std::string piece(100000, 'x');
  lines.feed(piece);
  lines.feed(piece);
  lines.feed("\nnext\n");
  EXPECT_EQ(written(), "> " + piece + piece + "\n> next\n");
}

TEST_F(Output, KeepsTheLastTenLines) {
  LineStream lines = stream("> ");
  for (int i = 0; i < 12; ++i) lines.feed(std::to_string(i) + "\n");
  ASSERT_EQ(last_.lines().size(), 10U);
  EXPECT_EQ(last_.lines().front(), "2");
  EXPECT_EQ(last_.lines().back(), "11");
}

TEST_F(Output, HoldsBackWhatTellsOfALostPeer) {
  ErrorLines errors;
  LineStream lines({&sink_, &last_, "> ", &errors, 4});
  lines.feed("daso: lost peer: one\nother\ndaso: lost peer: two\n daso: lost peer: no\n");
  EXPECT_EQ(errors.lost_peer(), "daso: lost peer: one");
  EXPECT_EQ(errors.held_back(4), "two");
  EXPECT_EQ(written(), "> other\n>  daso: lost peer: no\n");
}

TEST_F(Output, ShowsOnceWhatSeveralRanksReport) {
  ErrorLines errors;
  LineStream first({&sink_, &last_, "[0.0] ", &errors, 0});
  LineStream second({&sink_, &last_, "[0.1] ", &errors, 1});
  second.feed("daso: no such file\n");
  first.feed("daso: no such file\n");
  EXPECT_EQ(written(), "[0.1] daso: no such file\n");
  EXPECT_EQ(errors.leaders(), std::vector<int>{1});
  EXPECT_EQ(errors.held_back(0), "no such file");
  EXPECT_FALSE(errors.held_back(1));
}

TEST(ErrorLines, AreNeitherWarningsNorOtherLines) {
  ErrorLines errors;
  for (const char* line : {"daso: warning: slow", "slow", " daso: slow"}) {
    EXPECT_TRUE(errors.take(0, line)) << line;
    EXPECT_TRUE(errors.take(1, line)) << line;
  }
  EXPECT_TRUE(errors.leaders().empty());
}

TEST(ErrorLines, TheLastOfARankCounts) {
  ErrorLines errors;
  EXPECT_TRUE(errors.take(0, "daso: going on"));
  EXPECT_TRUE(errors.take(2, "daso: why"));
  EXPECT_FALSE(errors.take(0, "daso: lost peer: why"));
  EXPECT_EQ(errors.leaders(), std::vector<int>{2});
  EXPECT_FALSE(errors.shown(0));
  EXPECT_TRUE(errors.shown(2));
}

TEST_F(Output, NeverBlocksOnAFullPipe) {
  const std::string much(1 << 20, 'x');
  sink_.add(much);
  std::size_t bytes = 0;
  while (sink_.waiting()) {
    sink_.write_some();  // a page at a time, and a page is read at a time: the pipe is never full
    std::array<char, 4096> some;
    const ssize_t count = ::read(pipe_.read.get(), some.data(), some.size());
    ASSERT_GT(count, 0);
    bytes += static_cast<std::size_t>(count);
  }
  EXPECT_EQ(bytes, much.size());
}

TEST_F(Output, GoesOnWhenNobodyReadsAnyMore) {
  ::signal(SIGPIPE, SIG_IGN);
  pipe_.read.close();
  sink_.add("lost");
  sink_.write_some();
  EXPECT_FALSE(sink_.waiting());
  sink_.add("more");
  EXPECT_FALSE(sink_.waiting());
}

}  // namespace
}  // namespace daso
