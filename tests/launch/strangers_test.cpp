#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "convoy/launch/hosts/channel.h"
#include "tests/launch/agents_testing.h"

namespace convoy::launch {
namespace {

/// A connection to the rendezvous that is no agent's.
class Stranger {
 public:
  explicit Stranger(int port)
      : socket_(start_connect({Address::resolve("127.0.0.1", port).at(0), {}})) {
    pollfd watched{socket_.get(), POLLOUT, 0};
    ::poll(&watched, 1, 1000);
  }
  void say(const std::string& text) const {
    ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

 private:
  Descriptor socket_;
};

TEST_F(Agents, StrangersChangeNothing) {
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  ASSERT_TRUE(appears("said-a"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Stranger half_open(port_);
  std::vector<Stranger> garbage;
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\n"), std::string("{\"nonce\": 3}\n"), std::string("\0\n", 2),
        std::string("{\"nonce\":\"a\",\"run_id\":\"none\",\"proof\":\"b\"}\n"),
        std::string(100000, 'x'), std::string("[[[[[[[[\n"), std::string("no\n"),
        std::string("{\"nonce\":\"a\",\"run_id\":\"other\",\"proof\":\"b\"}\n")}) {
    garbage.emplace_back(port_).say(text);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<Stranger> crowd;
  for (int i = 0; i < 300; ++i) crowd.emplace_back(port_);
  token_ = "another secret of the test";
  start("wrong", "true", [](LaunchOptions&, HostOptions& host) {
    host.serves = false;
    host.rendezvous.join_timeout = 1;
  });
  EXPECT_EQ(end("wrong"), 3) << "it cannot know whether that is true";
  expect_said("wrong", "it says that the secret is wrong");
  token_ = "a secret of the test";
  start("b", "true", [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  for (const std::string why : {"it does not speak this protocol", "a wrong secret"}) {
    expect_said("a", why);
    EXPECT_EQ(said("a").find(why), said("a").rfind(why)) << "told once each: " << said("a");
  }
}

TEST_F(Agents, KnowARefusalThatIsTrue) {
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  start("b", "true", [](LaunchOptions&, HostOptions& host) {
    host.serves = false;
    host.rendezvous.run_id = "other";
  });
  EXPECT_EQ(end("b"), 2);
  expect_said("b", "turned this host away: another --rdzv-id");
  expect_said("a", "away: another --rdzv-id");
}

TEST_F(Agents, DoNotBelieveWhoDoesNotProveToKnowTheSecret) {
  start("b", "true", [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  {
    const Descriptor listener = listen_on(Address::resolve("127.0.0.1", port_).at(0));
    const auto visitor = [&] {
      pollfd watched{listener.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&watched, 1, 10000), 1) << "it does not come again: " << said("b");
      return Descriptor(::accept(listener.get(), nullptr, nullptr));
    };
    for (const std::string answer : {"{\"refused\":\"another --rdzv-id\"}\n", "welcome\n"}) {
      const Descriptor peer = visitor();
      ::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      std::array<char, 4096> ignored;
      while (::recv(peer.get(), ignored.data(), ignored.size(), 0) > 0) {
      }
    }
    LineSocket peer(visitor(), 4096, Tls("a secret of somebody else", /*is_host=*/true));
    peer.send("{\"refused\":\"another --rdzv-id\"}");
    for (int i = 0; i < 1000 && !peer.ended(); ++i) {
      peer.pump();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(peer.why_ended(), "a wrong secret");
  }
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  expect_said("b",
              "does not prove to know the secret of this job: it does not speak this protocol");
}

// A stranger that opens connections as fast as it can, and keeps as many as there is room for.
TEST_F(Agents, ACrowdAtTheDoorKeepsNobodyOut) {
  min_nodes_ = max_nodes_ = 3;
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  ASSERT_TRUE(appears("said-a"));
  const pid_t crowd = ::fork();
  if (crowd == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Address address = Address::resolve("127.0.0.1", port_).at(0);
    const linger at_once{1, 0};
    std::vector<Descriptor> sockets(400);
    for (size_t i = 0;; ++i) {
      Descriptor& socket = sockets[i % sockets.size()];
      socket = start_connect({address, {}});
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  start("b", "true", [](LaunchOptions&, HostOptions& host) {
    host.serves = false;
    host.local_address = "127.0.0.2";
  });
  start("c", "true", [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  EXPECT_EQ(end("b", 25), 0) << said("b");
  EXPECT_EQ(end("c", 25), 0) << said("c");
  EXPECT_EQ(end("a"), 0) << said("a");
  ::kill(crowd, SIGKILL);
  ::waitpid(crowd, nullptr, 0);
}

// A host that is slow to answer is older than all of the crowd.
TEST_F(Agents, ACrowdDrivesOutItsOwn) {
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  ASSERT_TRUE(appears("said-a"));
  const Address address = Address::resolve("127.0.0.1", port_).at(0);
  const auto is_away = [](const Descriptor& socket) {
    pollfd entry{socket.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  const Descriptor slow = start_connect(routes({address}, "127.0.0.2").at(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<Descriptor> crowd;
  for (int i = 0; i < 400; ++i) crowd.push_back(start_connect({address, {}}));
  int64_t away = 0;
  for (int i = 0; i < 800 && away < 145; ++i) {  // of 401 there is room for 256
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    away = std::count_if(crowd.begin(), crowd.end(), is_away);
  }
  EXPECT_EQ(away, 145);
  std::array<char, 4096> text;
  EXPECT_EQ(::recv(slow.get(), text.data(), text.size(), MSG_DONTWAIT), -1) << "it was sent away";
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace convoy::launch
