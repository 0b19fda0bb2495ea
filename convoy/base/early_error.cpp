#include "convoy/base/early_error.h"

#include <mutex>
#include <utility>

namespace convoy {

namespace {

struct Hearer {
  std::mutex mutex;
  std::function<void(const std::exception&)> hear;
};

Hearer& hearer() {
  static Hearer only;
  return only;
}

}  // namespace

void hear_early_errors(std::function<void(const std::exception&)> hear) {
  const std::lock_guard lock(hearer().mutex);
  hearer().hear = std::move(hear);
}

void tell_early(const std::exception& error) {
  const std::lock_guard lock(hearer().mutex);
  if (hearer().hear) hearer().hear(error);
}

}  // namespace convoy
