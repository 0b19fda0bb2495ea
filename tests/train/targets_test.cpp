#include <gmock/gmock.h>
#include <torch/nn.h>

#include "convoy/base/files.h"
#include "convoy/nn/module_block.h"
#include "tests/train/trainer_testing.h"

// Steps and evaluations in which nothing is asked.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;

parallel::ModelFactory line() {
  return [] {
    torch::manual_seed(5);
    return nn::module_model(std::make_shared<torch::nn::LinearImpl>(1, 1),
                            [](torch::nn::LinearImpl& net, const nn::Bundle& batch) -> nn::Bundle {
                              const auto& asked = batch.at("asked");
                              const auto error = net.forward(asked).sub(3).square().mul(asked);
                              return {{"loss", error.sum()}, {"count", asked.sum().to(at::kLong)}};
                            });
  };
}

/// Rows of which one in `every` has a target.
std::shared_ptr<dataset::Dataset> rows(int64_t every) {
  return dataset::make_map_dataset(8, [every](const std::vector<int64_t>& wanted) {
    const auto numbers = at::tensor(wanted, at::kLong).unsqueeze(1);
    return nn::Bundle{{"asked", numbers.remainder(every).eq(0).to(at::kFloat)}};
  });
}

struct Listener : Recorder {
  void on_message(const std::string& text) override { messages.push_back(text); }
  void on_step(const StepTiming& timing) override { steps.push_back(timing.loss); }
  std::vector<std::string> messages;
  std::vector<double> steps;
};

class Targets : public TrainerTest {};

TEST_F(Targets, AStepWithoutOneCountsInNoMean) {
  auto args = arguments("a");
  args.per_device_train_batch_size = 1;
  args.num_train_epochs = 1;
  args.logging_steps = 8;
  auto heard = std::make_shared<Listener>();
  Trainer trainer(line(), args, rows(4), nullptr, job_);
  trainer.add_callback(heard);
  const auto metrics = trainer.train();
  double sum = 0;
  int64_t count = 0;
  for (const double loss : heard->steps) {
    if (std::isnan(loss)) continue;
    sum += loss;
    ++count;
  }
  ASSERT_EQ(count, 2) << "of eight rows";
  ASSERT_EQ(heard->losses.size(), 1U);
  EXPECT_DOUBLE_EQ(heard->losses[0], sum / 2);
  EXPECT_DOUBLE_EQ(metrics.at("train_loss"), sum / 2);
  EXPECT_EQ(trainer.state().steps_without_targets, 6);
  EXPECT_THAT(heard->messages,
              ::testing::Contains(HasSubstr("6 steps up to step 8 had no target")));
}

TEST_F(Targets, AnEvaluationWithoutOneNamesWhatMayBeTheCause) {
  Trainer trainer(line(), arguments("a"), nullptr, rows(100), job_);
  const auto none = dataset::make_map_dataset(8, [](const std::vector<int64_t>& wanted) {
    return nn::Bundle{{"asked", at::zeros({std::ssize(wanted), 1})}};
  });
  try {
    trainer.evaluate(*none, "eval_");
    ADD_FAILURE() << "nothing is asked";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mlm_probability"));
  }
}

/// Gives numbers that JSON does not have.
struct Beyond : Scorer {
  void add(const nn::Bundle&) override {}
  void reduce(const comm::Group&) override {}
  std::map<std::string, double> values(const std::string& prefix, double) const override {
    return {{prefix + "perplexity", INFINITY}, {prefix + "nothing", NAN}};
  }
};

// The entry of the best evaluation comes back from trainer_state.json.
TEST_F(Targets, MetricsThatAreNotFiniteAreToldAndComeBackFromAState) {
  auto args = arguments("a");
  args.per_device_train_batch_size = 1;
  args.max_steps = 2;
  args.eval_strategy = args.save_strategy = "steps";
  args.eval_steps = 1;
  args.save_steps = 1;
  args.load_best_model_at_end = true;
  const auto run = [&](int64_t steps) {
    args.max_steps = steps;
    auto heard = std::make_shared<Listener>();
    Trainer trainer(line(), args, rows(1), rows(1), job_);
    trainer.set_scorer([] { return std::make_unique<Beyond>(); });
    trainer.add_callback(heard);
    trainer.train();
    EXPECT_THAT(heard->messages,
                ::testing::Contains(HasSubstr("eval_perplexity after step " +
                                              std::to_string(steps) + " is inf, and null")));
  };
  run(2);
  args.learning_rate = 1e-12;  // what follows is hardly better, or worse
  args.resume_from_checkpoint = "latest";
  run(3);
  const auto saved = parse_json(read_file(folder_ / "a/eval_results.json"), "results");
  EXPECT_TRUE(saved.at("eval_perplexity").is_null());
  EXPECT_TRUE(saved.at("eval_loss").is_number());
}

TEST_F(Targets, RefusesFractionsOfStepsAndBatchesThatOverflow) {
  const auto error = [&](const std::function<void(options::TrainingArguments&)>& change) {
    auto args = arguments("a");
    change(args);
    return error_of(args);
  };
  expect_in("logging_steps = 2.5", error([](auto& a) { a.logging_steps = 2.5; }));
  expect_in("save_steps = 1.5", error([](auto& a) { a.save_steps = 1.5; }));
  expect_in("no batch that counts", error([](auto& a) {
              a.per_device_train_batch_size = int64_t{1} << 40;
              a.gradient_accumulation_steps = int64_t{1} << 40;
            }));
  expect_in("polynomial ends at 1e-07", error([](auto& a) {
              a.lr_scheduler_type = "polynomial";
              a.learning_rate = 1e-8;
            }));
}

}  // namespace
}  // namespace convoy::train
