#include "convoy/comm/roll_call.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/within.h"

namespace convoy::comm {

namespace {

using Said = std::vector<std::vector<std::string>>;
using Clock = std::chrono::steady_clock;

constexpr const char* kAll = "all";
constexpr std::chrono::milliseconds kAtLeast{1};
constexpr std::chrono::seconds kForRank0{1};  // to tell who is missing
constexpr std::chrono::seconds kToHear{2};
constexpr std::chrono::milliseconds kLate{3000};

std::string key(int rank) {
  return fmt::format("said/{}", rank);
}

/// Keys of the ranks except rank 0, which collects.
std::vector<std::string> keys(int size) {
  std::vector<std::string> out;
  for (int rank = 1; rank < size; ++rank) out.push_back(key(rank));
  return out;
}

/// Waits for the keys; false on timeout. Throws c10::Error when the store is gone.
bool wait_for(c10d::Store& store, const std::vector<std::string>& keys,
              std::chrono::milliseconds patience) {
  try {
    store.wait(keys, std::max(patience, kAtLeast));
    return true;
  } catch (const c10::Error&) {
    return store.check(keys);
  }
}

/// Returns for each key its distinct values, and which of them each rank has: most are the same on
/// all.
Json packed(const Said& said) {
  Json things = Json::array();
  for (size_t i = 0; i < said.at(0).size(); ++i) {
    std::vector<std::string> values;
    std::vector<size_t> of;
    for (const auto& words : said) {
      const auto found = std::find(values.begin(), values.end(), words.at(i));
      of.push_back(static_cast<size_t>(found - values.begin()));
      if (found == values.end()) values.push_back(words.at(i));
    }
    things.push_back({{"values", values}, {"of", of}});
  }
  return things;
}

Said unpacked(const Json& things, int size) {
  Said said(static_cast<size_t>(size));
  for (const auto& thing : things) {
    for (size_t rank = 0; rank < said.size(); ++rank) {
      said[rank].push_back(thing.at("values").at(thing.at("of").at(rank).get<size_t>()));
    }
  }
  return said;
}

std::vector<int> missing(c10d::Store& store, int size) {
  std::vector<int> out;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({key(rank)})) out.push_back(rank);
  }
  return out;
}

Json collect(const StoreAddress& point, c10d::Store& store, const std::vector<std::string>& own,
             Clock::time_point end) {
  const auto all = keys(point.size);
  Said said;
  said.push_back(Json::parse(json_line(own)).get<std::vector<std::string>>());  // as others' words
  if (all.empty()) return {{"said", packed(said)}};
  if (!wait_for(store, all, std::min(until(end), kLate))) {
    store.set(key(point.rank), "");  // who is missing is not this one
    if (!wait_for(store, all, until(end))) return {{"missing", missing(store, point.size)}};
  }
  for (const auto& bytes : store.multiGet(all)) {
    auto& words = said.emplace_back(Json::parse(bytes).get<std::vector<std::string>>());
    words.pop_back();  // who said it
  }
  return {{"said", packed(said)}};
}

Json ask(const StoreAddress& point, c10d::Store& store, Clock::time_point end,
         const std::function<void()>& when_late) {
  if (when_late) {
    if (wait_for(store, {kAll}, std::min(until(end), kLate))) return Json::parse(store.get(kAll));
    when_late();
  }
  if (wait_for(store, {kAll}, until(end) + kForRank0)) return Json::parse(store.get(kAll));
  auto late = missing(store, point.size);
  if (late.empty()) late.push_back(0);
  return {{"missing", late}};
}

/// Whether the process that registered as a rank has ended; false where that is unknown.
bool has_gone(const std::string& holder) {
  const auto bar = holder.rfind('|');
  int64_t pid = 0;
  if (bar == std::string::npos || holder.substr(0, bar) != own_host() ||
      !parse_number(holder.substr(bar + 1), pid)) {
    return false;
  }
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

/// Registers this rank with `words`, followed by the identity of this process. Throws UsageError
/// where another process that still runs is registered as the same rank.
void say(const StoreAddress& point, c10d::Store& store, std::vector<std::string> words) {
  const auto own = fmt::format("{}|{}", own_host(), ::getpid());
  words.push_back(own);
  const auto text = json_line(words), said = store.compareSet(key(point.rank), "", text);
  if (said == text) return;
  const auto holder = Json::parse(said).get<std::vector<std::string>>().back();
  if (holder == own || has_gone(holder)) return store.set(key(point.rank), text);
  fail<UsageError>("comm",
                   "start: process {} of {} is rank {} at {}:{} already; expected one process for "
                   "each rank; try another MASTER_PORT where that one is of another job",
                   holder.substr(holder.rfind('|') + 1),
                   holder.starts_with(own_host() + "|") ? "this host" : "another host",
                   point.name(point.rank), point.host, point.port);
}

}  // namespace

std::string size_and_job(const StoreAddress& point) {
  return fmt::format("{} {}", point.size, point.job);
}

void check_job(const StoreAddress& point, c10d::Store& store) {
  if (!store.check({kJob})) return;
  const auto told = store.get_to_str(kJob);
  if (told == size_and_job(point)) return;
  const auto space = told.find(' ');
  const auto named = [](const std::string& name) {
    return name.empty() ? std::string() : fmt::format(" '{}'", name);
  };
  fail<UsageError>("comm",
                   "start: at {}:{} the {} ranks of another job{} meet; expected the {} of job{}; "
                   "try another MASTER_PORT",
                   point.host, point.port, told.substr(0, space), named(told.substr(space + 1)),
                   point.size, named(point.job));
}

Said roll_call(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
               const std::vector<std::string>& own, std::chrono::milliseconds patience,
               const std::function<void()>& when_late) {
  const auto end = Clock::now() + patience;
  Json told;
  try {
    if (point.rank == 0) {
      told = collect(point, *store, own, end);
      store->set(kAll, json_line(told));
    } else {
      say(point, *store, own);
      told = ask(point, *store, end, when_late);
    }
  } catch (const c10::Error&) {  // the store does not answer any more
    throw CommunicationError(
        fmt::format("[comm] start: rank {} of {} lost the store at {}:{}; rank 0 may have failed",
                    point.rank, point.size, point.host, point.port),
        {point.name(0)});
  }
  if (told.contains("said")) return unpacked(told["said"], point.size);
  let_all_hear(point, store, told.at("missing").get<std::vector<int>>());
  std::vector<int> late;
  for (const int rank : told.at("missing")) late.push_back(point.name(rank));
  throw CommunicationError(
      fmt::format("[comm] start: rank {} did not come to {}:{} within {:g} s; expected {} ranks; "
                  "try to start them all, with the same MASTER_ADDR and MASTER_PORT",
                  fmt::join(late, ", "), point.host, point.port, point.timeout_seconds(),
                  point.size),
      late);
}

void let_all_hear(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                  const std::vector<int>& missing) {
  const auto heard = [](int rank) { return fmt::format("heard/{}", rank); };
  std::vector<std::string> others;
  for (int rank = 0; rank < point.size; ++rank) {
    if (std::count(missing.begin(), missing.end(), rank) == 0) others.push_back(heard(rank));
  }
  try {
    store->set(heard(point.rank), "");
    if (point.rank == 0) wait_for(*store, others, kToHear);
  } catch (const c10::Error&) {  // rank 0 has gone; this one has heard
  }
}

}  // namespace convoy::comm
