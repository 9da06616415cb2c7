// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/pickle_reader.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <variant>

#include "daso/base/error.h"
#include "daso/tensor/byte_cursor.h"
#include "daso/tensor/pickle_words.h"
#include "daso/tensor/safetensors_header.h"

namespace daso {
namespace {

constexpr const char* kAdvice = "torch.save(model.state_dict(), FILE) writes what can be read";
constexpr std::size_t kMostDimensions = 64;

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";

// Values lie in one list and name each other by their place in it: whatever a file nests, to
// forget it is a loop and no recursion.
using Slot = std::size_t;

struct None {};
struct Mark {};
struct Global {
  std::string name;  // "torch.FloatStorage"
};
struct Tuple {
  std::vector<Slot> items;
};
struct Dict {
  std::vector<std::pair<Slot, Slot>> items;
};
struct Storage {
  std::string key;
  at::ScalarType type = at::kFloat;
  std::int64_t elements = 0;
};
using Value = std::variant<None, Mark, bool, std::int64_t, std::string, Global, Tuple, Dict,
                           Storage, PickledTensor>;

class Machine {
 public:
  Machine(std::string_view pickle, const std::string& file)
      : file_(file), words_(pickle, file + ": its pickle") {}

  std::vector<std::pair<std::string, PickledTensor>> run() {
    while (!stopped_) step();
    const auto* const dict = std::get_if<Dict>(&values_[pop()]);
    check(dict != nullptr, "holds no dict of tensors");
    std::vector<std::pair<std::string, PickledTensor>> tensors;
    std::set<std::string> names;
    for (const auto& [key, value] : dict->items) {
      const auto* const name = std::get_if<std::string>(&values_[key]);
      check(name != nullptr, "has a key that is no text");
      const auto* const tensor = std::get_if<PickledTensor>(&values_[value]);
      check(tensor != nullptr, fmt::format("has {}, which is no tensor", quoted(*name)));
      check(names.insert(*name).second, fmt::format("has {} twice", quoted(*name)));
      tensors.emplace_back(*name, *tensor);
    }
    return tensors;
  }

 private:
  void check(bool holds, std::string_view problem) const {
    require(holds, "{}: its pickle {}; {}", file_, problem, kAdvice);
  }

  void push(Value value) {
    stack_.push_back(values_.size());
    values_.push_back(std::move(value));
  }
  Slot pop() {
    check(!stack_.empty() && !std::holds_alternative<Mark>(values_[stack_.back()]),
          "takes a value where there is none");
    const Slot last = stack_.back();
    stack_.pop_back();
    return last;
  }
  // What was pushed since the last mark, without it.
  std::vector<Slot> pop_marked() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(), [&](Slot place) {
      return std::holds_alternative<Mark>(values_[place]);
    });
    check(mark != stack_.rend(), "ends a list that it has not begun");
    std::vector<Slot> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  std::vector<Slot> pop_last(std::size_t number) {
    std::vector<Slot> items(number);
    for (std::size_t i = number; i > 0; --i) items[i - 1] = pop();
    return items;
  }
  template <typename Kind>
  const Kind& as(Slot place, const char* what) const {
    const auto* const value = std::get_if<Kind>(&values_[place]);
    check(value != nullptr, fmt::format("has no {} where one belongs", what));
    return *value;
  }

  void step();
  void push_global();
  void push_long();
  void put(std::uint32_t number);
  void get(std::uint32_t number);
  void set_items(const std::vector<Slot>& items);
  void call();
  void build();
  void push_storage();
  PickledTensor tensor_of(const std::vector<Slot>& arguments) const;
  std::vector<std::int64_t> integers_in(Slot tuple) const;

  const std::string& file_;
  ByteCursor words_;
  std::vector<Value> values_;
  std::vector<Slot> stack_;
  std::unordered_map<std::uint32_t, Slot> memo_;
  bool stopped_ = false;
};

void Machine::step() {
  const auto code = words_.number<std::uint8_t>();
  switch (static_cast<PickleWord>(code)) {
    case PickleWord::kProtocol:
      words_.text(1);
      return;
    case PickleWord::kMark:
      return push(Mark{});
    case PickleWord::kStop:
      stopped_ = true;
      return;
    case PickleWord::kNone:
      return push(None{});
    case PickleWord::kTrue:
      return push(true);
    case PickleWord::kFalse:
      return push(false);
    case PickleWord::kInt32:
      return push(std::int64_t{words_.number<std::int32_t>()});
    case PickleWord::kInt8:
      return push(std::int64_t{words_.number<std::uint8_t>()});
    case PickleWord::kInt16:
      return push(std::int64_t{words_.number<std::uint16_t>()});
    case PickleWord::kLong:
      return push_long();
    case PickleWord::kText:
      return push(std::string(words_.text(words_.number<std::uint32_t>())));
    case PickleWord::kGlobal:
      return push_global();
    case PickleWord::kEmptyTuple:
      return push(Tuple{});
    case PickleWord::kTuple:
      return push(Tuple{pop_marked()});
    case PickleWord::kTuple1:
      return push(Tuple{pop_last(1)});
    case PickleWord::kTuple2:
      return push(Tuple{pop_last(2)});
    case PickleWord::kTuple3:
      return push(Tuple{pop_last(3)});
    case PickleWord::kEmptyDict:
      return push(Dict{});
    case PickleWord::kSetItem:
      return set_items(pop_last(2));
    case PickleWord::kSetItems:
      return set_items(pop_marked());
    case PickleWord::kCall:
      return call();
    case PickleWord::kBuild:
      return build();
    case PickleWord::kStorage:
      return push_storage();
    case PickleWord::kPut8:
      return put(words_.number<std::uint8_t>());
    case PickleWord::kPut32:
      return put(words_.number<std::uint32_t>());
    case PickleWord::kGet8:
      return get(words_.number<std::uint8_t>());
    case PickleWord::kGet32:
      return get(words_.number<std::uint32_t>());
  }
  check(false, fmt::format("has the word {} at byte {}, which no state_dict needs",
                           name_of_word(code), words_.position() - 1));
}

// Little-endian, with a sign, of as many bytes as it says.
void Machine::push_long() {
  const auto bytes = words_.number<std::uint8_t>();
  check(bytes <= sizeof(std::int64_t), "has a number of more than 64 bits");
  const std::string_view digits = words_.text(bytes);
  const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
  std::int64_t value = negative ? -1 : 0;
  std::memcpy(&value, digits.data(), digits.size());
  push(value);
}

void Machine::push_global() {
  const std::string_view module = words_.line();
  const std::string name = fmt::format("{}.{}", module, words_.line());
  const auto types = tensor_types();
  const bool known = name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter ||
                     std::any_of(types.begin(), types.end(), [&](const TensorType& one) {
                       return name == std::string("torch.") + one.pytorch;
                     });
  check(known, fmt::format("asks for {}, which is neither a tensor nor a storage that is known: "
                           "nothing else is read, and nothing is executed",
                           quoted(name)));
  push(Global{name});
}

void Machine::put(std::uint32_t number) {
  check(!stack_.empty(), "remembers a value where there is none");
  memo_[number] = stack_.back();
}

void Machine::get(std::uint32_t number) {
  const auto found = memo_.find(number);
  check(found != memo_.end(), "uses a value that it has not remembered");
  stack_.push_back(found->second);
}

void Machine::set_items(const std::vector<Slot>& items) {
  check(items.size() % 2 == 0 && !stack_.empty() &&
            std::holds_alternative<Dict>(values_[stack_.back()]),
        "fills a dict that is none");
  auto& dict = std::get<Dict>(values_[stack_.back()]);
  for (std::size_t i = 0; i < items.size(); i += 2) dict.items.emplace_back(items[i], items[i + 1]);
}

void Machine::call() {
  const std::vector<Slot> arguments = as<Tuple>(pop(), "tuple").items;
  const std::string called = as<Global>(pop(), "name").name;
  if (called == kOrderedDict) {
    check(arguments.empty(), "fills an OrderedDict in another way than torch.save does");
    return push(Dict{});
  }
  if (called == kRebuildTensor) return push(tensor_of(arguments));
  check(called == kRebuildParameter && !arguments.empty(), "calls what makes no tensor");
  push(as<PickledTensor>(arguments[0], "tensor"));
}

// A state_dict carries the versions of its modules as an attribute; they are not needed.
void Machine::build() {
  pop();
  check(!stack_.empty() && std::holds_alternative<Dict>(values_[stack_.back()]),
        "gives attributes to what is no dict");
}

// From the tuple ('storage', class, key, device, elements).
void Machine::push_storage() {
  const std::vector<Slot> parts = as<Tuple>(pop(), "tuple").items;
  check(parts.size() == 5 && as<std::string>(parts[0], "text") == "storage",
        "names a record that is no storage");
  const std::string& name = as<Global>(parts[1], "name").name;
  Storage storage{.key = as<std::string>(parts[2], "text"),
                  .elements = as<std::int64_t>(parts[4], "number")};
  const auto types = tensor_types();
  const auto type = std::find_if(types.begin(), types.end(), [&](const TensorType& one) {
    return name == std::string("torch.") + one.pytorch;
  });
  check(type != types.end() && storage.elements >= 0, "names a storage that can be none");
  storage.type = type->type;
  push(std::move(storage));
}

std::vector<std::int64_t> Machine::integers_in(Slot tuple) const {
  std::vector<std::int64_t> numbers;
  for (const Slot item : as<Tuple>(tuple, "tuple").items) {
    numbers.push_back(as<std::int64_t>(item, "number"));
    check(numbers.back() >= 0, "has a size or a stride below 0");
  }
  check(numbers.size() <= kMostDimensions, "has a tensor of too many dimensions");
  return numbers;
}

// From storage, offset, sizes, strides and what training needs of it. Every element that it shows
// is one of its storage, and it shows none twice: else a few bytes could ask for any memory.
PickledTensor Machine::tensor_of(const std::vector<Slot>& arguments) const {
  check(arguments.size() >= 4, "has a tensor without its sizes");
  const auto& storage = as<Storage>(arguments[0], "storage");
  PickledTensor tensor{.storage = storage.key,
                       .type = storage.type,
                       .storage_elements = storage.elements,
                       .offset = as<std::int64_t>(arguments[1], "number"),
                       .sizes = integers_in(arguments[2]),
                       .strides = integers_in(arguments[3])};
  check(tensor.offset >= 0 && tensor.sizes.size() == tensor.strides.size(),
        "has a tensor that lies outside of its storage");
  std::int64_t shown = 1;
  std::int64_t last = tensor.offset;
  bool too_large = false;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    std::int64_t reach = 0;
    const std::int64_t most = std::max<std::int64_t>(tensor.sizes[i], 1);  // as LibTorch counts
    too_large = too_large || __builtin_mul_overflow(shown, most, &shown) ||
                __builtin_mul_overflow(most - 1, tensor.strides[i], &reach) ||
                __builtin_add_overflow(last, reach, &last);
  }
  const bool empty = std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) != tensor.sizes.end();
  check(!too_large && (empty || (shown <= storage.elements && last < storage.elements)),
        "has a tensor that lies outside of its storage, or shows elements of it twice");
  return tensor;
}

}  // namespace

std::vector<std::pair<std::string, PickledTensor>> read_pickle(std::string_view pickle,
                                                               const std::string& file) {
  return Machine(pickle, file).run();
}

}  // namespace daso
