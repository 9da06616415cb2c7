// SPDX-License-Identifier: Apache-2.0
#pragma once

// jpeglib.h takes the two before it for granted.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <string>
#include <utility>

#include "daso/base/error.h"

// The one gate to libjpeg, which leaves by a jump when it gives up and prints when it is let.
namespace daso {

struct JpegErrors {
  jpeg_error_mgr manager{};  // first, since this is all that the library knows of it
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  // The library expects not to be returned to.
  [[noreturn]] static void give_up(j_common_ptr info) {
    auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, errors->message.data());
    std::longjmp(errors->jump, 1);
  }
  // Levels below 0 tell of damage that the library would paint over; the others are chatter.
  static void take_message(j_common_ptr info, int level) {
    if (level < 0) give_up(info);
  }
};

inline void create_jpeg(jpeg_decompress_struct& info) { jpeg_create_decompress(&info); }
inline void create_jpeg(jpeg_compress_struct& info) { jpeg_create_compress(&info); }

// Owns the state of reading (jpeg_decompress_struct) or writing (jpeg_compress_struct) one image.
template <typename Info>
class JpegLibrary {
 public:
  // Messages begin with `failure`: the file and what is wrong then.
  explicit JpegLibrary(std::string failure) : failure_(std::move(failure)) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = JpegErrors::give_up;
    errors_.manager.emit_message = JpegErrors::take_message;
    run([](Info& info) { create_jpeg(info); });
  }
  JpegLibrary(const JpegLibrary&) = delete;
  JpegLibrary& operator=(const JpegLibrary&) = delete;
  ~JpegLibrary() { jpeg_destroy(reinterpret_cast<j_common_ptr>(&info_)); }

  // Every call of the library is made in here. Throws ConfigError where it gives up. `work` and
  // what it calls must own nothing: they are left by a jump then, without destructors.
  template <typename Work>
  void run(const Work& work) {
    if (setjmp(errors_.jump) != 0) {
      throw ConfigError(fmt::format("{}: {}", failure_, errors_.message.data()));
    }
    work(info_);
  }

  const Info& info() const { return info_; }

 private:
  std::string failure_;
  JpegErrors errors_;
  Info info_{};
};

}  // namespace daso
