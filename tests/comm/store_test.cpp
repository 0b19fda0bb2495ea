#include "convoy/comm/store.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "convoy/base/error.h"
#include "convoy/comm/rendezvous.h"
#include "convoy/comm/roll_call.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

StoreAddress point_of(int rank, int port, std::chrono::milliseconds timeout) {
  return {.rank = rank, .size = 2, .port = port, .timeout = timeout};
}

/// The error of `work`, which must come within seconds, in one line.
std::string failure(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  std::string what = "nothing failed";
  try {
    work();
  } catch (const CommunicationError& error) {
    what = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  return what;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in:\n" << text;
}

TEST(Store, NobodyListens) {
  const int port = unused_port();
  const auto what =
      failure([&] { open_store(point_of(1, port, std::chrono::milliseconds(1500))); });
  expect_part(what, fmt::format("rank 1 of 2 met nobody at 127.0.0.1:{} within 1.5 s", port));
  expect_part(what, "Connection refused");
  expect_part(what, "try to look whether rank 0 runs there");
}

TEST(Store, AListenerThatNeverAnswers) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 50), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const auto point = point_of(1, ntohs(address.sin_port), std::chrono::milliseconds(1000));
  expect_part(failure([&] { open_store(point); }), "does not answer as the store of ranks");
  ::close(listener);
}

TEST(Store, APartnerThatDoesNotCome) {
  for (const char* backend : {"auto", "gloo"}) {
    const auto point = point_of(0, unused_port(), std::chrono::milliseconds(1000));
    const auto what = failure([&] { connect(point, backend, at::kCPU); });
    expect_part(what, fmt::format("rank 1 did not come to 127.0.0.1:{} within 1 s", point.port));
    expect_part(what, "try to start them all");
  }
}

TEST(Store, AttemptDoesNotReadTheKeysOfTheOneBefore) {
  // torchrun's agent keeps its store over restarts of the ranks.
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  c10d::TCPStore agent("127.0.0.1", options);
  for (int attempt = 0; attempt < 2; ++attempt) {
    run_threads(2, [&](int rank) {
      auto point = point_of(rank, agent.getPort(), std::chrono::seconds(20));
      point.agent_hosts_store = true;
      point.attempt = attempt;
      // The second time rank 1 is there first, and must wait.
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500 * attempt));
      const auto group = connect(point, "gloo", at::kCPU);
      expect_collectives(group, 10);
    });
  }
  auto point = point_of(0, agent.getPort(), std::chrono::seconds(20));
  point.agent_hosts_store = true;
  const auto said = size_and_job(point) + "/said/1";
  EXPECT_TRUE(open_store(point)->check({said}));
  point.attempt = 2;
  EXPECT_FALSE(open_store(point)->check({said}));
}

}  // namespace
}  // namespace convoy::comm
