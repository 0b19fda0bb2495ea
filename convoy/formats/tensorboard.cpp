#include "convoy/formats/tensorboard.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/protobuf.h"

namespace convoy::formats {

namespace {

// Field numbers of event.proto (Event) and summary.proto (Summary, Summary.Value).
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLogField { kStatus = 1 };
constexpr uint64_t kStart = 1;  // SessionLog.SessionStatus
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };

template <class T>
void put_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string new_event() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  protobuf::put_fixed(event, kWallTime, now.count());
  return event;
}

std::string event_of_step(int64_t step) {
  auto event = new_event();
  protobuf::put_key(event, kStep, protobuf::kVarint);
  protobuf::put_varint(event, static_cast<uint64_t>(step));
  return event;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < out.size(); ++i) {
      out[i] = i;
      for (int bit = 0; bit < 8; ++bit) out[i] = (out[i] >> 1) ^ (out[i] & 1 ? 0x82f63b78u : 0);
    }
    return out;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder) {
  make_folder(folder);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  static std::atomic<int64_t> written{0};  // several trainings of a process may share a folder
  path_ = folder /
          fmt::format("events.out.tfevents.{}.{}.{}.{}", seconds, host_name(), getpid(), written++);
  out_.emplace(path_, /*keep=*/false);
  auto event = new_event();
  protobuf::put_bytes(event, kFileVersion, "brain.Event:2");
  if (const auto trouble = write_record(event); !trouble.empty()) {
    fail<FileError>("formats", "{}", trouble);
  }
}

std::string TensorboardWriter::add_scalars(const std::map<std::string, double>& values,
                                           int64_t step) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    protobuf::put_bytes(value, kTag, tag);
    protobuf::put_fixed(value, kSimpleValue, static_cast<float>(number));
    protobuf::put_bytes(summary, kValue, value);
  }
  auto event = event_of_step(step);
  protobuf::put_bytes(event, kSummary, summary);
  return write_record(event);
}

std::string TensorboardWriter::purge(int64_t step) {
  std::string session;
  protobuf::put_key(session, kStatus, protobuf::kVarint);
  protobuf::put_varint(session, kStart);
  auto event = event_of_step(step);
  protobuf::put_bytes(event, kSessionLog, session);
  return write_record(event);
}

std::string TensorboardWriter::write_record(std::string_view event) {
  std::string record;
  put_raw(record, static_cast<uint64_t>(event.size()));
  put_raw(record, masked_crc(record));
  record.append(event);
  put_raw(record, masked_crc(event));
  return out_->append(record);
}

}  // namespace convoy::formats
