// SPDX-License-Identifier: Apache-2.0
// Delays what arrives at the nodes of a cluster, by a constant time.
//
//   delay CONTROL NAMESPACE...
//
// In each of these network namespaces a firewall rule puts arriving packets into queue 0 of the
// kernel. We are told of each packet, not given it (segments that the kernel has joined stay
// joined), and let it go on when its time has come. CONTROL is a named pipe that takes lines
// "INDEX MICROSECONDS": the delay of one namespace from now on, 0 at first.
//
// Kernels have netem for this, many virtual machines' do not. Nothing here needs more than the
// kernel's own headers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// What passes between the arrival of a packet and our reading of it, and between its time and our
// waking up. Taken off each delay; measured, see docs/testbed.md.
constexpr microseconds kOwnCost{50};
constexpr std::uint32_t kLongestQueue = 200000;  // packets; beyond it the kernel drops
constexpr int kReceiveBytes = 16 << 20;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "delay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(EXIT_FAILURE);
}

// A message to the kernel about queue 0.
class Message {
 public:
  explicit Message(int kind) {
    auto* header = reinterpret_cast<nlmsghdr*>(bytes_.data());
    header->nlmsg_type = static_cast<std::uint16_t>((NFNL_SUBSYS_QUEUE << 8) | kind);
    header->nlmsg_flags = NLM_F_REQUEST;
    auto* family = static_cast<nfgenmsg*>(NLMSG_DATA(header));
    family->nfgen_family = AF_UNSPEC;
    family->version = NFNETLINK_V0;
    used_ = NLMSG_LENGTH(sizeof(nfgenmsg));
  }

  template <typename Value>
  Message& add(int kind, const Value& value) {
    static_assert(sizeof(Value) + NLA_HDRLEN <= 32);
    auto* attribute = reinterpret_cast<nlattr*>(bytes_.data() + NLMSG_ALIGN(used_));
    attribute->nla_type = static_cast<std::uint16_t>(kind);
    attribute->nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + sizeof value);
    std::memcpy(reinterpret_cast<char*>(attribute) + NLA_HDRLEN, &value, sizeof value);
    used_ = NLMSG_ALIGN(used_) + NLA_ALIGN(attribute->nla_len);
    return *this;
  }

  void send_to(int socket) {
    auto* header = reinterpret_cast<nlmsghdr*>(bytes_.data());
    header->nlmsg_len = static_cast<std::uint32_t>(used_);
    if (::send(socket, bytes_.data(), used_, 0) < 0) fail("cannot speak to the kernel's queue");
  }

 private:
  alignas(nlmsghdr) std::array<char, 256> bytes_{};
  std::size_t used_ = 0;
};

// The number of the packet that a message tells of, if it does.
std::optional<std::uint32_t> packet_in(const nlmsghdr* message) {
  if (message->nlmsg_type == NLMSG_ERROR) {
    const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(message));
    // ENOENT: we let a packet go that is gone already, as when a node's device was taken away.
    if (error->error != 0 && error->error != -ENOENT) {
      errno = -error->error;
      fail("the kernel refuses the queue");
    }
    return std::nullopt;
  }
  if (message->nlmsg_type != ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET)) return std::nullopt;
  const auto* begin = reinterpret_cast<const char*>(message);
  std::size_t at = NLMSG_LENGTH(sizeof(nfgenmsg));
  while (at + NLA_HDRLEN <= message->nlmsg_len) {
    const auto* attribute = reinterpret_cast<const nlattr*>(begin + at);
    if ((attribute->nla_type & NLA_TYPE_MASK) == NFQA_PACKET_HDR) {
      nfqnl_msg_packet_hdr packet{};
      std::memcpy(&packet, begin + at + NLA_HDRLEN, sizeof packet);
      return ntohl(packet.packet_id);
    }
    at += NLA_ALIGN(std::max<std::size_t>(attribute->nla_len, NLA_HDRLEN));
  }
  return std::nullopt;
}

// Queue 0 of one network namespace.
class Queue {
 public:
  explicit Queue(const std::string& network) {
    const int there = ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
    if (there < 0 || ::setns(there, CLONE_NEWNET) != 0) fail("cannot enter " + network);
    ::close(there);
    socket_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (socket_ < 0) fail("the kernel has no netfilter sockets");
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBytes, sizeof kReceiveBytes);
    ::setsockopt(socket_, SOL_NETLINK, NETLINK_NO_ENOBUFS, &yes, sizeof yes);
    nfqnl_msg_config_cmd bind{};
    bind.command = NFQNL_CFG_CMD_BIND;
    Message(NFQNL_MSG_CONFIG).add(NFQA_CFG_CMD, bind).send_to(socket_);
    nfqnl_msg_config_params numbers_only{};
    numbers_only.copy_mode = NFQNL_COPY_META;
    Message(NFQNL_MSG_CONFIG)
        .add(NFQA_CFG_PARAMS, numbers_only)
        .add(NFQA_CFG_QUEUE_MAXLEN, htonl(kLongestQueue))
        .add(NFQA_CFG_FLAGS, htonl(NFQA_CFG_F_GSO))
        .add(NFQA_CFG_MASK, htonl(NFQA_CFG_F_GSO))
        .send_to(socket_);
  }

  int descriptor() const { return socket_; }
  void set_delay(microseconds delay) { delay_ = std::max(microseconds(0), delay - kOwnCost); }

  // Takes down what has arrived.
  void read() {
    alignas(nlmsghdr) static std::array<char, 1 << 16> bytes;
    while (true) {
      const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count <= 0) return;
      Clock::time_point due = Clock::now() + delay_;
      if (!waiting_.empty()) due = std::max(due, waiting_.back().due);  // nobody overtakes
      auto left = static_cast<std::uint32_t>(count);
      for (auto* message = reinterpret_cast<nlmsghdr*>(bytes.data()); NLMSG_OK(message, left);
           message = NLMSG_NEXT(message, left)) {
        if (const auto packet = packet_in(message)) waiting_.push_back({due, *packet});
      }
    }
  }

  // Lets all go on whose time has come; one word to the kernel covers those before it, too.
  void release(Clock::time_point now) {
    std::optional<std::uint32_t> last;
    while (!waiting_.empty() && waiting_.front().due <= now) {
      last = waiting_.front().packet;
      waiting_.pop_front();
    }
    if (!last) return;
    nfqnl_msg_verdict_hdr accept{};
    accept.verdict = htonl(NF_ACCEPT);
    accept.id = htonl(*last);
    Message(NFQNL_MSG_VERDICT_BATCH).add(NFQA_VERDICT_HDR, accept).send_to(socket_);
  }

  Clock::time_point next() const {
    return waiting_.empty() ? Clock::time_point::max() : waiting_.front().due;
  }

 private:
  struct Waiting {
    Clock::time_point due;
    std::uint32_t packet;
  };
  int socket_ = -1;
  Clock::duration delay_{0};
  std::deque<Waiting> waiting_;
};

// Obeys the lines that have come; `rest` keeps one that is not yet whole.
void obey(int control, std::string& rest, std::vector<Queue>& queues) {
  std::array<char, 512> bytes{};
  const ssize_t count = ::read(control, bytes.data(), bytes.size());
  if (count > 0) rest.append(bytes.data(), static_cast<std::size_t>(count));
  for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
    std::size_t index = 0;
    std::int64_t delay = 0;
    if (std::sscanf(rest.c_str(), "%zu %ld", &index, &delay) == 2 && index < queues.size()) {
      queues[index].set_delay(microseconds(delay));
    }
  }
}

// We must wake up on time whatever else runs, and never wait for memory.
void hurry() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  sched_param priority{};
  priority.sched_priority = 10;
  if (::sched_setscheduler(0, SCHED_FIFO, &priority) != 0) fail("cannot get real-time priority");
  if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fail("cannot lock memory");
}

timespec time_until(Clock::time_point then, Clock::time_point now) {
  const auto left = std::chrono::nanoseconds(std::max(then - now, Clock::duration(0)));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: delay CONTROL NAMESPACE...\n");
    return EXIT_FAILURE;
  }
  // Open for writing too, so that it does not end when a writer leaves.
  const int control = ::open(argv[1], O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (control < 0) fail(argv[1]);
  std::vector<Queue> queues;
  for (int i = 2; i < argc; ++i) queues.emplace_back(argv[i]);
  hurry();
  std::vector<pollfd> polled = {{control, POLLIN, 0}};
  for (const Queue& queue : queues) polled.push_back({queue.descriptor(), POLLIN, 0});
  std::puts("ready");
  std::fflush(stdout);

  std::string rest;
  while (true) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = Clock::time_point::max();
    for (Queue& queue : queues) {
      queue.release(now);
      next = std::min(next, queue.next());
    }
    const timespec left = time_until(next, now);
    const bool none = next == Clock::time_point::max();
    if (::ppoll(polled.data(), polled.size(), none ? nullptr : &left, nullptr) < 0) continue;
    if (polled[0].revents != 0) obey(control, rest, queues);
    for (std::size_t i = 0; i < queues.size(); ++i) {
      if (polled[i + 1].revents != 0) queues[i].read();
    }
  }
}
