// SPDX-License-Identifier: Apache-2.0
#pragma once

// For programs, not for libraries: include it in one source file of a program, the one with main().
//
// LibTorch asks the name service for the name of the other end of every socket that it opens, only
// to have it at hand for log messages. Where the name service is slow or silent, each connection to
// the store takes 5 s or more, and the store's host stands still meanwhile. So getnameinfo() is
// defined here, in front of the C library's: calls that come from LibTorch get the numeric address,
// all others what they ask for. A library must not do so to its host, so it is a program that opts
// in. docs/decisions/0006-no-reverse-lookup.md
#include <dlfcn.h>
#include <netdb.h>

#include <string_view>

namespace daso::detail {

// A sanitizer's own getnameinfo() stands between LibTorch and this one and hides who called.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCallerIsHidden = true;
#else
inline constexpr bool kCallerIsHidden = false;
#endif

inline bool is_in_libtorch(const void* code) {
  Dl_info place{};
  if (::dladdr(code, &place) == 0 || place.dli_fname == nullptr) return false;
  return std::string_view(place.dli_fname).find("/libtorch") != std::string_view::npos;
}

}  // namespace daso::detail

extern "C" int getnameinfo(const sockaddr* address, socklen_t length, char* host,
                           socklen_t host_length, char* service, socklen_t service_length,
                           int flags) {
  static const auto kNext =
      reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  if (daso::detail::kCallerIsHidden || daso::detail::is_in_libtorch(__builtin_return_address(0)))
    flags |= NI_NUMERICHOST;
  return kNext(address, length, host, host_length, service, service_length, flags);
}
