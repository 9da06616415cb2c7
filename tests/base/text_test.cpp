// SPDX-License-Identifier: Apache-2.0
#include "daso/base/text.h"

#include <gtest/gtest.h>

#include "daso/base/environment.h"
#include "daso/base/error.h"

namespace daso {
namespace {

using Words = std::vector<std::string>;

TEST(Text, IsSplitAtEverySeparator) {
  EXPECT_EQ(split("a,b,,c", ','), (Words{"a", "b", "", "c"}));
  EXPECT_EQ(split("a,", ','), (Words{"a", ""}));
  EXPECT_EQ(split("", ','), Words{});
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(trim("  a b\n"), "a b");
}

TEST(Text, IsOneWordForAShell) {
  EXPECT_EQ(shell_word("runs/2026-11-18"), "runs/2026-11-18");
  EXPECT_EQ(shell_word("my run #2"), "'my run #2'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~"), "'~'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Text, IntegersAreWholeTexts) {
  EXPECT_EQ(parse_integer("-12"), -12);
  for (const char* wrong : {"", "1.5", "12x", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(wrong)) << wrong;
  }
}

TEST(Bytes, AreReadInPowersOf1024) {
  EXPECT_EQ(parse_bytes("17"), 17);
  EXPECT_EQ(parse_bytes("1K"), 1024);
  EXPECT_EQ(parse_bytes("16MiB"), 16 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("2gb"), 2LL * 1024 * 1024 * 1024);
  for (const char* wrong : {"", "K", "1T", "1.5M", "-1", "1KK", "99999999999G"}) {
    EXPECT_THROW(parse_bytes(wrong), ConfigError) << wrong;
  }
}

TEST(Bytes, AreWrittenSoThatReadingGivesThemBack) {
  for (const std::int64_t bytes :
       {0LL, 1LL, 1000LL, 1024LL, 1536LL, 1LL << 20, 3LL << 30, 5LL << 40}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
  }
  EXPECT_EQ(format_bytes(1 << 20), "1M");
}

TEST(Nearest, FindsWhatWasMeantAndNothingElse) {
  const Words flags = {"--nodes", "--ranks-per-node", "--backend"};
  EXPECT_EQ(nearest("--rank-per-node", flags), "--ranks-per-node");
  EXPECT_EQ(nearest("--node", flags), "--nodes");
  EXPECT_FALSE(nearest("--xyz", flags));
}

TEST(Digest, IsTheOneThatFnv1aDefines) {
  EXPECT_EQ(digest(""), "cbf29ce484222325");   // the offset basis
  EXPECT_EQ(digest("a"), "af63dc4c8601ec8c");  // from the authors' test vectors
}

TEST(Environment, TellsUnsetFromWrong) {
  const Environment environment = {{"A", "3"}, {"B", "x"}, {"C", ""}};
  EXPECT_EQ(find_integer(environment, "A"), 3);
  EXPECT_FALSE(find_integer(environment, "C"));
  EXPECT_FALSE(find_integer(environment, "D"));
  EXPECT_THROW(find_integer(environment, "B"), ConfigError);
}

TEST(Errors, HaveTheirExitCodes) {
  EXPECT_EQ(exit_code_of(ConfigError("")), 2);
  EXPECT_EQ(exit_code_of(PeerError("")), 3);
  EXPECT_EQ(exit_code_of(std::logic_error("")), 1);
  EXPECT_THROW(require(false, "{}", 1), ConfigError);
  EXPECT_THROW(DASO_ASSERT(1 > 2), std::logic_error);
}

}  // namespace
}  // namespace daso
