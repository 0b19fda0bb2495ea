#include "convoy/base/fake_gpu.h"

#include <cstdlib>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy {

std::optional<FakeGpus> fake_gpus() {
  const char* given = std::getenv("CONVOY_FAKE_GPU");
  if (given == nullptr || *given == '\0') return std::nullopt;
  const std::string text = given;
  const auto colon = text.rfind(':');
  int64_t number = 0;
  if (colon == std::string::npos || !parse_number(text.substr(colon + 1), number) || number < 1 ||
      number > 64) {
    fail<UsageError>("machine", "CONVOY_FAKE_GPU = '{}'; expected FOLDER:NUMBER, 1 to 64 devices",
                     text);
  }
  return FakeGpus{text.substr(0, colon), static_cast<int>(number)};
}

}  // namespace convoy
