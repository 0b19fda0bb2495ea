#include "convoy/parallel/zero/sharded_state.h"

namespace convoy::parallel {

bool is_sharded_at(int stage, Kind kind, bool low_precision) {
  switch (kind) {
    case Kind::Weights:
      return stage >= 3;
    case Kind::Masters:
      return stage >= (low_precision ? 1 : 3);
    case Kind::Gradients:
      return stage >= 2;
    case Kind::Moments:
      return stage >= 1;
  }
  return false;
}

}  // namespace convoy::parallel
