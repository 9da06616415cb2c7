// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daso/comm/tcp/frame.h"

namespace daso::tcp {

// Called once, on the mailbox's thread, when a letter's bytes are no longer needed or have arrived,
// or never will (the error). It holds whatever they belong to.
using Done = std::function<void(const std::exception_ptr& error)>;

// One to be sent. What is damaged on the way is sent again, so its bytes are needed until the other
// end has them.
struct Letter {
  Tag tag;
  std::span<const std::byte> bytes;
  Done done;
  // Holds the bytes, where it is certain that nobody changes them before the other end has them:
  // then `done` need not wait for that.
  std::shared_ptr<const void> stays = nullptr;
};

// The letters of one sender: those that are awaited and those that came before anybody asked. Not
// for several threads at once.
class Letterbox {
 public:
  // Where the bytes of a letter that begins to arrive are to be put: where somebody awaits it, or
  // else into memory of the box. Throws PeerError where the two do not agree about its length.
  std::span<std::byte> room_for(const Tag& tag, std::size_t length);
  // All of it is there. Gives what is to be called, or nothing if nobody has asked yet.
  Done arrived(const Tag& tag);

  // Somebody asks. True if it is there already, and copied: then `done` is not kept.
  bool expect(const Tag& tag, std::span<std::byte> into, Done& done);

  // The bytes of this letter, if all of it is there and nobody has asked for it yet.
  std::optional<std::vector<std::byte>> take(const Tag& tag);

  std::size_t bytes_waiting() const { return bytes_waiting_; }  // for somebody to ask
  // Nothing more comes: gives all who await something. What is there whole can still be asked for.
  std::vector<Done> give_up();

 private:
  struct Expected {
    std::span<std::byte> into;
    Done done;
  };
  struct Stored {
    std::vector<std::byte> bytes;
    bool whole = false;
    Expected asked = {};  // meanwhile: it is copied at its end
  };
  std::map<Tag, Expected> expected_;
  std::map<Tag, Expected> arriving_;  // straight to where they are awaited
  std::map<Tag, Stored> stored_;
  std::size_t bytes_waiting_ = 0;
};

}  // namespace daso::tcp
