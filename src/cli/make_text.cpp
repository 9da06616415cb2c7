// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <array>
#include <cctype>
#include <memory>
#include <span>
#include <string_view>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/random.h"

namespace daso::cli {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 6> kArticles = {"the", "a", "this", "every", "no", "some"};
constexpr std::array<std::string_view, 24> kAdjectives = {
    "old",   "small",  "quiet", "dark",  "long",   "early",  "cold",    "green",
    "heavy", "narrow", "sharp", "empty", "bright", "slow",   "strange", "proud",
    "warm",  "hidden", "rough", "white", "clever", "broken", "gentle",  "distant"};
constexpr std::array<std::string_view, 40> kNouns = {
    "house",    "river", "captain", "morning", "garden", "letter",  "window",  "teacher",
    "road",     "child", "winter",  "village", "ship",   "answer",  "kitchen", "stranger",
    "forest",   "horse", "evening", "market",  "door",   "reason",  "bridge",  "neighbour",
    "mountain", "clock", "picture", "island",  "storm",  "thought", "harbour", "daughter",
    "field",    "voice", "candle",  "station", "bird",   "promise", "engine",  "question"};
constexpr std::array<std::string_view, 28> kVerbs = {
    "watched", "carried", "followed", "forgot",  "opened",  "painted", "remembered",
    "crossed", "heard",   "left",     "mended",  "noticed", "passed",  "reached",
    "sold",    "trusted", "wanted",   "built",   "changed", "counted", "described",
    "feared",  "found",   "guarded",  "ignored", "kept",    "loved",   "measured"};
constexpr std::array<std::string_view, 12> kPrepositions = {"near",  "behind",  "under", "beside",
                                                            "above", "without", "in",    "on",
                                                            "with",  "before",  "after", "beyond"};
constexpr std::array<std::string_view, 10> kAdverbs = {
    "slowly",  "again",  "quietly",  "never", "often",
    "at last", "almost", "together", "twice", "in the dark"};
constexpr std::array<std::string_view, 8> kLinks = {"and",   "but",      "because", "while",
                                                    "until", "although", "so",      "before"};

// Sentences of a small grammar, with a few frequent words and many rare ones, as languages have.
class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_{seed} {}

  std::string paragraph() {
    std::string text;
    const std::uint64_t sentences = 3 + random_.below(5);
    for (std::uint64_t i = 0; i < sentences; ++i)
      text += sentence() + (i + 1 < sentences ? " " : "");
    return text + "\n\n";
  }

 private:
  // Early words of a list are drawn more often.
  std::string_view draw(Words words) {
    return words[random_.below(random_.below(words.size()) + 1)];
  }
  bool in(std::uint64_t times) { return random_.below(times) == 0; }

  std::string thing() {
    std::string text(draw(kArticles));
    text += ' ';
    if (in(2)) text += std::string(draw(kAdjectives)) + ' ';
    text += draw(kNouns);
    if (in(4)) text += ' ' + std::string(draw(kPrepositions)) + ' ' + thing();
    return text;
  }

  std::string clause() {
    std::string text = thing() + ' ';
    if (in(4)) text += std::string(draw(kAdverbs)) + ' ';
    text += std::string(draw(kVerbs)) + ' ' + thing();
    if (in(3)) text += ' ' + std::string(draw(kAdverbs));
    return text;
  }

  std::string sentence() {
    std::string text = clause();
    if (in(3)) text += ", " + std::string(draw(kLinks)) + ' ' + clause();
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
    return text + (in(12) ? '?' : '.');
  }

  RandomStream random_;
};

struct MakeText {
  std::string file;
  std::int64_t bytes = 1'000'000;
  std::uint64_t seed = 1;
};

int act(const MakeText& options) {
  Writer writer(options.seed);
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < options.bytes) text += writer.paragraph();
  text.resize(static_cast<std::size_t>(options.bytes));
  write_file(options.file, text);
  fmt::print("{} bytes in {}\n", text.size(), options.file);
  return kExitOk;
}

}  // namespace

Command add_make_text(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("text", "Sentences of a small grammar, for --data text:FILE");
  const auto options = std::make_shared<MakeText>();
  Flags flags(*app);
  app->add_option("file", options->file, "The file to write")->required();
  flags.count("--bytes", "Of the file", options->bytes, 1)
      ->default_str(std::to_string(options->bytes));
  flags.parsed("--seed", "Of the words", options->seed, parse_seed)
      ->default_str(std::to_string(options->seed));
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
