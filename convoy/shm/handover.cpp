#include "convoy/shm/handover.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::shm {

namespace {

using Clock = std::chrono::steady_clock;

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail<CommunicationError>("shm", "the system gives no random numbers: {}", std::strerror(errno));
  }
  return fmt::format("convoy-{:02x}", fmt::join(bytes, ""));
}

/// Fills in an address in the abstract namespace: a name that begins with a zero byte is no file.
socklen_t fill(sockaddr_un& address, const std::string& name) {
  address.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int make_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    fail<FileError>("shm", "cannot make a local socket: {}; try a higher `ulimit -n`",
                    std::strerror(errno));
  }
  return fd;
}

bool is_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

bool wait_readable(int fd, Clock::time_point end) {
  pollfd entry{fd, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

/// A message of one byte with room for a descriptor beside it.
struct Parcel {
  Parcel() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }

  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
};

void send_descriptor(int socket, int descriptor) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  [[maybe_unused]] const ssize_t sent = ::sendmsg(socket, &parcel.message, MSG_NOSIGNAL);
}

int receive_descriptor(int socket) {
  Parcel parcel;
  if (::recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC) <= 0) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace

Handover::Handover(std::shared_ptr<Segment> segment)
    : segment_(std::move(segment)), name_(random_name()), socket_(make_socket()) {
  sockaddr_un address{};
  const socklen_t length = fill(address, name_);
  if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket_, 256) != 0) {
    const int reason = errno;
    ::close(socket_);
    fail<FileError>("shm", "cannot listen on a local socket: {}; try backend = gloo",
                    std::strerror(reason));
  }
}

Handover::~Handover() {
  ::close(socket_);
}

void Handover::serve(std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  std::vector<int> missing;
  for (int rank = 1; rank < segment_->size(); ++rank) missing.push_back(rank);
  while (!missing.empty()) {
    if (!wait_readable(socket_, end)) {
      throw CommunicationError(fmt::format("[comm] start: rank {} did not come within {} s",
                                           fmt::join(missing, ", "), timeout.count() / 1000.0),
                               missing);
    }
    const int caller = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller < 0) continue;
    int rank = -1;
    const auto patience = std::min(end, Clock::now() + std::chrono::seconds(2));
    if (is_own_user(caller) && wait_readable(caller, patience) &&
        ::recv(caller, &rank, sizeof rank, 0) == sizeof rank) {
      const auto found = std::find(missing.begin(), missing.end(), rank);
      if (found != missing.end()) {
        send_descriptor(caller, segment_->fd());
        missing.erase(found);
      }
    }
    ::close(caller);
  }
}

std::shared_ptr<Segment> take_over(const std::string& name, int rank, int size,
                                   std::chrono::milliseconds timeout) {
  const int socket = make_socket();
  sockaddr_un address{};
  const socklen_t length = fill(address, name);
  int descriptor = -1;
  int connected = -1;
  do {  // which waits while the other's queue is full
    connected = ::connect(socket, reinterpret_cast<sockaddr*>(&address), length);
  } while (connected != 0 && errno == EINTR);
  if (connected == 0 && is_own_user(socket) &&
      ::send(socket, &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank &&
      wait_readable(socket, Clock::now() + timeout)) {
    descriptor = receive_descriptor(socket);
  }
  const int reason = errno;
  ::close(socket);
  if (descriptor < 0) {
    fail<CommunicationError>("shm", "rank {} did not get the shared memory of this host: {}", rank,
                             std::strerror(reason));
  }
  return Segment::adopt(descriptor, size);
}

}  // namespace convoy::shm
