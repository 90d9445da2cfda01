/* libwhet_msm: multi-scalar multiplication on BN254 G1, for C and for whatever speaks C.
 *
 * A point is 64 bytes: x, then y, 32 bytes each, little-endian; 64 zero bytes are infinity. A scalar is 32 bytes,
 * little-endian, any value. An engine is a number, not an address: one that was freed, or never was, is refused.
 *
 * Any function may be called from any thread, during any other call. Calls on one engine take turns, each with all of
 * its threads, or have a thread each where many come at once. Nothing is constant time: keep secrets that must not leak
 * out of it.
 */
#ifndef WHET_MSM_H
#define WHET_MSM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WHET_MSM_API __attribute__((visibility("default")))
#else
#define WHET_MSM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum whet_msm_status {
    WHET_MSM_OK = 0,
    WHET_MSM_BAD_INPUT = 1,     /* an argument, a point or a length; the text says which */
    WHET_MSM_BAD_FILE = 2,      /* a file that is not there, or not what it should be */
    WHET_MSM_UNSUPPORTED = 3,   /* a backend that this CPU or build does not have */
    WHET_MSM_OUT_OF_MEMORY = 4, /* of this machine, or of the engine's budget */
    WHET_MSM_CANCELLED = 5,     /* by the progress function or by whet_msm_cancel */
    WHET_MSM_INTERNAL = 6       /* a fault of the library: please report the text */
} whet_msm_status;

/* How points are given. */
enum {
    WHET_MSM_CANONICAL = 0,
    WHET_MSM_MONTGOMERY = 1, /* both coordinates times 2^256 mod p */
    WHET_MSM_UNCHECKED = 2   /* add: points known to be on the curve; coordinates are still compared with p */
};

typedef uint64_t whet_msm_engine;

/* Called now and then by a running call, from the thread that made it, with the share that is done. Not 0 cancels. */
typedef int (*whet_msm_progress)(double done, void* user);

/* Major version times 1000 plus minor. Within a major version nothing is taken away. */
WHET_MSM_API uint32_t whet_msm_version(void);
/* What went wrong in this thread's last call that did not return WHET_MSM_OK, and what to do about it. Never NULL;
 * valid until this thread's next call. */
WHET_MSM_API const char* whet_msm_error(void);
/* Names of the backends that this CPU can run, the fastest first; NULL beyond the last. */
WHET_MSM_API const char* whet_msm_backend(size_t index);

/* A new engine. `backend`: a name, or NULL for the fastest. `threads`: 0 for one per core. */
WHET_MSM_API whet_msm_status whet_msm_new(const char* backend, unsigned threads, whet_msm_engine* engine);
/* From now on the engine is refused. Calls that have begun answer first; this does not wait for them. 0 is ignored. */
WHET_MSM_API void whet_msm_free(whet_msm_engine engine);

/* Memory for time: from the next whet_msm_prepare on, up to `most` (1 to 16, at first 1) multiples of each point are
 * kept, 64 bytes each, as many as are worth it for their number. Since version 1001. A file that is loaded has its own.
 */
WHET_MSM_API whet_msm_status whet_msm_set_precompute(whet_msm_engine engine, unsigned most);

/* Reads, checks and keeps n points in place of earlier ones, which calls that have begun still use. After a failure the
 * earlier ones are still there. The array is not needed afterwards. */
WHET_MSM_API whet_msm_status whet_msm_prepare(whet_msm_engine engine, const uint8_t* points, size_t n, unsigned how);
/* Prepared points in a file; loading maps it and checks every byte against the checksum in it. */
WHET_MSM_API whet_msm_status whet_msm_save(whet_msm_engine engine, const char* path);
WHET_MSM_API whet_msm_status whet_msm_load(whet_msm_engine engine, const char* path);
/* How many points are prepared; 0 for an engine that is refused. */
WHET_MSM_API size_t whet_msm_size(whet_msm_engine engine);
/* What the engine may allocate in all, in bytes; 0 for no limit. */
WHET_MSM_API whet_msm_status whet_msm_set_budget(whet_msm_engine engine, size_t bytes);

/* The sum of scalars[i] * points[offset + i] over n scalars, as 64 bytes. `progress` may be NULL. Scalars
 * that change during the call get it refused, or some other point. */
WHET_MSM_API whet_msm_status whet_msm_run(whet_msm_engine engine, const uint8_t* scalars, size_t n, size_t offset,
                                          whet_msm_progress progress, void* user, uint8_t sum[64]);
/* Ends the calls of this engine that are under way, with WHET_MSM_CANCELLED. */
WHET_MSM_API whet_msm_status whet_msm_cancel(whet_msm_engine engine);

#ifdef __cplusplus
}
#endif

#endif /* WHET_MSM_H */
