// WHET_SANITIZED: built with the address or the thread sanitizer, which follow neither forks nor switched stacks.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WHET_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WHET_SANITIZED 1
#endif
#endif
#ifndef WHET_SANITIZED
#define WHET_SANITIZED 0
#endif
