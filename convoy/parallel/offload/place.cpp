#include "convoy/parallel/offload/place.h"

namespace convoy::parallel {

Place place_of(Kind kind, const OffloadOptions& options, bool low_precision) {
  switch (kind) {
    case Kind::Weights:
      return options.parameters;
    case Kind::Masters:
      return low_precision ? options.optimizer : options.parameters;
    case Kind::Gradients:
      return options.gradients;
    case Kind::Moments:
      return options.optimizer;
  }
  return Place::Device;
}

}  // namespace convoy::parallel
