#include "convoy/comm/agree.h"

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <system_error>

#include "convoy/base/early_error.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/to_host.h"

namespace convoy::comm {

namespace {

/// Kind of an error that all ranks throw again as the same type.
std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return "usage";
  if (dynamic_cast<const DiskFullError*>(&error) != nullptr) return "disk full";
  if (dynamic_cast<const FileError*>(&error) != nullptr) return "file";
  if (dynamic_cast<const NumericError*>(&error) != nullptr) return "numeric";
  return "other";
}

template <class E>
[[noreturn]] void throw_on_all_ranks(E error) {
  error.set_on_all_ranks();
  throw error;
}

[[noreturn]] void throw_again(const Json& told, int rank) {
  const std::string kind = told["kind"], text = told["error"];
  if (kind == "usage") throw_on_all_ranks(UsageError(text));
  if (kind == "disk full") throw_on_all_ranks(DiskFullError(text));
  if (kind == "file") throw_on_all_ranks(FileError(text));
  if (kind == "numeric") throw_on_all_ranks(NumericError(text));
  CommunicationError error(fmt::format("[train] rank {} failed: {}", rank, text), {rank});
  if (told.value("on_all_ranks", false)) error.set_on_all_ranks();
  throw error;
}

/// Throws this rank's own error, marked as known to the other ranks. An exception of another type
/// (no memory, LibTorch's) cannot be marked: as_json() tells the others so.
[[noreturn]] void throw_own(const std::exception_ptr& own) try {
  std::rethrow_exception(own);
} catch (Error& error) {
  error.set_on_all_ranks();
  throw;
}

Json told_by(const Group& group, int root, const std::string& label, const Json& json) {
  auto text = json_line(json);
  auto length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  group.broadcast(length, root, label);
  auto bytes = at::empty({comm::item<int64_t>(length)}, at::kByte);
  if (group.rank() == root) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  group.broadcast(bytes, root, label);
  return Json::parse(static_cast<const char*>(bytes.data_ptr()),
                     static_cast<const char*>(bytes.data_ptr()) + bytes.nbytes());
}

Json as_json(const std::exception& error) {
  return {{"kind", kind_of(error)},
          {"error", error.what()},
          {"on_all_ranks", dynamic_cast<const Error*>(&error) != nullptr}};
}

/// Runs `work` in another thread until it is done on every rank.
void do_beside(const Group& group, const std::string& label, const std::function<void()>& work) {
  const at::ThreadLocalState caller;
  std::future<void> done;
  try {
    done = std::async(std::launch::async, [&] {
      const at::ThreadLocalStateGuard guard(caller);
      work();
    });
  } catch (const std::system_error& error) {  // no thread; the others wait all the same
    until_all(group, label, [](std::chrono::milliseconds) { return true; });
    throw;
  }
  const auto is_over = [&](std::chrono::milliseconds patience) {
    return done.wait_for(patience) == std::future_status::ready;
  };
  try {
    until_all(group, label, is_over);
  } catch (const std::exception& error) {
    // The work has what the caller owns, so it is waited for: as long as this rank's disk needs.
    if (!is_over(std::chrono::milliseconds(0))) tell_early(error);
    throw;
  }
  done.get();
}

}  // namespace

void until_all(const Group& group, const std::string& label,
               const std::function<bool(std::chrono::milliseconds)>& is_over) {
  constexpr std::chrono::milliseconds kMost{200};
  // Ranks may call this a different number of times. A rank in another collective would pass for
  // one that calls it, where the engine compares no labels; so each sends a hash of its label.
  const auto name = static_cast<int64_t>(std::hash<std::string>()(label) >> 1);
  for (std::chrono::milliseconds patience{1};; patience = std::min(2 * patience, kMost)) {
    auto told = at::tensor({is_over(patience) ? int64_t{0} : int64_t{1}, name, -name}, at::kLong);
    group.all_reduce(told, ReduceOp::Max, label);
    const auto* most = told.const_data_ptr<int64_t>();
    if (most[1] != name || most[2] != -name) {
      fail<CommunicationError>("comm",
                               "the ranks call different collectives: rank {} is in '{}'; all must "
                               "call the same ones in the same order",
                               group.rank(), label);
    }
    if (most[0] == 0) return;
  }
}

Json ask_main(const Group& group, const std::string& label, const std::function<Json()>& look,
              Lasts lasts) {
  if (group.size() == 1) return look();
  if (lasts == Lasts::Long) {
    Json found;
    each_rank(group, label, [&] { found = group.rank() == 0 ? look() : Json(); }, lasts);
    return ask_main(group, label, [&] { return found; });
  }
  return ask_rank(group, 0, label, look);
}

Json ask_rank(const Group& group, int rank, const std::string& label,
              const std::function<Json()>& look) {
  if (group.size() == 1) return look();
  Json told;
  std::exception_ptr own;
  if (group.rank() == rank) {
    try {
      told["found"] = look();
    } catch (const std::exception& error) {
      own = std::current_exception();
      told = as_json(error);
    }
  }
  told = told_by(group, rank, label, told);
  if (own) throw_own(own);
  if (told.contains("error")) throw_again(told, rank);
  return told["found"];
}

void each_rank(const Group& group, const std::string& label, const std::function<void()>& work,
               Lasts lasts) {
  if (group.size() == 1) return work();
  Json told;
  std::exception_ptr own;
  try {
    lasts == Lasts::Long ? do_beside(group, label, work) : work();
  } catch (const CommunicationError&) {
    throw;  // the others learn of it where they wait
  } catch (const std::exception& error) {
    own = std::current_exception();
    told = as_json(error);
  }
  const int all = group.size();
  auto first = at::full({1}, own ? all - group.rank() : 0, at::kLong);
  group.all_reduce(first, ReduceOp::Max, label);
  const auto failed = all - static_cast<int>(comm::item<int64_t>(first));
  if (failed == all) return;
  told = told_by(group, failed, label, told);
  if (own && failed == group.rank()) throw_own(own);
  throw_again(told, failed);
}

void check_agreement(const Group& group, const std::vector<std::string>& entries,
                     const std::string& what) {
  if (group.size() == 1) return;
  const std::string label = "compare ranks", text = join(entries, "\n");
  const auto own = at::tensor(
      {static_cast<int64_t>(std::hash<std::string>()(text)), static_cast<int64_t>(text.size())},
      at::kLong);
  const auto all = group.all_gather(own, label);
  int other = 0;
  while (other < group.size() && all[other].equal(all[0])) ++other;  // on the host
  if (other == group.size()) return;
  const Json first = told_by(group, 0, label, text), second = told_by(group, other, label, text);
  check_same(first.get<std::string>(), second.get<std::string>(), other, what);
}

void check_same(const std::string& first, const std::string& other, int rank,
                const std::string& what) {
  if (first == other) return;
  const auto ours = split(first, '\n'), theirs = split(other, '\n');
  size_t i = 0;
  while (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) ++i;
  const auto entry = [&](const std::vector<std::string>& list) {
    return i < list.size() ? list[i] : "nothing more";
  };
  fail<UsageError>("comm",
                   "the {} of rank {} and of rank 0 differ; got {} on rank {}, {} on rank 0; "
                   "expected the same on all ranks",
                   what, rank, entry(theirs), rank, entry(ours));
}

}  // namespace convoy::comm
