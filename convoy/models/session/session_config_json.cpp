#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/models/session/session.h"

namespace convoy::models {

namespace {

int64_t whole(const Json& json) {
  const auto number = whole_number<int64_t>(json);
  if (!number) throw Json::type_error::create(302, "a size is no whole number", &json);
  return *number;
}

double real(const Json& json) {
  const auto number = finite_number(json);
  if (!number) throw Json::type_error::create(302, "a weight is no number", &json);
  return *number;
}

Json tower_json(const std::vector<ItemTowerFeature>& features) {
  Json out = Json::array();
  for (const auto& feature : features) {
    Json one{{"name", feature.name}};
    if (feature.categorical()) {
      one["cardinality"] = feature.cardinality;
    } else {
      one["width"] = feature.width;
      one["mean"] = feature.mean;
      one["deviation"] = feature.deviation;
    }
    out.push_back(std::move(one));
  }
  return out;
}

ItemTowerFeature tower_feature(const Json& json) {
  const auto number = [&](const char* key, double usual) {
    return json.contains(key) ? real(json.at(key)) : usual;
  };
  return {.name = json.at("name"),
          .cardinality = whole(json.value("cardinality", Json(0))),
          .width = whole(json.value("width", Json(0))),
          .mean = number("mean", 0),
          .deviation = number("deviation", 1)};
}

}  // namespace

Json SessionConfig::to_json() const {
  Json out{{"model_type", kSessionModelType},
           {"architectures", {"ConvoySessionModel"}},
           {"item_feature", item_feature},
           {"features", Json::array()}};
  for (const auto& feature : features) {
    out["features"].push_back({{"name", feature.name},
                               {"categorical", feature.categorical},
                               {"cardinality", feature.cardinality}});
    if (!feature.is_list) out["features"].back()["is_list"] = false;
    if (feature.width > 0) out["features"].back()["width"] = feature.width;
  }
  if (!time_feature.empty()) out["time_feature"] = time_feature;
  if (!item_tower.empty()) out["item_tower"] = tower_json(item_tower);
  write_fields(out, const_cast<SessionConfig*>(this)->fields());
  if (targets.empty()) return out;
  auto& tasks = out["prediction_tasks"] = Json::array();
  tasks.push_back({{"task", kNextItem}, {"weight", next_item_weight}});
  for (const auto& target : targets) {
    tasks.push_back({{"task", target.binary ? kBinary : kRegression},
                     {"column", target.column},
                     {"weight", target.weight}});
  }
  return out;
}

void SessionConfig::read_json(const Json& json, const std::string& where) {
  auto rest = json;
  try {
    if (json.at("model_type") != kSessionModelType) {
      fail<FileError>("models", "{} describes a model of type {}; expected {}", where,
                      json.at("model_type").dump(), kSessionModelType);
    }
    item_feature = json.at("item_feature").get<std::string>();
    features.clear();
    for (const auto& item : json.at("features")) {
      features.push_back({item.at("name"), item.at("categorical"), whole(item.at("cardinality")),
                          item.value("is_list", true), whole(item.value("width", Json(0)))});
    }
    time_feature = json.value("time_feature", "");
    item_tower.clear();
    for (const auto& feature : json.value("item_tower", Json::array())) {
      item_tower.push_back(tower_feature(feature));
    }
    targets.clear();
    for (const auto& task : json.value("prediction_tasks", Json::array())) {
      if (task.at("task") == kNextItem) {
        next_item_weight = real(task.at("weight"));
      } else {
        targets.push_back({task.at("column"), task.at("task") == kBinary, real(task.at("weight"))});
      }
    }
    take_fields(rest, fields(), where);
    check();
  } catch (const Json::exception& error) {
    fail<FileError>("models", "{} is not a session model's config: {}", where, json_trouble(error));
  } catch (const UsageError& error) {
    throw FileError(fmt::format("{} (in {})", error.what(), where));
  }
  for (const char* key : {"model_type", "architectures", "item_feature", "features",
                          "prediction_tasks", "time_feature", "item_tower"}) {
    rest.erase(key);
  }
  if (rest.empty()) return;
  fail<FileError>("models",
                  "{} has the key {}, which this convoy does not know; a model of another version "
                  "has to be trained again",
                  where, rest.begin().key());
}

}  // namespace convoy::models
