#include "convoy/prepare/people.h"
#include "convoy/prepare/seen.h"

#include <unordered_map>
#include <unordered_set>

namespace convoy::prepare {

People::People(const Events& events, const SessionOrder& order,
               const std::filesystem::path& earlier)
    : users_(users_of(events.user, order)) {
  first_.assign(users_.size(), 0);
  end_.assign(users_.size(), 0);
  std::vector<bool> known(users_.size(), false);
  for (const Session& session : order.sessions) {
    const auto user = static_cast<size_t>(session.user_id - 1);
    if (!known[user]) first_[user] = session.begin;
    known[user] = true;
    end_[user] = session.end;
  }
  past_ids_.assign(users_.size(), 0);
  if (earlier.empty() || !std::filesystem::exists(earlier / kSeenFile)) return;
  past_ = SeenLists(earlier / kSeenFile);
  std::unordered_map<std::string, size_t> now;
  for (size_t user = 0; user < users_.size(); ++user) now.emplace(users_[user].raw_id, user);
  const auto names = ItemNames::load(earlier / kUsersFile);
  for (int64_t id = 1; id <= past_.num_users(); ++id) {
    const auto raw = names.raw_id(id);
    if (const auto found = now.find(raw); found != now.end()) {
      past_ids_[found->second] = id;
      continue;
    }
    users_.push_back({std::ssize(users_) + 1, raw, 0, ""});
    first_.push_back(0);
    end_.push_back(0);
    past_ids_.push_back(id);
  }
}

int64_t People::num_seen(const Session& session, int64_t end) const {
  const auto user = static_cast<size_t>(session.user_id - 1);
  return std::ssize(past_.of(past_ids_[user])) + end - first_[user];
}

void People::write(const SessionOrder& order, const Codes& column, const ColumnIds& items,
                   SessionWriter& writer) const {
  for (size_t user = 0; user < users_.size(); ++user) {
    auto& list = writer.ints(0);
    const auto past = past_.of(past_ids_[user]);
    list.insert(list.end(), past.begin(), past.end());
    for (int64_t i = first_[user]; i < end_[user]; ++i) {
      const auto event = static_cast<size_t>(order.events[static_cast<size_t>(i)]);
      list.push_back(items.id(column.codes[event]));
    }
    writer.end_row(users_[user].id);
  }
  writer.close();
}

int64_t People::count_repeats(const SessionOrder& order, const Codes& column,
                              const ColumnIds& items) const {
  int64_t repeats = 0;
  std::unordered_set<int64_t> had;
  for (size_t user = 0; user < users_.size(); ++user) {
    const auto past = past_.of(past_ids_[user]);
    had.clear();
    had.insert(past.begin(), past.end());
    for (int64_t i = first_[user]; i < end_[user]; ++i) {
      const auto event = static_cast<size_t>(order.events[static_cast<size_t>(i)]);
      repeats += !had.insert(items.id(column.codes[event])).second;
    }
  }
  return repeats;
}

}  // namespace convoy::prepare
