#include "convoy/train/logging/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/launch/network.h"
#include "tests/base/unused_port.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {
using testing::HasSubstr;
using testing::StartsWith;

/// Sends `request` to a port of this host. Returns what comes until the other end closes.
std::string asked(int port, const std::string& request) {
  const launch::Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return "no connection";
  }
  ::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string out;
  char part[4096];
  for (ssize_t got = 0; (got = ::recv(client.get(), part, sizeof part, 0)) > 0;) {
    out.append(part, static_cast<size_t>(got));
  }
  return out;
}

std::string scraped(int port) {
  return asked(port, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
}

/// Scrapes the run after each log line.
struct Scraper : Callback {
  explicit Scraper(int port) : port(port) {}
  void on_log(const LogRecord&) override { answers.push_back(scraped(port)); }
  int port;
  std::vector<std::string> answers;
};

void train_with(int64_t port, const std::shared_ptr<Callback>& callback) {
  auto arguments = four_steps();
  arguments.output.metrics_port = port;
  Trainer trainer(tiny_model(), arguments, random_sessions(45, 50, 8), random_sessions(9, 50, 8),
                  one_device());
  if (callback) trainer.add_callback(callback);
  trainer.train();
}

TEST(MetricsServer, AnswersWithTheLastLineInPrometheusFormat) {
  const auto scraper = std::make_shared<Scraper>(unused_port());
  train_with(scraper->port, scraper);
  ASSERT_EQ(scraper->answers.size(), 2u);
  for (const char* step : {"2", "4"}) {
    const auto& text = scraper->answers[step[0] == '2' ? 0 : 1];
    EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(text, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    EXPECT_THAT(text, HasSubstr(fmt::format("\nconvoy_step{{run=\"\"}} {}\n", step)));
    EXPECT_THAT(text, HasSubstr("\nconvoy_running{run=\"\"} 1\n"));
    const auto body = text.substr(text.find("\r\n\r\n") + 4);
    EXPECT_THAT(text, HasSubstr(fmt::format("\r\nContent-Length: {}\r\n", body.size())));
    EXPECT_THAT(body, StartsWith("# HELP convoy_"));
  }
  EXPECT_EQ(scraped(scraper->port), "no connection") << "the run has ended";
  train_with(scraper->port, scraper);  // the port is free again
  EXPECT_EQ(scraper->answers.size(), 4u);
}

TEST(MetricsServer, AnswersNothingElse) {
  const int port = unused_port();
  const auto server = make_metrics_server(port);
  EXPECT_THAT(asked(port, "GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(asked(port, "POST /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(asked(port, std::string(20000, 'x')), "") << "a request without end";
  EXPECT_THAT(scraped(port), StartsWith("HTTP/1.1 200 OK\r\n")) << "before the first step";
  server->on_evaluate({{"eval_loss", 1.5}}, 1);
  EXPECT_THAT(scraped(port), HasSubstr("name=\"eval_loss\"} 1.5\n"));
}

TEST(MetricsServer, ASilentClientDoesNotKeepOthersForLong) {
  const int port = unused_port();
  const auto server = make_metrics_server(port);
  const launch::Descriptor silent =
      launch::start_connect({launch::Address::resolve("127.0.0.1", port).at(0), std::nullopt});
  ASSERT_GE(silent.get(), 0);
  EXPECT_THAT(scraped(port), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(MetricsServer, IsRefusedWhereThePortIsTaken) {
  const int port = unused_port();
  const auto first = make_metrics_server(port);
  EXPECT_THAT([&] { train_with(port, nullptr); },
              testing::ThrowsMessage<UsageError>(
                  HasSubstr(fmt::format("output.metrics_port = {} is taken: another program of "
                                        "this host listens there; try another port",
                                        port))));
}

}  // namespace
}  // namespace convoy::train
