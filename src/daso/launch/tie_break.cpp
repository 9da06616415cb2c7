// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/tie_break.h"

#include <fcntl.h>
#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/launch/incarnation.h"
#include "daso/membership/message.h"

namespace daso {

using membership::Member;

namespace fs = std::filesystem;

namespace {

template <typename Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && last == end;
}

[[noreturn]] void fail(const char* what, const fs::path& path) {
  throw Error(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

// Removes it in the end, whatever happens; its name is nobody else's.
class Draft {
 public:
  Draft(const fs::path& folder, const std::string& text) {
    std::uint64_t number = 0;
    DASO_ASSERT(::getrandom(&number, sizeof number, 0) == sizeof number);
    path_ = folder / fmt::format("{:016x}.part", number);
    const FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.open()) fail("create", path_);
    const std::ptrdiff_t written = ::write(file.get(), text.data(), text.size());
    if (written >= 0 && written < std::ssize(text)) errno = ENOSPC;
    if (written != std::ssize(text) || ::fsync(file.get()) != 0) fail("write", path_);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() { ::unlink(path_.c_str()); }

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void sync_folder(const fs::path& folder) {
  const FileDescriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open.open() || ::fsync(open.get()) != 0) fail("sync", folder);
}

// The text of the file at this path: ours, where there was none. A link either makes the whole file
// appear under that name or finds the name taken, also on a disk that others write to over a
// network.
std::string first_text_at(const fs::path& path, const std::string& text) {
  make_folder(path.parent_path());
  if (!is_there(path)) {
    const Draft draft(path.parent_path(), text);
    if (::link(draft.path().c_str(), path.c_str()) != 0 && errno != EEXIST) fail("create", path);
    sync_folder(path.parent_path());
  }
  return read_file(path);
}

}  // namespace

std::string text_of_half(const std::vector<Member>& half) {
  std::vector<std::string> parts;
  for (const Member& member : half) parts.push_back(membership::text(member));
  return join(parts, ",");
}

std::optional<std::vector<Member>> parse_half(std::string_view text) {
  std::vector<Member> half;
  for (const std::string& part : split(text, ',')) {
    const std::size_t point = part.find('.');
    Member member;
    if (point == std::string::npos || !parse_whole(part.substr(0, point), member.node) ||
        !parse_whole(part.substr(point + 1), member.incarnation)) {
      return std::nullopt;
    }
    if (!half.empty() && half.back() >= member) return std::nullopt;
    half.push_back(member);
  }
  if (half.empty() || half.size() > membership::kMostMembers) return std::nullopt;
  return half;
}

std::string name_of(const membership::View& view) {
  const std::string members = text_of_half(view.members);
  return fmt::format("{}-{:016x}", view.number, checksum_of(std::as_bytes(std::span(members))));
}

FileTieBreak::FileTieBreak(fs::path folder, const Member& self, Seconds limit)
    : folder_(std::move(folder)), limit_(limit) {
  try {
    disk_.within(limit_, "writing to " + folder_.string(),
                 [path = folder_ / launcher_of(self)] { first_text_at(path, ""); });
  } catch (const std::exception&) {
    // It will be missed where it is asked for.
  }
}

std::optional<std::vector<Member>> FileTieBreak::claim(const membership::View& view,
                                                       const std::vector<Member>& half) {
  trouble_.clear();
  try {
    const fs::path path = folder_ / name_of(view);
    const std::string first =
        disk_.within(limit_, "claiming " + path.string(),
                     [path, members = view.members, text = text_of_half(half) + "\n"] {
                       for (const Member& member : members) {
                         if (is_there(path.parent_path() / launcher_of(member))) continue;
                         throw Error(fmt::format(
                             "{} is not a folder that all nodes see: node {} has left no "
                             "trace there",
                             path.parent_path().string(), member.node));
                       }
                       return first_text_at(path, text);
                     });
    auto named = parse_half(trim(first));
    if (!named) trouble_ = fmt::format("{} names no half of a view", path.string());
    return named;
  } catch (const std::exception& problem) {
    trouble_ = problem.what();
    return std::nullopt;
  }
}

}  // namespace daso
