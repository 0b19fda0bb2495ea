#include "convoy/launch/hosts/rendezvous_client.h"

#include "convoy/base/error.h"

namespace convoy::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{500};
constexpr std::chrono::seconds kGreeting{10};

}  // namespace

RendezvousClient::RendezvousClient(Endpoint endpoint, std::string run_id, std::string secret,
                                   std::string local_address)
    : endpoint_(std::move(endpoint)),
      run_id_(std::move(run_id)),
      secret_(std::move(secret)),
      local_address_(std::move(local_address)) {}

std::unique_ptr<HostChannel> RendezvousClient::step() {
  if (!socket_) {
    if (Clock::now() >= retry_at_) connect();
    return nullptr;
  }
  socket_->pump();
  while (const auto line = socket_->next()) {
    if (auto channel = answer(*line)) return channel;
    if (!socket_) return nullptr;
  }
  if (socket_->met_a_stranger()) {
    met_a_stranger_ = true;
    give_up("who answers does not prove to know the secret of this job: " + socket_->why_ended());
  } else if (socket_->ended()) {
    give_up(socket_->why_ended());
  } else if (Clock::now() - since_ > kGreeting) {
    give_up("it does not answer");
  }
  return nullptr;
}

void RendezvousClient::connect() {
  const auto addresses = Address::resolve(endpoint_.host, endpoint_.port);
  if (addresses.empty()) return give_up("nobody knows the name");
  const auto ways = routes(addresses, local_address_);
  since_ = Clock::now();
  socket_.emplace(start_connect(ways[next_address_++ % ways.size()]), kLongestGreeting,
                  Tls(secret_, /*is_host=*/false));
  socket_->send(json_line({{"run_id", run_id_}}));
}

void RendezvousClient::give_up(const std::string& why) {
  trouble_ = why;
  socket_.reset();
  retry_at_ = Clock::now() + kRetry;
}

std::unique_ptr<HostChannel> RendezvousClient::answer(const std::string& line) {
  const Json said = Json::parse(line, nullptr, false);
  if (const auto why = text_of(said, "refused"); !why.empty()) {
    fail<UsageError>("launch",
                     "the rendezvous at {} turned this host away: {}; expected the same on all "
                     "hosts",
                     endpoint_.to_text(), why);
  }
  own_ = Address::of_socket(socket_->fd());
  return std::make_unique<HostChannel>(std::move(*socket_));
}

}  // namespace convoy::launch
