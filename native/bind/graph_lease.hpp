// The interpreter lock as Python bodies take it: a thread that runs several in a row takes it once, and a worker thread
// is made known to the interpreter once in its life.
#pragma once

#include <nanobind/nanobind.h>

namespace whet::bind {

class Lease {
  public:
    // Has the lock afterwards. May be unwound while the interpreter ends, see hold_at_exit.
    static void take();
    // Gives back what the last take() took, if it took anything.
    static void give();
    // The same if that was long ago: a body that is native itself lets nobody in between.
    static void give_after_long();
};

}  // namespace whet::bind
