// A task of one's own, with its options, data and metrics, in the whole program convoy:
//   ./own_task train --family circle --output_dir out
//   ./own_task eval out
// and with a command of one's own:
//   ./own_task points 3
#include <convoy/checkpoint/weights.h>
#include <convoy/convoy.h>
#include <convoy/parallel/run/replica.h>
#include <convoy/program.h>
#include <convoy/tasks/task.h>
#include <torch/nn.h>

// Shapes: B points.
namespace {

using namespace convoy;

struct Net : torch::nn::Module {
  torch::nn::Linear in{nullptr}, out{nullptr};

  explicit Net(int64_t width) {
    in = register_module("in", torch::nn::Linear(2, width));
    out = register_module("out", torch::nn::Linear(width, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

// Sums over the batch: the loss, its targets and which of them were right.
Bundle loss(Net& net, const Bundle& batch) {
  const auto scores = net.forward(batch.at("x"));  // [B, 2]
  const auto sum = torch::nn::functional::cross_entropy(
      scores, batch.at("y"),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {{"loss", sum},
          {"count", torch::tensor(batch.at("y").numel())},
          {"correct", (scores.argmax(1) == batch.at("y")).sum()}};
}

// Which part of the points is told right.
class Accuracy : public train::Scorer {
 public:
  void add(const Bundle& out) override {
    sums_[0] += out.at("correct").to(at::kCPU);
    sums_[1] += out.at("count").to(at::kCPU);
  }
  void reduce(const comm::Group& group) override {
    group.all_reduce(sums_, comm::ReduceOp::Sum, "reduce metrics");
  }
  std::map<std::string, double> values(const std::string& prefix, double) const override {
    return {{prefix + "accuracy", sums_[0].item<double>() / sums_[1].item<double>()}};
  }

 private:
  at::Tensor sums_ = at::zeros({2}, at::kLong);  // right ones, all
};

at::Tensor draw(int64_t count, uint64_t seed) {
  return at::randn({count, 2}, at::detail::createCPUGenerator(seed));  // on all ranks alike
}

std::shared_ptr<dataset::Dataset> points(int64_t count, uint64_t seed) {
  const auto x = draw(count, seed);
  const auto y = (x.norm(2, 1) < 1).to(at::kLong);
  return make_map_dataset(count, [=](const std::vector<int64_t>& rows) {
    const auto index = torch::tensor(rows);
    return Bundle{{"x", x.index_select(0, index)}, {"y", y.index_select(0, index)}};
  });
}

class CircleTask : public tasks::Task {
 public:
  std::string name() const override { return "model of a circle"; }

  void declare(OptionTable& table) override {
    table.add("model", "family", family_, "kind of model").choice({"circle"});
    table.add("model", "width", width_, "of the hidden layer").at_least(1);
    table.add("data", "num_points", num_points_, "points to learn from").at_least(1);
  }
  void settle(OptionTable&) override {}

  tasks::Run prepare(const options::ParallelArguments&) override {
    auto run = make_run();
    run.train_data = points(num_points_, 1);
    run.valid_data = points(1000, 2);
    run.files.config = {{"model_type", "circle"}, {"width", width_}};
    return run;
  }

  tasks::Run open(const std::filesystem::path& folder, OptionTable& table) override {
    tasks::open_trained(folder, table);  // which sets the options
    auto run = make_run();
    run.fill = [folder](parallel::Replica& model) {
      checkpoint::load_weights(folder, model.weights(), model.world());
    };
    return run;
  }

  tasks::NamedData evaluation_data(const std::string&) override {
    return {"a thousand points", points(1000, 2)};
  }

  void predict(const tasks::PredictionRequest&, const tasks::Run&,
               const options::TrainingArguments&) override {
    fail<UsageError>("circle", "this task predicts nothing; try eval");
  }

 private:
  tasks::Run make_run() const {
    tasks::Run run;
    run.factory = [width = width_] { return module_model(std::make_shared<Net>(width), loss); };
    run.scorer = [] { return std::make_unique<Accuracy>(); };
    return run;
  }

  std::string family_ = "circle";
  int64_t width_ = 32, num_points_ = 4096;
};

int print_points(const std::vector<std::string>& words) {
  const auto x = draw(words.empty() ? 5 : std::stoll(words[0]), 1);
  for (int64_t i = 0; i < x.size(0); ++i) {
    std::printf("%g, %g\n", x[i][0].item<double>(), x[i][1].item<double>());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tasks::add_task({"circle", [] { return std::vector<std::string>{"circle"}; },
                   [](const std::string&) { return std::make_unique<CircleTask>(); }});
  add_command("points", "Print points of the plane", print_points);
  run_program(argc, argv);
}
