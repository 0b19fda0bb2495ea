#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::tasks {

/// Somebody's session so far, in the ids of the interactions.
struct RecommendationRequest {
  std::vector<std::string> items;  ///< raw ids, oldest first; none with `user`: the user's history
  /// Raw id of who asks: with exclude_seen all that this user ever had is left out, too, as convoy
  /// data sessions keeps it beside the data of the run.
  std::optional<std::string> user = {};
  /// Other features of the model, as in the interactions: a number for each item, or one of the
  /// session; of a vector its numbers, item after item. They are scaled as the data was
  /// (`--features price:log1p`). Numbers of a categorical feature are raw values where all of these
  /// are numbers, else ids.
  std::map<std::string, std::vector<double>> features;
  /// Categorical features whose raw values are texts.
  std::map<std::string, std::vector<std::string>> categories;
  /// Times of the items, in seconds since 1970, none before the one before it, and of the request,
  /// for a model that reads times.
  std::vector<int64_t> times;
  std::optional<int64_t> time;  ///< none: the last item's
  int64_t top_k = 10;
  /// Whether `items` and the history of `user` are left out, however many the model reads; none: as
  /// the run was evaluated.
  std::optional<bool> exclude_seen = {};
  std::vector<std::string> candidates;  ///< raw ids to choose among; none = all items
  std::vector<std::string> exclude;     ///< raw ids that are not recommended
  /// Whether the most popular items are recommended where the session has none to go by.
  bool popular = true;
  /// Whether the answer has the session's vector; top_k may be 0 then.
  bool vector = false;

  /// {"items": [...], "user": "196", "features": {"price-list": [...], "age": 30, "picture-list":
  /// [[...], ...], "category-list": ["shoes", ...]}, "times": [...], "time": 1700000000, "top_k":
  /// 10, "exclude_seen": false, "candidates": [...], "exclude": [...], "popular": false, "vector":
  /// true}. One of the first two is there; the others may be left out: they are as in `usual`. Ids
  /// may be numbers. Texts in "features" are `categories`. "id" is passed over: it is for whoever
  /// asks. Throws UsageError for anything else.
  static RecommendationRequest from_json(const Json& json, const RecommendationRequest& usual);
  static RecommendationRequest from_json(const Json& json) { return from_json(json, {}); }
  /// Returns the keys of a request and an example, as help.
  static std::string help();
};

struct RecommendedItem {
  std::string item_id;  ///< as in the interactions
  std::string name;     ///< a title; "" when there is none
  float score = 0;      ///< of popular items: how often the training data have it
};

struct RecommendationAnswer {
  std::vector<RecommendedItem> items;  ///< best first; where there are none, `note` says why
  /// Ids of items in the request or the user's history that training never saw, categories as
  /// "category-list: shoes", and a user without a history as "user: 196".
  std::vector<std::string> unknown;
  /// Further predictions for the session, by column: a probability, or a number.
  std::map<std::string, double> predictions;
  bool exclude_seen = false;  ///< whether items of the session were left out, and the user's
  int64_t num_cut = 0;        ///< oldest items of the session that the model does not read
  /// Whether the items are the most popular ones of the training data, as the session has no known
  /// item.
  bool popular = false;
  /// Reason why there are no items, or only popular ones; "" where there are others.
  std::string note;
  /// Vector of the session, whose products with ItemVectors are scores;
  /// empty unless asked for, or without an item to go by.
  std::vector<float> vector;

  Json to_json() const;
};

/// Items that may be recommended, with their vectors.
struct ItemVectors {
  std::vector<std::string> item_ids;  ///< as in the interactions
  std::vector<std::string> names;     ///< titles; "" where there is none
  bool has_names = false;
  at::Tensor vectors;  ///< [items, width] fp32 on the host
};

/// Answer to a request of several, or the error that recommend() throws for it alone.
struct RecommendationOutcome {
  RecommendationAnswer answer;
  std::exception_ptr error;  ///< null: there is an answer
};

/// A trained session model that answers requests in this process: no file is read, no rank started
/// for one. All members may be called by several threads at a time.
///
///     convoy::tasks::Recommender recommender("runs/first");
///     auto answer = recommender.recommend({.items = {"1196", "260"}, .top_k = 5});
class Recommender {
 public:
  /// Opens the output folder of a run, or a checkpoint in it. Throws FileError that names the file.
  /// `data`: folder of sessions with the histories of users; "" = where the run had its data. They
  /// are read at the first request of a user.
  explicit Recommender(const std::filesystem::path& folder, at::Device device = at::kCPU,
                       std::filesystem::path data = {});
  ~Recommender();

  /// Answers a request. Unknown items are left out of the session, unknown categories count as
  /// none, and the answer lists both. Throws UsageError for a request that does not fit the model:
  /// a feature that is missing, or has another number of values than it should.
  RecommendationAnswer recommend(const RecommendationRequest& request) const;
  /// Answers several requests at once, which is faster. Answers are in the requests' order.
  std::vector<RecommendationAnswer> recommend(
      const std::vector<RecommendationRequest>& requests) const;
  /// Answers several requests at once, each of which may fail by itself.
  std::vector<RecommendationOutcome> recommend_each(
      const std::vector<RecommendationRequest>& requests) const;

  /// Loads another run or checkpoint for later requests; those under way end with the old one. When
  /// it throws, the old one stays.
  void load(const std::filesystem::path& folder);

  int64_t num_items() const;
  /// Returns the vectors of the items, for an index.
  ItemVectors item_vectors() const;

 private:
  class Model;
  std::shared_ptr<const Model> model() const;

  const at::Device device_;
  const std::filesystem::path data_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Model> model_;
};

}  // namespace convoy::tasks
