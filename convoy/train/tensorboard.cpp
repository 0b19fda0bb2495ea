#include "convoy/train/tensorboard.h"

#include <optional>

#include "convoy/formats/tensorboard.h"

namespace convoy::train {

namespace {

class Tensorboard : public Callback {
 public:
  Tensorboard(std::filesystem::path folder, std::function<void(const std::string&)> warn)
      : folder_(std::move(folder)), warn_(std::move(warn)) {}

  void on_train_begin(const RunInfo&) override { writer_.emplace(folder_); }

  void on_log(const LogRecord& record) override {
    Metrics values;
    const Json json = record.to_json();
    for (const auto& [key, value] : json.items()) {
      if (key != "step") values["train/" + key] = value.get<double>();
    }
    tell(writer_->add_scalars(values, record.step));
  }

  void on_evaluate(const Metrics& metrics, int64_t step) override {
    if (!writer_) return;
    constexpr std::string_view kPrefix = "eval_";
    Metrics values;
    for (const auto& [key, value] : metrics) {
      const bool plain = key.rfind(kPrefix, 0) != 0;
      values[plain ? "eval/" + key : "eval/" + key.substr(kPrefix.size())] = value;
    }
    tell(writer_->add_scalars(values, step));
  }

  void on_train_end(const Metrics&) override { tell(writer_->flush()); }

 private:
  void tell(const std::string& trouble) {
    if (!trouble.empty()) warn_(trouble);
  }

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
  std::optional<formats::TensorboardWriter> writer_;
};

}  // namespace

std::shared_ptr<Callback> make_tensorboard(std::filesystem::path folder,
                                           std::function<void(const std::string&)> warn) {
  return std::make_shared<Tensorboard>(std::move(folder), std::move(warn));
}

}  // namespace convoy::train
