// SPDX-License-Identifier: Apache-2.0
#include "verify/verdict.h"

#include <algorithm>
#include <utility>

namespace daso::verify {
namespace {

using nlohmann::ordered_json;

}  // namespace

void Verdict::add(Finding finding) {
  if (!first || finding.step < first->step) first = std::move(finding);
}

void Verdict::add(const Verdict& other) {
  if (other.first) add(*other.first);
  largest = std::max(largest, other.largest);
  bound = std::max(bound, other.bound);
}

std::string text_of(const Verdict& verdict) {
  ordered_json all = {{"largest", verdict.largest}, {"bound", verdict.bound}};
  if (verdict.first) {
    all["first"] = {{"step", verdict.first->step},
                    {"rank", verdict.first->rank},
                    {"text", verdict.first->text},
                    {"detail", verdict.first->detail}};
  }
  return all.dump();
}

Verdict verdict_in(const std::string& text) {
  const ordered_json all = ordered_json::parse(text);
  Verdict verdict;
  verdict.largest = all.at("largest");
  verdict.bound = all.at("bound");
  if (!all.contains("first")) return verdict;
  const ordered_json& first = all.at("first");
  verdict.first = Finding{.step = first.at("step"),
                          .rank = first.at("rank"),
                          .text = first.at("text"),
                          .detail = first.at("detail")};
  return verdict;
}

}  // namespace daso::verify
