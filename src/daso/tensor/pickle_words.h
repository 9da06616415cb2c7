// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

// The words of Python's pickle language, one byte each; Python's pickletools describes them all.
namespace daso {

// Those that a state_dict needs.
enum class PickleWord : std::uint8_t {
  kProtocol = 0x80,
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt32 = 'J',
  kInt8 = 'K',
  kInt16 = 'M',
  kLong = 0x8a,
  kText = 'X',
  kGlobal = 'c',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kCall = 'R',
  kBuild = 'b',
  kStorage = 'Q',
  kPut8 = 'q',
  kPut32 = 'r',
  kGet8 = 'h',
  kGet32 = 'j',
};

// What others are called, where people may meet them.
struct PickleWordName {
  std::uint8_t code;
  const char* name;
};
inline constexpr std::array kOtherWords = {
    PickleWordName{'i', "INST"},          PickleWordName{'o', "OBJ"},
    PickleWordName{0x81, "NEWOBJ"},       PickleWordName{']', "EMPTY_LIST"},
    PickleWordName{'l', "LIST"},          PickleWordName{'e', "APPENDS"},
    PickleWordName{'a', "APPEND"},        PickleWordName{'G', "BINFLOAT"},
    PickleWordName{'F', "FLOAT"},         PickleWordName{'I', "INT"},
    PickleWordName{'L', "LONG"},          PickleWordName{'P', "PERSID"},
    PickleWordName{'S', "STRING"},        PickleWordName{'V', "UNICODE"},
    PickleWordName{'d', "DICT"},          PickleWordName{'0', "POP"},
    PickleWordName{'1', "POP_MARK"},      PickleWordName{'2', "DUP"},
    PickleWordName{0x82, "EXT1"},         PickleWordName{0x92, "NEWOBJ_EX"},
    PickleWordName{0x93, "STACK_GLOBAL"}, PickleWordName{0x94, "MEMOIZE"},
    PickleWordName{0x95, "FRAME"},        PickleWordName{0x8c, "SHORT_BINUNICODE"},
};

inline std::string name_of_word(std::uint8_t code) {
  const auto* const found =
      std::find_if(kOtherWords.begin(), kOtherWords.end(),
                   [&](const PickleWordName& one) { return one.code == code; });
  return found == kOtherWords.end() ? fmt::format("0x{:02x}", code)
                                    : fmt::format("{} (0x{:02x})", found->name, code);
}

}  // namespace daso
