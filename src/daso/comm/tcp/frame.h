// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// What travels on a connection once both ends have proved themselves: frames. A frame is a header,
// and for a letter its bytes and their checksum.
namespace daso::tcp {

// Which letter it is, among those of one sender.
struct Tag {
  std::uint32_t group = 0;
  std::uint32_t number = 0;
  auto operator<=>(const Tag&) const = default;
};

struct Header {
  enum class Kind : std::uint32_t {
    kLetter,
    kRegistered,  // a letter whose sender waits for a receipt
    kAgain,       // a letter that was damaged on its way here before
    kBeat,        // nothing to say, but alive
    kReceipt,     // nothing to say but which letters are here, as all frames do
    kDamaged,     // the letter of this tag was damaged on the way, and is to be sent again
    kGoodbye,     // all letters of one who leaves in good order have been sent
  };
  Kind kind = Kind::kLetter;
  Tag tag;
  std::uint64_t length = 0;    // of the letter, in bytes
  std::uint64_t received = 0;  // letters of the other end that its sender has, without a gap

  bool is_letter() const { return kind <= Kind::kAgain; }
};

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kChecksumBytes = 4;

// Twice, each with a checksum of its own: nobody could ask again for a header that was damaged on
// the way, since where the next one begins stands in it.
void encode(const Header& header, std::span<std::byte, kHeaderBytes> bytes);
// None for what no sender of ours has written, or where both copies are damaged.
std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes);

// --- letters that are short enough to be held as a whole ---

std::vector<std::byte> framed_letter(const Tag& tag, std::span<const std::byte> bytes);
std::vector<std::byte> framed_goodbye();

// Takes bytes as they come, and gives whole frames.
class FrameReader {
 public:
  struct Frame {
    Header header;
    std::vector<std::byte> letter;
  };

  void add(std::span<const std::byte> bytes);
  // None: more must come first. Throws PeerError for what is damaged or longer than the limit, of
  // which nothing is kept; then nothing of this sender can be read any more.
  std::optional<Frame> next(std::size_t most_letter_bytes);

 private:
  std::vector<std::byte> bytes_;
  std::size_t given_ = 0;  // bytes at the beginning that next() is done with
};

}  // namespace daso::tcp
