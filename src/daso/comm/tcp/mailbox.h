// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/comm/tcp/letter.h"

// Ranks that write to each other over TCP. From below:
//
//   integrity      checksums of what travels, and proofs of a key
//   frame          a letter, a beat or a goodbye as bytes
//   handshake      how two ends prove that they belong to one job; caller does it on a socket
//   letter         letters that are awaited, and those that came before somebody asked
//   outgoing, incoming  the two halves of a connection: frames, and what was damaged on the way
//   connection     both, on a socket that has been proved
//   mailbox        the connections of one rank, and the one thread that works on all of them
//   collective, group   what a c10d::Backend does, made of letters
//
// docs/decisions/0014-own-transport.md says why it is our own.
namespace daso::tcp {

struct Limits {
  Seconds beat{0.25};    // an idle connection says so often that it is alive
  Seconds silence{60};   // after which a peer is lost
  Seconds handshake{2};  // for one who calls, to prove itself
  Seconds leaving{1};    // for the others to take note, in good order
  int strangers = 64;    // who have called and not proved themselves, at a time
  std::size_t waiting = std::size_t{1} << 30;  // bytes of a peer that nobody has asked for yet
};

struct MailboxOptions {
  int rank = 0;
  std::uint64_t view = 0;    // a peer of another one is refused
  std::string key;           // of the job
  FileDescriptor listening;  // none: nobody calls
  Limits limits;
};

// Letters between this rank and others, in the background. A letter goes to one rank, with a tag by
// which it is awaited there; letters of one sender with different tags may be awaited in any order.
// Bytes belong to the mailbox until `done` is called, also those of letters that are given up.
//
// A letter that is damaged on the way is sent again, once. A peer whose connection breaks, who is
// silent for too long or whose letter is damaged twice is lost: all that is awaited from it and
// sent to it, now and later, ends with a PeerError that names it.
class Mailbox {
 public:
  explicit Mailbox(MailboxOptions options);
  ~Mailbox();  // stop(), where that was not called

  // Makes the connections to these ranks that are not there yet. They do the same: the higher rank
  // dials. Throws PeerError with rank and address of one that is not there within the limit.
  void connect(const std::map<int, Address>& peers, Seconds limit);

  void post(int to, Letter letter);
  void expect(int from, const Tag& tag, std::span<std::byte> into, Done done);

  struct Received {
    int from = 0;
    std::vector<std::byte> bytes;
  };
  // The next letter of a group of tags, from whoever has sent one: each sender numbers those of the
  // group from 0, and they come in that order; of several senders each has its turn. For groups
  // that nobody uses with expect(). Throws PeerError if none comes within the limit, or if there is
  // nobody left who could send one. From any thread.
  //
  // Letters wait until they are asked for. A sender of which more than Limits::waiting does is not
  // read any more, so that it has to wait: with these, and with all else that it sends.
  Received receive(std::uint32_t group, Seconds limit);

  // Ends in good order: what was posted is sent, and the others are told that nothing more comes.
  // All that is still awaited ends with an error, as does whatever is asked for afterwards.
  void stop();
  // The same at once: nothing more is sent, and no bytes of others are touched from now on.
  void abort();

 private:
  struct Post {
    int peer;
    Letter letter;
  };
  struct Expect {
    int peer;
    Tag tag;
    std::span<std::byte> into;
    Done done;
  };
  struct Connect {
    int peer;
    Address address;
    Deadline deadline;
    Done done;
  };
  struct Receive {
    std::uint32_t group;
    Deadline deadline;
    std::shared_ptr<std::promise<Received>> letter;
  };
  struct Stop {
    bool at_once;
  };
  using Request = std::variant<Post, Expect, Connect, Receive, Stop>;
  class Clerk;  // the thread's own: all sockets and letters

  void ask(Request request);
  void end(bool at_once);

  std::mutex mutex_;  // guards the next two
  std::vector<Request> requests_;
  bool over_ = false;
  FileDescriptor wake_;
  std::unique_ptr<Clerk> clerk_;
  std::jthread thread_;
};

}  // namespace daso::tcp
