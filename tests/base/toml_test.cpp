// SPDX-License-Identifier: Apache-2.0
#include "daso/base/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "daso/base/error.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;
using Lists = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::vector<TomlEntry> entries_in(const std::string& text) {
  const ScratchFolder folder;
  const std::filesystem::path file = folder.path() / "c.toml";
  std::ofstream(file, std::ios::binary) << text;
  return read_toml(file);
}

Lists lists_in(const std::string& text) {
  Lists lists;
  for (const TomlEntry& entry : entries_in(text)) lists.emplace_back(entry.key, entry.values);
  return lists;
}

std::string refusal(const std::string& text) {
  try {
    entries_in(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Toml, ReadsValuesAsTheyStandOnACommandLine) {
  EXPECT_EQ(lists_in("lr = 0.05\n# a comment\nepochs = 12\nnesterov = true\ndata = 'idx:a b'\n"
                     "threshold = 1e-05\nsteps = [2, 4.5]\n"),
            (Lists{{"lr", {"0.05"}},
                   {"epochs", {"12"}},
                   {"nesterov", {"true"}},
                   {"data", {"idx:a b"}},
                   {"threshold", {"1e-05"}},
                   {"steps", {"2", "4.5"}}}));
}

// The escapes are those of TOML 1.0, "String".
TEST(Toml, ReadsEscapes) {
  EXPECT_EQ(lists_in(R"(a = "say \"hi\"\n\tC:\\x \u00e9")"),
            (Lists{{"a", {"say \"hi\"\n\tC:\\x \xc3\xa9"}}}));
}

// Forms of TOML 1.0 that a parser of less than all of it refuses.
TEST(Toml, ReadsEveryFormOfAValue) {
  EXPECT_EQ(lists_in("a = 1_6\nb = 0x1f\nc = 0o17\nd = 0b101\ne = +7\nf = 1_0.5_0\n"
                     "g = \"\"\"two\nlines\"\"\"\nh = '''C:\\x'''\ni = \"\\u0067\\U0001F600\"\n"
                     "j = [ 1, # one\n 2,\n]\n"),
            (Lists{{"a", {"16"}},
                   {"b", {"31"}},
                   {"c", {"15"}},
                   {"d", {"5"}},
                   {"e", {"7"}},
                   {"f", {"10.5"}},
                   {"g", {"two\nlines"}},
                   {"h", {"C:\\x"}},
                   {"i", {"g\xf0\x9f\x98\x80"}},
                   {"j", {"1", "2"}}}));
}

TEST(Toml, RefusesWhatIsNotClosedOrStandsAlone) {
  for (const char* text : {"a = [1, 2",
                           "a = \"x",
                           "a = 'x",
                           "a = \"\"\"x\"\"",
                           "=",
                           "[",
                           "\"",
                           "a =",
                           "a",
                           "= 1",
                           "a = 1 2",
                           "a = 01",
                           "a = 1__6",
                           "a = \"\\q\"",
                           "a = \"\\ud800\"",
                           "a = {b = 1",
                           "[a",
                           "a = x",
                           "a = 1e400",
                           "a = \"\xff\"",
                           "a = 9223372036854775808"}) {
    EXPECT_THAT(refusal(std::string("lr = 0.1\n") + text + "\n"),
                testing::HasSubstr("c.toml: line 2: "))
        << text;
  }
}

// Each level of it would take stack.
TEST(Toml, RefusesWhatIsNestedWithoutEnd) {
  EXPECT_THAT(refusal("a = " + std::string(1'000'000, '[')),
              testing::HasSubstr("c.toml: line 1: "));
}

TEST(Toml, QuotesWhatIsNoNumberAndEscapesWhatMustNotStandThere) {
  EXPECT_EQ(toml_of({{"lr", "0.1"}, {"on", "true"}, {"data", "a\"b\\c\nd"}}),
            "lr = 0.1\non = true\ndata = \"a\\\"b\\\\c\\nd\"\n");
}

TEST(Toml, GetsBackWhatItHasWritten) {
  Entries entries;
  for (const char* text : {"a",
                           "",
                           " a ",
                           "\"",
                           "'",
                           "\\",
                           "a\\nb",
                           "a\nb",
                           "a\r\tb",
                           "\x01\x7f",
                           "'''",
                           "\"\"\"",
                           "# no comment",
                           "[a]",
                           "a = b",
                           "f\xc3\xbcnf",
                           "1",
                           "-1",
                           "01",
                           "+1",
                           "1.0",
                           "1.0e5",
                           "1e",
                           "1e-05",
                           ".5",
                           "5.",
                           "inf",
                           "nan",
                           "true",
                           "True",
                           "2020-01-01",
                           "0x10",
                           "1_000",
                           "9223372036854775807",
                           "18446744073709551615",
                           "steps=0..200",
                           "2,2"}) {
    entries.emplace_back(fmt::format("key-{}", entries.size()), text);
  }
  Lists expected;
  for (const auto& [key, value] : entries) expected.push_back({key, {value}});
  EXPECT_EQ(lists_in(toml_of(entries)), expected);
}

// Files of version 0.1 had them without quotes, which TOML does not allow.
TEST(Toml, ReadsSeedsOf64BitsOfOlderFiles) {
  EXPECT_EQ(lists_in("lr = 1\nseed = 18446744073709551615\n"),
            (Lists{{"lr", {"1"}}, {"seed", {"18446744073709551615"}}}));
}

TEST(Toml, SaysInWhichLineItIsNotUnderstood) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("lr = 0.1\nepochs 5\n"), HasSubstr("c.toml: line 2: "));
  EXPECT_THAT(refusal("lr = 0.1\n\nlr = 0.2\n"), HasSubstr("c.toml: line 3: "));
  EXPECT_THAT(refusal("lr = 0.1\n[train]\nepochs = 5\n"),
              HasSubstr("c.toml: line 2: 'train' is a section"));
  EXPECT_THAT(refusal("\nday = 2020-01-01\n"), HasSubstr("c.toml: line 2: 'day' takes a text"));
  EXPECT_THAT(refusal("a = [[1], 2]\n"), HasSubstr("c.toml: line 1: 'a' takes a text"));
}

TEST(Toml, FileThatIsNotThereIsRefused) {
  EXPECT_THROW(read_toml("no/such/file.toml"), ConfigError);
}

}  // namespace
}  // namespace daso::test
