#include "convoy/comm/c10d_engine.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::comm {

namespace {

[[noreturn]] void rethrow(const std::string& label, const std::exception& error) {
  fail<CommunicationError>("comm", "'{}' did not finish: {}; another rank may have failed", label,
                           first_line(error.what()));
}

class C10dWork : public Work {
 public:
  C10dWork(c10::intrusive_ptr<c10d::Work> work, std::string label)
      : work_(std::move(work)), label_(std::move(label)) {}

  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& error) {
      rethrow(label_, error);
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string label_;
};

class C10dEngine : public Engine {
 public:
  C10dEngine(const char* name, c10::intrusive_ptr<c10d::Backend> backend)
      : name_(name), backend_(std::move(backend)) {}

  const char* name() const override { return name_; }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                   const std::string& label) override {
    c10d::AllreduceOptions options;
    options.reduceOp = op == ReduceOp::Sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(label, [&] { return backend_->allreduce(tensors, options); });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const std::string& label) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start(label, [&] { return backend_->broadcast(tensors, options); });
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in,
                                   const std::string& label) override {
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int64_t r = 0; r < out.size(0); ++r) outputs[0].push_back(out[r]);
    std::vector<at::Tensor> inputs{std::move(in)};
    return start(label, [&] { return backend_->allgather(outputs, inputs); });
  }

  void abort(const std::string&) override { backend_->abort(); }

 private:
  template <class Call>
  std::shared_ptr<Work> start(const std::string& label, Call call) {
    try {
      return std::make_shared<C10dWork>(call(), label);
    } catch (const std::exception& error) {
      rethrow(label, error);
    }
  }

  const char* name_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace

std::shared_ptr<Engine> make_c10d_engine(const char* name,
                                         c10::intrusive_ptr<c10d::Backend> backend) {
  return std::make_shared<C10dEngine>(name, std::move(backend));
}

}  // namespace convoy::comm
