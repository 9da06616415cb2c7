// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/table.h"

#include <nlohmann/json.hpp>

#include "daso/base/text.h"

namespace daso::tcp {
namespace {

using nlohmann::json;

// Who has asked before so many others does not ask the same again.
constexpr std::size_t kMostClients = 4096;

json bytes_of(const std::string& text) {
  return json::binary(std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::string text_in(const json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> packed(const json& value) {
  const std::vector<std::uint8_t> bytes = json::to_cbor(value);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

json unpacked(std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return json::from_cbor(begin, begin + bytes.size());
}

}  // namespace

std::vector<std::byte> encode(const TableQuestion& question) {
  return packed({question.client, question.number, static_cast<std::uint8_t>(question.what),
                 bytes_of(question.key), bytes_of(question.value), question.amount});
}

std::optional<TableQuestion> decode_question(std::span<const std::byte> bytes) {
  try {
    const json all = unpacked(bytes);
    const auto what = all.at(2).get<std::uint8_t>();
    if (what > static_cast<std::uint8_t>(TableQuestion::What::kEraseRange)) return std::nullopt;
    return TableQuestion{.client = all.at(0),
                    .number = all.at(1),
                    .what = static_cast<TableQuestion::What>(what),
                    .key = text_in(all.at(3)),
                    .value = text_in(all.at(4)),
                    .amount = all.at(5)};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::vector<std::byte> encode(const TableAnswer& answer) {
  return packed({answer.number, answer.value ? bytes_of(*answer.value) : json(), answer.count});
}

std::optional<TableAnswer> decode_answer(std::span<const std::byte> bytes) {
  try {
    const json all = unpacked(bytes);
    TableAnswer answer{.number = all.at(0), .value = std::nullopt, .count = all.at(2)};
    if (!all.at(1).is_null()) answer.value = text_in(all.at(1));
    return answer;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

TableAnswer Table::answer(const TableQuestion& question) {
  const std::lock_guard lock(mutex_);
  if (question.what == TableQuestion::What::kFind) return act(question);
  const auto known = last_.find(question.client);
  if (known != last_.end() && known->second.number == question.number) return known->second;
  if (known == last_.end()) {
    clients_.push_back(question.client);
    if (clients_.size() > kMostClients) {
      last_.erase(clients_.front());
      clients_.erase(clients_.begin());
    }
  }
  return last_[question.client] = act(question);
}

TableAnswer Table::act(const TableQuestion& question) {
  TableAnswer answer{.number = question.number};
  const auto found = values_.find(question.key);
  const bool there = found != values_.end();
  switch (question.what) {
    case TableQuestion::What::kSet:
      values_[question.key] = question.value;
      break;
    case TableQuestion::What::kSetOnce:
      answer.value = values_.try_emplace(question.key, question.value).first->second;
      break;
    case TableQuestion::What::kFind:
      if (there) answer.value = found->second;
      break;
    case TableQuestion::What::kAdd: {
      const std::int64_t before = there ? parse_integer(found->second).value_or(0) : 0;
      answer.count = before + question.amount;
      values_[question.key] = std::to_string(answer.count);
      break;
    }
    case TableQuestion::What::kAppend:
      values_[question.key] += question.value;
      break;
    case TableQuestion::What::kErase:
      values_.erase(question.key);
      break;
    case TableQuestion::What::kEraseRange:
      if (question.key < question.value) {
        values_.erase(values_.lower_bound(question.key), values_.lower_bound(question.value));
      }
      break;
  }
  return answer;
}

void AskedTable::set(const std::string& key, const std::string& value) {
  ask({.what = TableQuestion::What::kSet, .key = key, .value = value});
}
std::string AskedTable::set_once(const std::string& key, const std::string& value) {
  return ask({.what = TableQuestion::What::kSetOnce, .key = key, .value = value}).value.value_or("");
}
std::optional<std::string> AskedTable::find(const std::string& key) {
  return ask({.what = TableQuestion::What::kFind, .key = key}).value;
}
std::int64_t AskedTable::add(const std::string& key, std::int64_t amount) {
  return ask({.what = TableQuestion::What::kAdd, .key = key, .amount = amount}).count;
}
void AskedTable::append(const std::string& key, const std::string& value) {
  ask({.what = TableQuestion::What::kAppend, .key = key, .value = value});
}
void AskedTable::erase(const std::string& key) {
  ask({.what = TableQuestion::What::kErase, .key = key});
}
void AskedTable::erase_range(const std::string& first, const std::string& end) {
  ask({.what = TableQuestion::What::kEraseRange, .key = first, .value = end});
}

}  // namespace daso::tcp
