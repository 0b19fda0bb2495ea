#include "convoy/launch/hosts/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>

namespace convoy::launch {
namespace {

constexpr const char* kSecret = "a secret of the test";

/// The two ends of a connection in memory.
struct Pair {
  explicit Pair(const std::string& secret = kSecret) : joiner(secret, /*is_host=*/false) {}

  /// Carries what each has for the other, as often as it takes; `change` sees what goes to the
  /// host.
  void carry(const std::function<std::string(std::string)>& change = {}) {
    for (int i = 0; i < 6; ++i) {
      auto wire = joiner.take();
      seen += wire;
      if (change) wire = change(wire);
      host.receive(wire, at_host);
      wire = host.take();
      seen += wire;
      joiner.receive(wire, at_joiner);
    }
  }

  Tls host{kSecret, /*is_host=*/true};
  Tls joiner;
  std::string at_host, at_joiner, seen;
};

TEST(Tls, CarriesBetweenTwoWhoKnowTheSecretAndShowsNothing) {
  Pair pair;
  const std::string much(1 << 20, 'm');
  pair.joiner.send("convoy train --file ours.txt");
  EXPECT_FALSE(pair.joiner.proven());
  pair.carry();
  EXPECT_TRUE(pair.host.proven() && pair.joiner.proven());
  pair.host.send(much);
  pair.carry();
  EXPECT_EQ(pair.at_host, "convoy train --file ours.txt");
  EXPECT_EQ(pair.at_joiner, much);
  EXPECT_EQ(pair.seen.find("train"), std::string::npos);
  EXPECT_EQ(pair.seen.find("mmmmmmmm"), std::string::npos);
  Pair again;  // by the same secret, but by other keys
  again.joiner.send("convoy train --file ours.txt");
  again.carry();
  EXPECT_NE(again.seen.substr(again.seen.size() - 40), pair.seen.substr(pair.seen.size() - 40));
}

TEST(Tls, LetsNobodyInWithoutTheSecret) {
  Pair pair("another secret of the test");
  pair.joiner.send("ready");
  pair.carry();
  EXPECT_FALSE(pair.host.proven() || pair.joiner.proven());
  EXPECT_EQ(pair.at_host, "");
  EXPECT_EQ(pair.host.why_ended(), "a wrong secret");
  EXPECT_EQ(pair.joiner.why_ended(), "it says that the secret is wrong");
  for (const bool is_host : {true, false}) {
    for (const std::string& text :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2\r\n"),
          std::string("{\"nonce\":\"a\"}\n"), std::string(100000, 'x'), std::string(64, '\0')}) {
      Tls end(kSecret, is_host);
      std::string plain;
      end.receive(text, plain);
      EXPECT_EQ(end.why_ended(), "it does not speak this protocol") << text.substr(0, 20);
      EXPECT_EQ(plain, "");
    }
  }
}

TEST(Tls, EndsWhereSomethingOnTheWayWasChangedRepeatedOrLost) {
  const std::vector<std::function<std::string(std::string)>> changes{
      [](std::string wire) {
        if (!wire.empty()) wire[wire.size() / 2] ^= 1;
        return wire;
      },
      [](std::string wire) { return wire + wire; },
      [lost = false](std::string wire) mutable {
        return !wire.empty() && !std::exchange(lost, true) ? "" : wire;
      }};
  for (const auto& change : changes) {
    Pair pair;
    pair.carry();
    ASSERT_TRUE(pair.host.proven());
    pair.joiner.send("first");
    pair.carry(change);
    pair.joiner.send("second");
    pair.carry();
    EXPECT_EQ(pair.host.why_ended(), "a message that the other side did not send");
    EXPECT_EQ(pair.at_host.find("second"), std::string::npos);
  }
}

/// Two lines of sockets that know each other.
struct Sockets {
  explicit Sockets(size_t longest) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    host.emplace(Descriptor(ends[0]), longest, Tls(kSecret, true));
    joiner.emplace(Descriptor(ends[1]), 1000, Tls(kSecret, false));
    pump();
  }
  void pump() {
    for (int i = 0; i < 6; ++i) {
      joiner->pump();
      host->pump();
    }
  }
  std::optional<LineSocket> host, joiner;
};

TEST(LineSocket, EndsAtLinesThatAreTooLongAndGivesTheLastOnes) {
  Sockets sockets(10);
  sockets.joiner->send("one\ntwo");
  sockets.pump();
  EXPECT_EQ(sockets.host->next(), "one");
  EXPECT_EQ(sockets.host->next(), "two");
  EXPECT_FALSE(sockets.host->next());
  sockets.joiner->send(std::string(20, 'x'));
  sockets.pump();
  EXPECT_EQ(sockets.host->why_ended(), "a line of more than 10 bytes");
  EXPECT_FALSE(sockets.host->met_a_stranger());
  EXPECT_FALSE(sockets.host->next());
}

TEST(Channel, CarriesMessagesAndTellsThatItIsAlive) {
  Sockets sockets(100);
  HostChannel host(std::move(*sockets.host)), joiner(std::move(*sockets.joiner));
  const auto carry = [&] {
    for (int i = 0; i < 6; ++i) {
      host.pump(100);
      joiner.pump(100);
    }
  };
  const std::string log(1 << 20, 'l');
  joiner.send({{"type", "ended"}, {"log", log}});
  host.send({{"type", "start"}});
  for (int i = 0; i < 100; ++i) carry();
  const auto ended = host.next();
  ASSERT_TRUE(ended);
  EXPECT_EQ((*ended)["log"], log);
  EXPECT_EQ((*joiner.next())["type"], "start");
  host.pump(0);
  carry();
  EXPECT_LT(joiner.silent_seconds(), 5);
  EXPECT_FALSE(joiner.next()) << "a beat is no message";
}

}  // namespace
}  // namespace convoy::launch
