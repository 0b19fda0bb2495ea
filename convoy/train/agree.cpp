#include "convoy/train/agree.h"

#include <ATen/Functions.h>

#include <cstring>

#include "convoy/base/error.h"

namespace convoy::train {

namespace {

/// Names for the errors that all ranks throw as they are.
std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return "usage";
  if (dynamic_cast<const FileError*>(&error) != nullptr) return "file";
  if (dynamic_cast<const NumericError*>(&error) != nullptr) return "numeric";
  return "other";
}

[[noreturn]] void throw_again(const std::string& kind, const std::string& text) {
  if (kind == "usage") throw UsageError(text);
  if (kind == "file") throw FileError(text);
  if (kind == "numeric") throw NumericError(text);
  throw CommunicationError("[train] rank 0 failed: " + text, {0});
}

std::string told_by_main(const comm::Group& group, const std::string& label, std::string text) {
  auto length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  group.broadcast(length, 0, label);
  auto bytes = at::empty({length.item<int64_t>()}, at::kByte);
  if (group.rank() == 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  group.broadcast(bytes, 0, label);
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

}  // namespace

Json ask_main(const comm::Group& group, const std::string& label,
              const std::function<Json()>& look) {
  if (group.size() == 1) return look();
  Json told;
  std::exception_ptr own;
  if (group.rank() == 0) {
    try {
      told["found"] = look();
    } catch (const std::exception& error) {
      own = std::current_exception();
      told = {{"kind", kind_of(error)}, {"error", error.what()}};
    }
  }
  const auto text = told.dump(-1, ' ', false, Json::error_handler_t::replace);
  told = Json::parse(told_by_main(group, label, text));
  if (own) std::rethrow_exception(own);
  if (told.contains("error")) throw_again(told["kind"], told["error"]);
  return told["found"];
}

}  // namespace convoy::train
