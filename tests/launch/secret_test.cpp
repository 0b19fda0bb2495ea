#include "convoy/launch/hosts/secret.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/launch/hosts/channel.h"
#include "convoy/launch/hosts/network.h"

namespace convoy::launch {
namespace {

std::string refusal(const std::filesystem::path& file, const char* variable) {
  try {
    read_secret(file, [&](const char*) { return variable; });
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Secret, MacIsThatOfRfc4231) {
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_NE(fresh_nonce(), fresh_nonce());
}

TEST(Secret, ComesFromTheVariableOrAPrivateFile) {
  const auto folder = unique_folder("secret-test");
  const auto file = folder / "token";
  write_file(file, "a file's secret of some length\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(read_secret(file, [](const char*) { return "0123456789abcdef"; }),
            "a file's secret of some length");
  EXPECT_EQ(read_secret({}, [](const char*) { return " 0123456789abcdef\n"; }), "0123456789abcdef");
  ::chmod(file.c_str(), 0640);
  EXPECT_NE(refusal(file, nullptr).find("others may read the token file"), std::string::npos);
  EXPECT_NE(refusal({}, nullptr).find("CONVOY_TOKEN is not set"), std::string::npos);
  EXPECT_NE(refusal({}, "short").find("has 5 characters; expected at least 16"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Secret, ProofsDependOnAllThatGoesIn) {
  const Proofs proofs("secret", "id", "a", "b");
  EXPECT_NE(proofs.of_host, proofs.of_joiner);
  EXPECT_NE(proofs.of_host, proofs.session_key);
  for (const Proofs& other : {Proofs("secreT", "id", "a", "b"), Proofs("secret", "i", "a", "b"),
                              Proofs("secret", "id", "b", "a"), Proofs("secret", "id", "a", "c")}) {
    EXPECT_NE(proofs.of_joiner, other.of_joiner);
    EXPECT_NE(proofs.session_key, other.session_key);
  }
}

/// Both ends of a connection, the second with its raw socket.
struct Ends {
  Ends() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    raw = sockets[1];
    host.emplace(LineSocket(Descriptor(sockets[0]), 100), "key", true);
  }
  ~Ends() { ::close(raw); }
  std::string take() const {
    char buffer[1000];
    const ssize_t got = ::recv(raw, buffer, sizeof buffer, MSG_DONTWAIT);
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : "";
  }
  void put(const std::string& text) const {
    EXPECT_EQ(::send(raw, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  int raw = -1;
  std::optional<Channel> host;
};

TEST(Channel, RefusesWhatTheOtherSideDidNotSend) {
  const std::string good = R"({"type":"ready"})";
  {
    Ends ends;
    ends.put(hmac("key", "joiner 0 " + good) + " " + good + "\n");
    ends.host->pump(10);
    ASSERT_TRUE(ends.host->next());
    ends.put(hmac("key", "joiner 0 " + good) + " " + good + "\n");  // the same again
    ends.host->pump(10);
    EXPECT_FALSE(ends.host->next());
    EXPECT_EQ(ends.host->why_ended(), "a message that the other side did not send");
  }
  for (const std::string& forged :
       {hmac("kez", "joiner 0 " + good) + " " + good + "\n", good + "\n", std::string("\n"),
        hmac("key", "host 0 " + good) + " " + good + "\n",
        hmac("key", "joiner 0 " + good) + R"( {"type":"leave"})" + "\n"}) {
    Ends ends;
    ends.put(forged);
    ends.host->pump(10);
    EXPECT_FALSE(ends.host->next()) << forged;
    EXPECT_TRUE(ends.host->ended()) << forged;
  }
  Ends ends;
  ends.host->send({{"type", "start"}});
  ends.host->pump(10);
  EXPECT_EQ(ends.take(), hmac("key", R"(host 0 {"type":"start"})") + R"( {"type":"start"})" + "\n");
  ends.host->pump(0);
  EXPECT_NE(ends.take().find("beat"), std::string::npos);
}

TEST(LineSocket, EndsAtLinesThatAreTooLongAndGivesTheLastOnes) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  LineSocket socket(Descriptor(sockets[0]), 10);
  const std::string text = "one\ntwo\nthr";
  ASSERT_EQ(::send(sockets[1], text.data(), text.size(), 0), 11);
  socket.pump();
  EXPECT_EQ(socket.next(), "one");
  EXPECT_EQ(socket.next(), "two");
  EXPECT_FALSE(socket.next());
  const std::string flood(20, 'x');
  ASSERT_EQ(::send(sockets[1], flood.data(), flood.size(), 0), 20);
  socket.pump();
  EXPECT_EQ(socket.why_ended(), "a line of more than 10 bytes");
  EXPECT_FALSE(socket.next());
  ::close(sockets[1]);
}

TEST(Endpoint, IsReadInAllForms) {
  const auto read = [](const char* text) { return parse_endpoint(text, 29400).to_text(); };
  EXPECT_EQ(read("node7"), "node7:29400");
  EXPECT_EQ(read("node7:4"), "node7:4");
  EXPECT_EQ(read("[::1]:4"), "[::1]:4");
  EXPECT_EQ(read("fe80::1"), "[fe80::1]:29400");
  for (const char* bad : {"", ":4", "a:", "a:x", "a:0", "a:70000", "[::1"}) {
    EXPECT_THROW(parse_endpoint(bad, 29400), UsageError) << bad;
  }
  EXPECT_EQ(Address::resolve("127.0.0.5", 7).at(0).interface(), "lo");
  EXPECT_EQ(Address::resolve("192.0.2.77", 7).at(0).interface(), "");
}

}  // namespace
}  // namespace convoy::launch
