/* Stand-in for libnvidia-ml.so.1: the part that nvidia-smi's stand-in and small tools ask. */
#include <stdio.h>
#include <string.h>

#include "cards.h"
#include "faults.h"

typedef int nvmlReturn;
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9 };

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };

static struct card *cards;
static int count = -1;

nvmlReturn nvmlInit_v2(void) {
  void (*init)(int) = (void (*)(int))hami_core("hami_core_init");
  count = cards_load(&cards);
  if (!count) return NOT_LOADED;
  if (init) init(0);
  return SUCCESS;
}
nvmlReturn nvmlInit(void) { return nvmlInit_v2(); }
nvmlReturn nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(nvmlReturn code) {
  switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case NOT_FOUND: return "Not Found";
    case SMALL: return "Insufficient Size";
    case NOT_LOADED: return "Driver Not Loaded";
    default: return "Unknown Error";
  }
}
nvmlReturn nvmlDeviceGetCount_v2(unsigned *n) { return count < 0 ? UNINITIALIZED : (*n = (unsigned)count, SUCCESS); }
nvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **card) {
  if (count < 0) return UNINITIALIZED;
  return index < (unsigned)count ? (*card = &cards[index], SUCCESS) : INVALID;
}
nvmlReturn nvmlDeviceGetHandleByUUID(const char *uuid, struct card **card) {
  for (int i = 0; i < count; i++)
    if (strcmp(cards[i].uuid, uuid) == 0) return *card = &cards[i], SUCCESS;
  return count < 0 ? UNINITIALIZED : NOT_FOUND;
}
static nvmlReturn text(char *out, unsigned size, const char *value) {
  return snprintf(out, size, "%s", value) < (int)size ? SUCCESS : SMALL;
}
nvmlReturn nvmlSystemGetDriverVersion(char *out, unsigned size) {
  return count > 0 ? text(out, size, cards[0].driver) : UNINITIALIZED;
}
nvmlReturn nvmlDeviceGetName(struct card *card, char *out, unsigned size) { return text(out, size, card->name); }
nvmlReturn nvmlDeviceGetUUID(struct card *card, char *out, unsigned size) { return text(out, size, card->uuid); }
nvmlReturn nvmlDeviceGetIndex(struct card *card, unsigned *index) { return *index = (unsigned)(card - cards), SUCCESS; }

nvmlReturn nvmlDeviceGetMemoryInfo_v2(struct card *card, struct memory_v2 *out) {
  uint64_t limit = 0, used = 0;
  int (*hami)(int, uint64_t *, uint64_t *) = (int (*)(int, uint64_t *, uint64_t *))hami_core("hami_core_memory");
  if (hami && !fault("slice-not-shown") && hami((int)(card - cards), &limit, &used)) {
    out->total = limit, out->used = used, out->free = limit > used ? limit - used : 0, out->reserved = 0;
    return SUCCESS;
  }
  ledger_lock(&card->ledger);
  out->used = ledger_sum(&card->ledger, 0);
  ledger_unlock(&card->ledger);
  out->total = card->memory, out->reserved = card->reserved, out->free = card->memory - card->reserved - out->used;
  return SUCCESS;
}
nvmlReturn nvmlDeviceGetMemoryInfo(struct card *card, struct memory *out) {
  struct memory_v2 all = {0};
  nvmlReturn rc = nvmlDeviceGetMemoryInfo_v2(card, &all);
  out->total = all.total, out->free = all.free, out->used = all.used;
  return rc;
}

struct collection { struct process *out; unsigned room, found; };
static void collect(void *data, int pid, const char *name, uint64_t bytes) {
  struct collection *all = data;
  (void)name;
  if (!pid) return; /* in another pid namespace: invisible, as with the real driver */
  if (all->found < all->room && all->out) all->out[all->found] = (struct process){(unsigned)pid, bytes, ~0U, ~0U};
  all->found++;
}
nvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(struct card *card, unsigned *n, struct process *out) {
  struct collection all = {out, *n, 0};
  ledger_lock(&card->ledger);
  ledger_each(&card->ledger, 0, collect, &all);
  ledger_unlock(&card->ledger);
  *n = all.found;
  return all.found > all.room ? SMALL : SUCCESS;
}
