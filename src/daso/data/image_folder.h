// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daso/data/dataset.h"
#include "daso/data/picture_input.h"
#include "daso/data/resample.h"

namespace daso {

struct ImageFolderOptions {
  std::filesystem::path folder;  // with train/CLASS/*.jpg and val/CLASS/*.jpg
  std::int64_t size = 224;       // height and width of an input
  bool skip_bad = false;         // another image of its class takes the place of a damaged one
};

// "DIR,size=160"; what is not named keeps its default. Throws ConfigError.
ImageFolderOptions parse_images(const std::string& text);

// Lists all files; each is read when it is needed. Throws ConfigError naming the folder.
Datasets open_images(const ImageFolderOptions& options);

// The files of one part, those of a class side by side; both in the order of their names.
struct ImageList {
  std::filesystem::path folder;
  std::vector<std::string> classes;
  std::vector<std::string> names;
  std::vector<std::int64_t> begins;  // of each class in names, and behind the last

  int label_of(std::int64_t index) const;
  std::filesystem::path path_of(std::int64_t index) const;
};

class ImageFolder final : public ImageDataset {
 public:
  ImageFolder(ImageList list, const ImageFolderOptions& options);

  std::int64_t size() const override;
  InputShape shape() const override;
  int classes() const override;
  std::optional<Normalisation> normalisation() const override;  // ImageNet's
  std::int64_t bad_files() const override;

  // Shorter side to size * 256 / 224, then the centre.
  int read(std::int64_t index, std::span<float> input) const override;
  bool draws_crops() const override { return true; }
  std::vector<std::string> class_names() const override { return list_.classes; }
  int read_normalised(std::int64_t index, const Normalisation& normalisation,
                      const std::optional<RandomStream>& random,
                      std::span<float> input) const override;

  // Reads and decodes what read_normalised() would, and does nothing with it: what the libraries
  // alone take. Returns the bytes of the file.
  std::int64_t decode_only(std::int64_t index, RandomStream random) const;

 private:
  MakeCut centre() const;
  static MakeCut drawn(RandomStream random);

  // Decodes the example's file, or that of the next of its class if it is damaged, and returns the
  // class. Tries each time anew: a crop may miss the damage, and what an example shows must not
  // depend on what was met before it.
  int load(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
           std::span<float> input) const;
  void load_file(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
                 std::span<float> input) const;
  void load_or_end(std::int64_t index, const MakeCut& make_cut, const ColourScale& scale,
                   std::span<float> input) const;
  void note_as_bad(std::int64_t index, const std::string& reason) const;

  ImageList list_;
  int side_;
  bool skip_bad_;
  mutable std::mutex mutex_;            // guards what follows
  mutable std::set<std::int64_t> bad_;  // those that were met
};

}  // namespace daso
