/* Stand-in for HAMi-core (libvgpu.so): preloaded into a container's processes, it keeps them inside their slice.
 *
 * It plays the behaviour recorded with HAMi-core 5091a2f: the limit of CUDA_DEVICE_MEMORY_LIMIT_<i>, the processes of
 * a container counted together in CUDA_DEVICE_MEMORY_SHARED_CACHE, and its exact lines on stderr. Like the real one it
 * needs libcuda.so.1, so that a container with the preload and without the driver cannot start a process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "ledger.h"

static struct ledger ledger;
static uint64_t limits[LEDGER_DEVICES];
static pid_t ready;
static int announced;

static int level(void) {
  const char *value = getenv("LIBCUDA_LOG_LEVEL");
  return value && *value ? atoi(value) : 2;
}

static unsigned long thread(void) { return (unsigned long)pthread_self(); }

static void say(const char *where, const char *text) {
  if (level() >= 2) fprintf(stderr, "[HAMI-core Msg(%d:%lu:%s)]: %s\n", getpid(), thread(), where, text);
}

static uint64_t amount(const char *text) {
  char *unit = NULL;
  uint64_t number = text ? strtoull(text, &unit, 10) : 0;
  switch (unit ? *unit : 0) {
    case 'g': case 'G': return number << 30;
    case 'm': case 'M': return number << 20;
    case 'k': case 'K': return number << 10;
    default: return number;
  }
}

static void prepare(void) {
  if (ready == getpid()) return;
  const char *cache = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
  if (ledger_open(&ledger, cache && *cache ? cache : "/tmp/cudevshr.cache") != 0) {
    fprintf(stderr, "[HAMI-core ERROR (pid:%d thread=%lu multiprocess_memory_limit.c:811)]: Fail to open shrreg %s\n", getpid(),
            thread(), cache ? cache : "/tmp/cudevshr.cache");
    exit(1);
  }
  ledger_lock(&ledger);
  ledger_header(&ledger, limits, 0);
  int known = 0;
  for (int i = 0; i < LEDGER_DEVICES; i++) known |= limits[i] != 0;
  if (!known) { /* the first process of the container decides, later ones read what it wrote */
    for (int i = 0; i < LEDGER_DEVICES; i++) {
      char variable[64];
      snprintf(variable, sizeof variable, "CUDA_DEVICE_MEMORY_LIMIT_%d", i);
      const char *value = getenv(variable);
      limits[i] = amount(value ? value : getenv("CUDA_DEVICE_MEMORY_LIMIT"));
    }
    ledger_header(&ledger, limits, 1);
  }
  ledger_unlock(&ledger);
  ready = getpid();
}

/* `cuda`: cuInit (prints both lines, once); otherwise NVML, which prints the first alone. */
void hami_core_init(int cuda) {
  if (announced == getpid()) return;
  announced = getpid();
  say("libvgpu.c:871", "Initializing.....");
  prepare();
  if (cuda) say("libvgpu.c:911", "Initialized");
}

/* 0 when `bytes` more fit into the slice of `device`, else CUDA's out of memory (2). */
int hami_core_check(int device, uint64_t bytes) {
  prepare();
  if (!limits[device] || fault("limit-not-enforced")) return 0; /* the slice is reported, and nothing is refused */
  ledger_lock(&ledger);
  uint64_t wanted = ledger_sum(&ledger, device) + bytes;
  ledger_unlock(&ledger);
  if (wanted <= limits[device]) return 0;
  fprintf(stderr, "[HAMI-core ERROR (pid:%d thread=%lu allocator.c:52)]: Device %d OOM %llu / %llu\n", getpid(), thread(), device,
          (unsigned long long)wanted, (unsigned long long)limits[device]);
  return 2;
}

void hami_core_charge(int device, int64_t bytes) {
  prepare();
  ledger_lock(&ledger);
  ledger_add(&ledger, device, bytes);
  ledger_unlock(&ledger);
}

/* 1 with the slice's size and use, 0 when this device has no limit. */
int hami_core_memory(int device, uint64_t *limit, uint64_t *used) {
  prepare();
  if (!limits[device]) return 0;
  ledger_lock(&ledger);
  *used = ledger_sum(&ledger, device);
  ledger_unlock(&ledger);
  *limit = limits[device];
  return 1;
}

__attribute__((destructor)) static void leave(void) {
  char text[64];
  if (announced != getpid()) return;
  snprintf(text, sizeof text, "Cleanup on exit for PID %d", getpid());
  say("multiprocess_memory_limit.c:700", text);
  snprintf(text, sizeof text, "Exit cleanup complete for PID %d", getpid());
  say("multiprocess_memory_limit.c:736", text);
}
