#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "convoy/shm/segment.h"

namespace convoy::shm {

/// Gives a segment's descriptor to the other processes of this host and user over a local socket of
/// a random name, which belongs to no folder and goes with the process.
class Handover {
 public:
  explicit Handover(std::shared_ptr<Segment> segment);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  /// Name of the socket, which the other processes need for take_over().
  const std::string& name() const { return name_; }

  /// Returns when all other ranks of the segment have it. Others who connect are sent away.
  /// Throws CommunicationError naming the ranks that did not come in time.
  void serve(std::chrono::milliseconds timeout);

 private:
  std::shared_ptr<Segment> segment_;
  std::string name_;
  int socket_;
};

/// Takes the segment over at the other end. Throws CommunicationError.
std::shared_ptr<Segment> take_over(const std::string& name, int rank, int size,
                                   std::chrono::milliseconds timeout);

}  // namespace convoy::shm
