#include "convoy/tasks/session/known_items.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_value.h"
#include "convoy/tasks/session/recommend.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

KnownItems::KnownItems(std::vector<bool> known) : known_(std::move(known)) {
  if (!known_.empty()) known_[0] = true;
}

void KnownItems::add(const KnownItems& earlier) {
  const auto both = std::min(known_.size(), earlier.known_.size());
  for (size_t id = 0; id < both; ++id) known_[id] = known_[id] || earlier.known_[id];
}

void KnownItems::remove(int64_t first, int64_t last) {
  const int64_t end = std::min(last, std::ssize(known_) - 1);
  for (int64_t id = std::max<int64_t>(1, first); id <= end; ++id) {
    known_[static_cast<size_t>(id)] = false;
  }
}

std::vector<int64_t> KnownItems::unseen() const {
  std::vector<int64_t> out;
  for (int64_t id = 1; id < std::ssize(known_); ++id) {
    if (!knows(id)) out.push_back(id);
  }
  return out;
}

Json KnownItems::to_json() const {
  Json out{{"num_ids", known_.size()}, {"unseen", Json::array()}};
  const auto ids = unseen();
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    out["unseen"].push_back({ids[i], ids[end - 1]});
    i = end;
  }
  return out;
}

KnownIdsOfModel KnownIdsOfModel::of_run(const fs::path& folder,
                                        const models::SessionConfig& model) {
  KnownIdsOfModel out;
  for (const auto& feature : model.features) {
    if (!feature.categorical) continue;
    if (feature.name == model.item_feature) {
      out.items = KnownItems(feature.cardinality);
    } else {
      out.features.emplace(feature.name, feature.cardinality);
    }
  }
  const auto file = kept_file(folder, kUnseenFile);
  if (file.empty()) return out;
  const auto json = parse_json(read_file(file), file.string());
  const auto remove = [&](const Json& of_column, KnownItems& from) {
    using Stretches = std::vector<std::pair<int64_t, int64_t>>;
    for (const auto& [first, last] : value_from<Stretches>(of_column.at("unseen"))) {
      from.remove(first, last);
    }
  };
  try {
    remove(json, out.items);
    if (!json.contains("features")) return out;
    for (const auto& [name, of_column] : json.at("features").items()) {
      const auto found = out.features.find(name);
      if (found != out.features.end()) remove(of_column, found->second);
    }
  } catch (const Json::exception& error) {
    fail<FileError>("tasks", "{} does not list the items that training never saw: {}",
                    file.string(), json_trouble(error));
  }
  return out;
}

std::string KnownIdsOfModel::to_json() const {
  auto out = seen_items().to_json();
  for (const auto& [name, known] : features) {
    if (!known.unseen().empty()) out["features"][name] = known.to_json();
  }
  return out.dump() + "\n";
}

bool KnownIdsOfModel::all() const {
  return items.unseen().empty() && std::ranges::all_of(features, [](const auto& feature) {
           return feature.second.unseen().empty();
         });
}

}  // namespace convoy::tasks
