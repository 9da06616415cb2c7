// SPDX-License-Identifier: Apache-2.0
#include "daso/data/text_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/loader.h"
#include "data/data_files.h"

namespace daso {
namespace {

using test::Bytes;
using test::counting;
using test::refusal;
using test::write_file;
using Numbers = std::vector<std::int64_t>;

// An example and the token after it.
Numbers tokens_of(const Dataset& dataset, std::int64_t index) {
  Numbers tokens(static_cast<std::size_t>(dataset.shape().width) + 1);
  as_text(dataset).read(index, tokens);
  return tokens;
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

class TextFile : public test::DataFolder {
 protected:
  // --data of a file with these bytes.
  std::string with(const Bytes& bytes, const std::string& keys = "") const {
    write_file(folder_ / "a.txt", bytes);
    return "text:" + (folder_ / "a.txt").string() + keys;
  }
  void expect_refusal(const Bytes& bytes, const std::string& keys, const std::string& said) const {
    const std::string text = with(bytes, keys);
    const std::string message = refusal([&] { open_data(text); });
    EXPECT_NE(message.find(said), std::string::npos) << message;
  }
};

TEST_F(TextFile, ThatIsNotOpenInTimeIsAnError) {
  const std::string text = with(counting(100), ",length=4");
  try {
    open_data(text, {.limit = Seconds(0)});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("opening --data " + text + " is not done"), 0U)
        << error.what();
  }
}

TEST_F(TextFile, IsCutIntoWindowsThatFollowEachOther) {
  const Datasets data = open_data(with(counting(100), ",length=4"));
  // 90 bytes to train with, 10 to test with; a window needs one byte behind it.
  EXPECT_EQ(data.train->size(), 22);  // (90 - 1) / 4
  EXPECT_EQ(data.test->size(), 2);    // (10 - 1) / 4
  EXPECT_EQ(data.train->classes(), 256);
  EXPECT_EQ(data.train->shape(),
            (InputShape{.kind = InputKind::kText, .channels = 1, .height = 1, .width = 4}));
  EXPECT_TRUE(as_text(*data.train).vocabulary().empty());
  EXPECT_FALSE(data.train->normalisation().has_value());
  for (std::int64_t i = 0; i < 22; ++i) {
    EXPECT_EQ(tokens_of(*data.train, i),
              (Numbers{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4}));
  }
  EXPECT_EQ(tokens_of(*data.test, 0), (Numbers{90, 91, 92, 93, 94}));
  EXPECT_EQ(tokens_of(*data.test, 1), (Numbers{94, 95, 96, 97, 98}));
}

TEST_F(TextFile, HasTheLengthAndTheTestShareThatAreAskedFor) {
  const Datasets plain = open_data(with(counting(1000)));
  EXPECT_EQ(plain.train->shape().width, 64);
  EXPECT_EQ(plain.train->size(), 14);  // (900 - 1) / 64
  EXPECT_EQ(plain.test->size(), 1);    // (100 - 1) / 64
  const Datasets half = open_data(with(counting(1000), ",test=0.5,length=1"));
  EXPECT_EQ(half.train->size(), 499);
  EXPECT_EQ(half.test->size(), 499);
  EXPECT_EQ(tokens_of(*half.test, 0), (Numbers{500 % 256, 501 % 256}));
}

TEST_F(TextFile, MayConsistOfCharacters) {
  // U+0061, U+00E4, U+20AC, U+1F600: one byte to four.
  const std::string four = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
  const Datasets data =
      open_data(with(bytes_of(four + "a" + four + "a"), ",tokens=characters,length=2,test=0.4"));
  EXPECT_EQ(data.train->classes(), 4);
  EXPECT_EQ(as_text(*data.test).vocabulary(), (Numbers{0x61, 0xe4, 0x20ac, 0x1f600}));
  // Of the 10 characters 0 1 2 3 0 0 1 2 3 0 six are to train with.
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_EQ(tokens_of(*data.train, 0), (Numbers{0, 1, 2}));
  EXPECT_EQ(tokens_of(*data.train, 1), (Numbers{2, 3, 0}));
  EXPECT_EQ(tokens_of(*data.test, 0), (Numbers{1, 2, 3}));
}

TEST_F(TextFile, MayHaveCommasInItsName) {
  write_file(folder_ / "a,b=2,c.txt", counting(100));
  const std::string name = "text:" + (folder_ / "a,b=2,c.txt").string();
  EXPECT_EQ(open_data(name + ",length=4").train->size(), 22);
  write_file(folder_ / "d,lenght=2", counting(100));
  EXPECT_EQ(open_data("text:" + (folder_ / "d,lenght=2").string() + ",length=4").test->size(), 2);
}

TEST_F(TextFile, RefusesFilesThatCannotBe) {
  const std::string none = "text:" + (folder_ / "none.txt").string();
  EXPECT_EQ(refusal([&] { open_data(none); }),
            (folder_ / "none.txt").string() + ": there is no such file");
  EXPECT_NE(refusal([] { open_data("text:"); }).find("write text:FILE"), std::string::npos);
  EXPECT_NE(refusal([&] { open_data("text:" + folder_.string()); }).find("not a file"),
            std::string::npos);
  expect_refusal({}, "", "the file is empty");
  // 64 tokens and the one behind them are needed in each part.
  expect_refusal(counting(640), ",test=0.1", "the test part has 64 of 640 bytes");
  expect_refusal(counting(100), ",test=0.7", "the train part has 30 of 100 bytes");
  expect_refusal(counting(100), ",length=10,test=0",
                 "the test part has 0 of 100 bytes, and one "
                 "example needs 11");
  expect_refusal(Bytes(100, 'x'), ",tokens=characters,length=2", "all characters are the same");
}

TEST_F(TextFile, RefusesKeysThatCannotBe) {
  const Bytes good = counting(100);
  expect_refusal(good, ",lenght=4", "text data has no 'lenght'; did you mean 'length'?");
  expect_refusal(good, ",lenght=4,test=0.2", "did you mean 'length'?");
  expect_refusal(good, ",vocabulary=4", "it has tokens, length, test");
  expect_refusal(good, ",tokens=words", "tokens must be bytes or characters, got 'words'");
  expect_refusal(good, ",length=0", "length must be a whole number in 1 ... ");
  expect_refusal(good, ",length=4.5", "got '4.5'");
  expect_refusal(good, ",test=1.5", "test must lie in 0 ... 1");
  expect_refusal(good, ",length=4,length=5", "length is given twice");
}

// A loader makes batches of it like of images.
TEST_F(TextFile, GoesThroughALoader) {
  const auto data = open_data(with(counting(100), ",length=4")).train;
  LoaderOptions options{.shard = {.examples = data->size(), .ranks = 2, .batch_size = 3, .seed = 1},
                        .rank = 1,
                        .threads = 2,
                        .normalisation = normalisation_of(data),
                        .limit = Seconds(20)};
  Loader loader(data, options);
  loader.start(2);
  const std::vector<std::int64_t> shard = shard_of(options.shard, 2, 1);
  for (std::size_t at = 0; at < shard.size(); at += 3) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.inputs.sizes(), (Numbers{3, 4}));
    EXPECT_EQ(batch.labels.sizes(), (Numbers{3, 4}));
    for (std::int64_t i = 0; i < 3; ++i) {
      const at::Tensor expected =
          at::arange(4, at::kLong) + 4 * shard[at + static_cast<std::size_t>(i)];
      EXPECT_TRUE(at::equal(batch.inputs[i], expected));
      EXPECT_TRUE(at::equal(batch.labels[i], expected + 1));
    }
  }
  options.augment = Augment::kCrop;
  EXPECT_THROW(Loader(data, options), ConfigError);
}

}  // namespace
}  // namespace daso
