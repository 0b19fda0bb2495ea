#include "convoy/models/session/session_bodies.h"

#include <algorithm>
#include <map>

namespace convoy::models {

namespace {

using Maskings = std::vector<std::string>;

const std::map<std::string, Maskings>& bodies() {
  static const std::map<std::string, Maskings> all{
      {"albert", {"mlm"}},         {"bert", {"mlm"}},
      {"electra", {"mlm", "rtd"}}, {"gpt2", {"clm"}},
      {"hstu", {"clm"}},           {"ligr", {"clm"}},
      {"sasrec", {"clm"}},         {"xlnet", {"mlm", "clm", "plm"}}};
  return all;
}

}  // namespace

const std::vector<std::string>& maskings() {
  static const Maskings all{"clm", "mlm", "plm", "rtd"};
  return all;
}

const std::vector<std::string>& maskings_of(const std::string& body) {
  return bodies().at(body);
}

std::vector<std::string> bodies_that_learn_by(const std::string& masking) {
  std::vector<std::string> out;
  for (const auto& [body, own] : bodies()) {
    const bool can = std::find(own.begin(), own.end(), masking) != own.end();
    if (can || masking.empty()) out.push_back(body);
  }
  return out;
}

}  // namespace convoy::models
