#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/tasks/session/recommender.h"

namespace convoy::tasks {

namespace {

std::vector<std::string> ids_of(const Json& json, const char* key) {
  std::vector<std::string> out;
  for (const auto& id : json) {
    if (!id.is_string() && !id.is_number_integer()) {
      fail<UsageError>("predict", "\"{}\" holds {}; expected ids", key, id.dump());
    }
    out.push_back(id.is_string() ? id.get<std::string>() : id.dump());
  }
  return out;
}

int64_t whole(const Json& json) {
  const auto number = whole_number<int64_t>(json);
  if (!number) throw Json::type_error::create(302, "no whole number", &json);
  return *number;
}

double real(const Json& json) {
  const auto number = finite_number(json);
  if (!number) throw Json::type_error::create(302, "no number", &json);
  return *number;
}

std::vector<double> reals(const Json& list) {
  if (!list.is_array()) throw Json::type_error::create(302, "no list", &list);
  std::vector<double> out;
  for (const auto& one : list) out.push_back(real(one));
  return out;
}

/// A number, a list of numbers, or a list of vectors, whose numbers follow each other.
std::vector<double> numbers_of(const Json& json) {
  if (json.is_number()) return {real(json)};
  const bool of_vectors = json.is_array() && !json.empty() && json.front().is_array();
  if (!of_vectors) return reals(json);
  std::vector<double> out;
  for (const auto& vector : json) {
    const auto numbers = reals(vector);
    if (numbers.size() != json.front().size()) {
      fail<UsageError>("predict",
                       "\"features\" has vectors of {} and of {} in one list; expected one width",
                       plural(std::ssize(json.front()), "number"), numbers.size());
    }
    out.insert(out.end(), numbers.begin(), numbers.end());
  }
  return out;
}

/// A category, or a list of some.
bool is_text(const Json& json) {
  return json.is_string() || (json.is_array() && !json.empty() && json.front().is_string());
}

std::vector<std::string> texts_of(const Json& json) {
  if (json.is_string()) return {json.get<std::string>()};
  return json.get<std::vector<std::string>>();
}

}  // namespace

std::string RecommendationRequest::help() {
  return "A request, and its answer:\n"
         "  $ echo '{\"items\": [\"item-3\", \"new\"], \"top_k\": 1}' | convoy predict runs/first "
         "--requests\n"
         "  {\"exclude_seen\":false,\"items\":[{\"item_id\":\"item-20\",\"score\":1.7}],"
         "\"unknown\":[\"new\"]}\n"
         "Keys of a request, of which it needs items or user:\n"
         "  items         ids of the session's items, the last one last\n"
         "  user          id of a person; without items: the person's history, which convoy data\n"
         "                sessions keeps beside the run's data, or --data\n"
         "  features      by column: numbers or texts, one for each item or one for the session\n"
         "  times         when each event was, in seconds; time: when it is asked (hstu)\n"
         "  top_k         items to recommend\n"
         "  exclude_seen  true: never the session's own items, nor those of the user's history\n"
         "  candidates    ids to choose among\n"
         "  exclude       ids that are not recommended\n"
         "  popular       false: without a known item no popular items are recommended instead\n"
         "  vector        true: the answer has the session's vector; top_k may be 0 then\n"
         "  id            anything; the answer has it, too\n"
         "An answer has items, exclude_seen, unknown: ids that training never saw, num_cut: "
         "oldest\n"
         "items that the model does not read, popular: the items are the most popular ones, as "
         "the\n"
         "model knows none of the session (scores are their counts), note: why there are no items\n"
         "or popular ones, and predictions of other targets.\n"
         "A line may also be a list of requests; its answer is a list. The line\n"
         "{\"load\": \"runs/next\"} takes another model for what follows.\n";
}

RecommendationRequest RecommendationRequest::from_json(const Json& json,
                                                       const RecommendationRequest& usual) {
  if (!json.is_object() || !(json.contains("items") || json.contains("user"))) {
    fail<UsageError>("predict",
                     "a request is {}; expected an object such as {{\"items\": [\"a\", \"b\"]}} or "
                     "{{\"user\": \"196\"}}",
                     json_line(json));
  }
  RecommendationRequest out = usual;
  for (const auto& [key, value] : json.items()) {
    try {
      if (key == "items" || key == "candidates" || key == "exclude") {
        if (!value.is_array()) throw Json::type_error::create(302, "no list", &value);
        auto& list = key == "items" ? out.items : key == "exclude" ? out.exclude : out.candidates;
        list = ids_of(value, key.c_str());
        if (key == "candidates" && out.candidates.empty()) {
          fail<UsageError>(
              "predict",
              "\"candidates\" is empty, so there is nothing to recommend; leave it out "
              "to choose among all items");
        }
      } else if (key == "user") {
        out.user = ids_of(Json::array({value}), "user").front();
      } else if (key == "features") {
        for (const auto& [name, values] : value.get<std::map<std::string, Json>>()) {
          if (is_text(values)) {
            out.categories[name] = texts_of(values);
          } else {
            out.features[name] = numbers_of(values);
          }
        }
      } else if (key == "times") {
        if (!value.is_array()) throw Json::type_error::create(302, "no list", &value);
        out.times.clear();
        for (const auto& time : value) out.times.push_back(whole(time));
      } else if (key == "time") {
        out.time = whole(value);
      } else if (key == "top_k") {
        out.top_k = whole(value);
      } else if (key == "exclude_seen") {
        out.exclude_seen = value.get<bool>();
      } else if (key == "popular" || key == "vector") {
        (key == "popular" ? out.popular : out.vector) = value.get<bool>();
      } else if (key != "id") {
        fail<UsageError>("predict",
                         "a request has the key \"{}\"; expected items, user, features, times, "
                         "time, top_k, exclude_seen, candidates, exclude, popular, vector or id",
                         key);
      }
    } catch (const Json::exception&) {
      fail<UsageError>(
          "predict", "\"{}\" is {}; expected {}", key, json_line(value),
          key == "features" ? "an object of numbers, texts, or lists of numbers, texts or vectors"
          : key == "times"  ? "a list of whole seconds"
          : key == "time"   ? "a whole number of seconds"
          : key == "top_k"  ? "a whole number"
          : key == "exclude_seen" || key == "popular" || key == "vector" ? "true or false"
                                                                         : "a list of ids");
    }
  }
  return out;
}

Json RecommendationAnswer::to_json() const {
  Json out{{"items", Json::array()}};
  for (const auto& item : items) {
    Json entry{{"item_id", item.item_id}, {"score", item.score}};
    if (!item.name.empty()) entry["name"] = item.name;
    out["items"].push_back(std::move(entry));
  }
  out["exclude_seen"] = exclude_seen;
  if (num_cut > 0) out["num_cut"] = num_cut;
  if (!unknown.empty()) out["unknown"] = unknown;
  if (popular) out["popular"] = true;
  if (!note.empty()) out["note"] = note;
  if (!vector.empty()) out["vector"] = vector;
  if (!predictions.empty()) out["predictions"] = predictions;
  return out;
}

}  // namespace convoy::tasks
