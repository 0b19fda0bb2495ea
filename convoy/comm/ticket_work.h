#pragma once

#include "convoy/comm/engine.h"
#include "convoy/shm/ticket.h"

namespace convoy::comm {

/// Work that another thread of this process does.
class TicketWork : public Work {
 public:
  explicit TicketWork(std::shared_ptr<shm::Ticket> ticket) : ticket_(std::move(ticket)) {}
  void wait() override { ticket_->wait(); }
  bool done() const override { return ticket_->is_done(); }

 private:
  std::shared_ptr<shm::Ticket> ticket_;
};

/// Work that was finished when its call returned.
class DoneWork : public Work {
 public:
  void wait() override {}
  bool done() const override { return true; }
};

}  // namespace convoy::comm
