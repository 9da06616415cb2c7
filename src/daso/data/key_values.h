// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace daso {

// The "key=value" pairs that a kind of data takes: which keys there are, and where their values go.
class KeyValues {
 public:
  // Messages begin with `data`, like "synthetic data".
  explicit KeyValues(std::string data) : data_(std::move(data)) {}

  // A key each. A key that is not given leaves its value as it is; the values outlive this.
  void whole_number(const std::string& name, std::int64_t& value, std::int64_t least,
                    std::int64_t most);
  void fraction(const std::string& name, double& value);  // 0 ... 1
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& choices);

  // "a=1,b=2". Throws ConfigError, for an unknown key with the nearest one.
  void read(const std::string& text) const;
  // "PATH,a=1,b=2": the same for the pairs at the end whose keys are known; returns the path, which
  // may hold commas itself.
  std::string read_behind(const std::string& text) const;

 private:
  struct Key {
    std::string name;
    std::function<void(const std::string& text)> set;
  };

  void read_pairs(const std::vector<std::string>& pairs) const;
  // None where there is no such key.
  const Key* find(const std::string& name) const;
  std::vector<std::string> names() const;
  [[noreturn]] void refuse_key(const std::string& name) const;

  std::string data_;
  std::vector<Key> keys_;
};

}  // namespace daso
