#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace convoy {

/// A port of the loopback address that nobody uses, below those that the kernel gives to
/// connections: one of these may be taken by another test between the look and the use.
inline int unused_port() {
  constexpr int kFirst = 10000, kMany = 20000, kStride = 16;
  static int next = ::getpid() % kMany * kStride;
  while (true) {
    const int port = kFirst + next++ % kMany;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const bool unused = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (unused) return port;
  }
}

}  // namespace convoy
