#include "tests/fake_gpu/fibers.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace convoy::fake_gpu {

namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStack = 64 << 10;  // bytes

/// Meeting point of some fibers.
struct Barrier {
  unsigned members = 0, arrived = 0;
  uint64_t round = 0;

  void open_if_full() {
    if (arrived == 0 || arrived < members) return;
    arrived = 0;
    ++round;
  }
};

struct Warp {
  Barrier barrier;
  // Two by turns: whoever is a round ahead must not write over what others still read.
  std::array<std::array<unsigned long long, kWarp>, 2> values{};
};

struct Fiber {
  std::unique_ptr<char[]> stack;
#ifdef __x86_64__
  void* context = nullptr;
#else
  ucontext_t context;
#endif
  bool ended = false;
};

/// The block under way: one in the process.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barrier;
  const std::function<void(unsigned)>* body = nullptr;
  unsigned count = 0, left = 0;  // fibers; those that have not ended
  unsigned current = 0;
  unsigned in_vain = 0;  // turns since somebody got further
#ifdef __x86_64__
  void* starter = nullptr;
#else
  ucontext_t starter;
#endif
};

Block running;

}  // namespace

}  // namespace convoy::fake_gpu

#ifdef __x86_64__
// Keeps the registers that a function must, and the stack, in *from; goes on with those of `to`.
extern "C" void fake_gpu_switch(void** from, void* to);
asm(R"(
.text
.globl fake_gpu_switch
.hidden fake_gpu_switch
.type fake_gpu_switch, @function
fake_gpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fake_gpu_switch, .-fake_gpu_switch
)");
#endif

namespace convoy::fake_gpu {

namespace {

#ifdef __x86_64__
void swap(void*& from, void* to) {
  ::fake_gpu_switch(&from, to);
}
#else
void swap(ucontext_t& from, ucontext_t& to) {
  ::swapcontext(&from, &to);
}
#endif

/// Goes on with a fiber of [begin, end) that has not ended: the next one behind the current, else
/// the first; returns when it is the current one's turn again.
void take_turns(unsigned begin, unsigned end) {
  const unsigned from = running.current;
  unsigned to = from;
  do {
    to = to + 1 == end ? begin : to + 1;
  } while (running.fibers[to].ended && to != from);
  if (to == from) return;
  running.current = to;
  swap(running.fibers[from].context, running.fibers[to].context);
}

/// First and only function of each fiber's stack.
void begin() {
  const unsigned number = running.current;
  (*running.body)(number);
  running.fibers[number].ended = true;
  running.in_vain = 0;
  for (auto* barrier : {&running.barrier, &running.warps[number / kWarp].barrier}) {
    --barrier->members;
    barrier->open_if_full();
  }
  if (--running.left > 0) take_turns(0, running.count);
  swap(running.fibers[number].context, running.starter);
}

void prepare(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStack);
  fiber.ended = false;
#ifdef __x86_64__
  // As after a call of begin(): 16 bytes' alignment, less the address to return to.
  constexpr size_t kRegisters = 6;
  auto top = reinterpret_cast<uintptr_t>(fiber.stack.get() + kStack) / 16 * 16 - 16;
  auto* words = reinterpret_cast<void**>(top) - kRegisters;
  std::fill_n(words, kRegisters, nullptr);
  words[kRegisters] = reinterpret_cast<void*>(&begin);
  fiber.context = words;
#else
  ::getcontext(&fiber.context);
  fiber.context.uc_stack = {fiber.stack.get(), 0, kStack};
  ::makecontext(&fiber.context, &begin, 0);
#endif
}

/// Waits while the fibers of [begin, end) and others, if need be, take turns.
void wait_at(Barrier& barrier, unsigned begin, unsigned end) {
  const auto round = barrier.round;
  ++barrier.arrived;
  running.in_vain = 0;
  barrier.open_if_full();
  while (barrier.round == round) {
    const bool all_wait_here = running.in_vain > end - begin;
    all_wait_here ? take_turns(0, running.count) : take_turns(begin, end);
    if (barrier.round != round) break;
    if (++running.in_vain > 4 * running.count) {
      swap(running.fibers[running.current].context, running.starter);
    }
  }
  running.in_vain = 0;
}

}  // namespace

void run_fibers(unsigned count, const std::function<void(unsigned)>& body) {
  if (running.fibers.size() < count) running.fibers.resize(count);
  running.warps.assign((count + kWarp - 1) / kWarp, {});
  running.barrier = {.members = count};
  for (unsigned i = 0; i < count; ++i) {
    prepare(running.fibers[i]);
    ++running.warps[i / kWarp].barrier.members;
  }
  running.body = &body;
  running.count = running.left = count;
  running.current = running.in_vain = 0;
  swap(running.starter, running.fibers[0].context);
  TORCH_CHECK(running.left == 0,
              "fake_gpu: threads of a block wait for each other at different places");
}

unsigned current_fiber() {
  return running.current;
}

void wait_for_block() {
  wait_at(running.barrier, 0, running.count);
}

unsigned long long swap_in_warp(unsigned long long value, unsigned lane) {
  const unsigned number = running.current / kWarp, first = number * kWarp;
  auto& warp = running.warps[number];
  auto& values = warp.values[warp.barrier.round % 2];
  values[running.current - first] = value;
  wait_at(warp.barrier, first, std::min(first + kWarp, running.count));
  return values.at(lane);
}

}  // namespace convoy::fake_gpu
