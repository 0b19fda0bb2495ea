#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <string>
#include <vector>

// What is known to run before what. Operations run at once; their order on a real device is told by
// vector clocks: a number for each stream, of its last operation that is known to be done.
namespace convoy::fake_gpu {

using Time = uint32_t;

/// An operation: the stream it ran on, by its line in clocks, and its number there, from 1.
struct Stamp {
  uint32_t line = 0;
  Time time = 0;
};

class Clock {
 public:
  Time at(uint32_t line) const { return line < times_.size() ? times_[line] : 0; }
  bool has(Stamp stamp) const { return at(stamp.line) >= stamp.time; }
  bool has(const Clock& other) const;
  void join(const Clock& other);
  Time tick(uint32_t line);

 private:
  std::vector<Time> times_;
};

/// The line of a stream in all clocks.
uint32_t line_of(c10::Stream stream);
/// "cuda:0 stream 3".
std::string name_of_line(uint32_t line);

/// The next operation on `stream`: after all that the host knows to be done.
Stamp launch(c10::Stream stream);

/// Whether `stamp` is done before what its stream launched last begins.
bool is_before(Stamp stamp, uint32_t line);

/// What an event recorded on `stream` now stands for.
Clock reached(c10::Stream stream);
/// All streams of a device.
Clock reached(c10::DeviceIndex device);

void stream_waits(c10::Stream stream, const Clock& clock);

/// The host, which is one for all its threads, knows that this is done. What was to arrive on the
/// host by then arrives.
void host_waits(const Clock& clock);
bool host_knows(Stamp stamp);
bool host_knows(const Clock& clock);

}  // namespace convoy::fake_gpu
