#pragma once

namespace convoy::fake_gpu {

/// Notes the place of the program that asks for `action` ("record", "block", "synchronize_event",
/// "set_device", "set_stream", "work_wait", ...): its innermost function that is no template of
/// torch's. False where torch's own code asks. True when the options name the place: the call is to
/// do nothing then. They name it as the list of sites does, "block
/// convoy::comm::Arrivals::bring+0x1ad", or all of a function, without the offset, which another
/// build has elsewhere.
bool ignored_here(const char* action);

}  // namespace convoy::fake_gpu
