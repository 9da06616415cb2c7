// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/copy_letters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daso/base/error.h"

namespace daso {

using nlohmann::json;

std::string CopyPlace::text() const { return fmt::format("{}/{}", address.text(), number); }

CopyPlace parse_copy_place(const std::string& text) {
  const std::size_t slash = text.rfind('/');
  require(slash != std::string::npos && slash + 1 < text.size() &&
              text.find_first_not_of("0123456789", slash + 1) == std::string::npos,
          "a place for a copy is HOST:PORT/NUMBER, got '{}'", text);
  return {.address = parse_address(text.substr(0, slash)),
          .number = std::stoull(text.substr(slash + 1))};
}

std::string index_of(const State& state, const ExchangeOptions& exchange) {
  json tensors = json::array();
  for (const auto& [name, tensor] : state) {
    tensors.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  return json{
      {"wire", name_of(exchange.wire)}, {"merge", name_of(exchange.merge)}, {"tensors", tensors}}
      .dump();
}

CopyRoom room_for(const std::string& index) {
  const json fields = json::parse(index);
  CopyRoom room;
  room.exchange.wire = find_wire(fields.at("wire").get<std::string>()).value();
  room.exchange.merge = find_merge_rule(fields.at("merge").get<std::string>()).value();
  for (const json& one : fields.at("tensors")) {
    const at::Tensor tensor = at::empty(one.at(2).get<std::vector<std::int64_t>>(),
                                        static_cast<at::ScalarType>(one.at(1).get<int>()));
    room.tensors.emplace_back(one.at(0), tensor);
  }
  return room;
}

}  // namespace daso
