#pragma once

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/launch/process.h"

namespace convoy::launch {

/// Two network namespaces, as if they were hosts, and a link between them that can be made late,
/// narrow, lossy, and cut. A process of its own carries the packets. Needs root and /dev/net/tun.
class Link {
 public:
  static constexpr const char* kHosts[] = {"a", "b"};

  Link() {
    settings_ = static_cast<Settings*>(::mmap(nullptr, sizeof(Settings), PROT_READ | PROT_WRITE,
                                              MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    new (settings_) Settings;
    if (::geteuid() != 0) {
      why_not_ = "only root can make network namespaces";
      return;
    }
    for (const std::string host : kHosts) {
      if (!ip("netns add " + space(host))) why_not_ = "`ip netns add` does not work here";
    }
    if (why_not_.empty()) carry();
  }

  ~Link() {
    if (carrier_ > 0) {
      ::kill(carrier_, SIGKILL);
      ::waitpid(carrier_, nullptr, 0);
    }
    for (const std::string host : kHosts) ip("netns del " + space(host));
    ::munmap(settings_, sizeof(Settings));
  }

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Why there is no link on this machine; empty if there is one.
  const std::string& why_not() const { return why_not_; }

  /// The name of a host's network namespace.
  std::string space(const std::string& host) const { return name_ + "-" + host; }

  static std::string address(const std::string& host) {
    return host == "a" ? "10.77.0.1" : "10.77.0.2";
  }

  /// Each packet comes this much later.
  void set_delay(std::chrono::milliseconds delay) { settings_->delay_ms = delay.count(); }
  /// So many bytes pass each way in a second; 0: as many as are sent.
  void set_bandwidth(double bytes_per_second) { settings_->bandwidth = bytes_per_second; }
  /// This share of the packets does not come, 0 to 1.
  void set_loss(double share) { settings_->loss = share; }
  /// From now on nothing comes, and nobody is told.
  void cut() { set_loss(1); }
  /// Packets that did not come so far.
  int64_t lost() const { return settings_->lost; }

 private:
  struct Settings {
    std::atomic<int64_t> delay_ms = 0;
    std::atomic<double> bandwidth = 0, loss = 0;
    std::atomic<int64_t> lost = 0;
  };

  using Clock = std::chrono::steady_clock;

  struct Packet {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  /// Packets under way from one host to the other.
  struct Direction {
    int from, to;
    std::deque<Packet> packets = {};
    Clock::time_point free = {};  // when the last one has left
  };

  static bool ip(const std::string& words) {
    return run_process({"/bin/sh", "-c", "PATH=$PATH:/sbin:/usr/sbin; ip " + words}).ok();
  }

  /// The end of the wire in a namespace: what is read was sent there, what is written arrives.
  int make_end(const std::string& host) const {
    const int space_fd = ::open(("/run/netns/" + space(host)).c_str(), O_RDONLY | O_CLOEXEC);
    if (space_fd < 0 || ::setns(space_fd, CLONE_NEWNET) != 0) return -1;
    ::close(space_fd);
    const int wire = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    ("wire-" + host).copy(request.ifr_name, IFNAMSIZ - 1);
    const bool made = wire >= 0 && ::ioctl(wire, TUNSETIFF, &request) == 0;
    return made ? wire : -1;
  }

  void carry() {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    carrier_ = ::fork();
    if (carrier_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int home = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
      const std::array wires{make_end("a"), make_end("b")};
      ::setns(home, CLONE_NEWNET);
      const char made = wires[0] >= 0 && wires[1] >= 0 ? 1 : 0;
      if (::write(ready[1], &made, 1) != 1 || made == 0) ::_exit(1);
      carry_packets(wires);
    }
    char made = 0;
    if (::read(ready[0], &made, 1) != 1 || made == 0) why_not_ = "no network device /dev/net/tun";
    ::close(ready[0]);
    ::close(ready[1]);
    for (const std::string host : kHosts) {
      const std::string in = "-n " + space(host);
      if (why_not_.empty() &&
          !(ip(in + " addr add " + address(host) + "/24 dev wire-" + host) &&
            ip(in + " link set lo up") && ip(in + " link set wire-" + host + " mtu 9000 up"))) {
        why_not_ = "`ip addr add` does not work here";
      }
    }
  }

  [[noreturn]] void carry_packets(const std::array<int, 2>& wires) const {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> share(0, 1);
    std::array directions{Direction{wires[0], wires[1]}, Direction{wires[1], wires[0]}};
    std::array<char, 65536> buffer;
    while (true) {
      std::array<pollfd, 2> polled{pollfd{wires[0], POLLIN, 0}, pollfd{wires[1], POLLIN, 0}};
      ::poll(polled.data(), polled.size(), deliver(directions));
      for (auto& direction : directions) {
        ssize_t bytes = 0;
        while ((bytes = ::read(direction.from, buffer.data(), buffer.size())) > 0) {
          if (share(random) < settings_->loss) {
            ++settings_->lost;
          } else {
            send(direction, {buffer.data(), buffer.data() + bytes});
          }
        }
      }
    }
  }

  void send(Direction& direction, std::vector<char> packet) const {
    const double bandwidth = settings_->bandwidth;
    direction.free = std::max(direction.free, Clock::now());
    if (bandwidth > 0) {
      const std::chrono::duration<double> takes(static_cast<double>(packet.size()) / bandwidth);
      direction.free += std::chrono::duration_cast<Clock::duration>(takes);
    }
    const std::chrono::milliseconds delay(settings_->delay_ms);
    direction.packets.push_back({direction.free + delay, std::move(packet)});
  }

  /// Delivers what is due. Returns in how many milliseconds the next is; -1: none is under way.
  static int deliver(std::array<Direction, 2>& directions) {
    const auto now = Clock::now();
    int out = -1;
    for (auto& [from, to, packets, free] : directions) {
      while (!packets.empty() && packets.front().due <= now) {
        const auto& bytes = packets.front().bytes;
        [[maybe_unused]] const auto sent = ::write(to, bytes.data(), bytes.size());
        packets.pop_front();
      }
      if (packets.empty()) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(packets.front().due - now);
      const int wait = static_cast<int>(left.count());
      out = out < 0 ? wait : std::min(out, wait);
    }
    return out;
  }

  std::string name_ = fmt::format("convoy-{}", ::getpid());
  Settings* settings_ = nullptr;
  pid_t carrier_ = -1;
  std::string why_not_;
};

}  // namespace convoy::launch
