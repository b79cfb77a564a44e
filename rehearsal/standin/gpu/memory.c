#include "faults.h"
#include "memory.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>

struct piece {
  uint64_t handle, bytes;
  struct card *card;
  int device, counted;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static void *pieces;
static uint64_t next_handle = 0x7f0000000000ULL;
static pid_t context_owner[LEDGER_DEVICES];

static int by_handle(const void *left, const void *right) {
  uint64_t a = ((const struct piece *)left)->handle, b = ((const struct piece *)right)->handle;
  return a < b ? -1 : a > b;
}

static void hami_charge(int device, int64_t bytes) {
  void (*charge)(int, int64_t) = (void (*)(int, int64_t))hami_core("hami_core_charge");
  if (charge) charge(device, bytes);
}

/* The card itself refuses what does not fit, whoever holds the rest. */
static int card_take(struct card *card, uint64_t bytes) {
  int rc = 2;
  ledger_lock(&card->ledger);
  if (ledger_sum(&card->ledger, 0) + bytes <= card_capacity(card)) {
    ledger_add(&card->ledger, 0, (int64_t)bytes);
    rc = 0;
  }
  ledger_unlock(&card->ledger);
  return rc;
}

static void add_up(void *data, int pid, const char *name, uint64_t bytes) {
  (void)name;
  if (pid != getpid()) *(uint64_t *)data += bytes;
}

int memory_context(struct card *card, int device) {
  if (context_owner[device] == getpid()) return 0;
  if (card_take(card, card->context) != 0) return 2;
  context_owner[device] = getpid();
  hami_charge(device, (int64_t)card->context);
  return 0;
}

/* Broken on purpose: what other pods hold of the card is counted against this one's slice. */
static uint64_t strangers(struct card *card) {
  uint64_t sum = 0;
  if (!fault("neighbour-harmed")) return 0;
  ledger_lock(&card->ledger);
  ledger_each(&card->ledger, 0, add_up, &sum);
  ledger_unlock(&card->ledger);
  return sum;
}

int memory_take(struct card *card, int device, uint64_t bytes, enum route route, uint64_t *handle) {
  if (!bytes || !handle) return 1;
  int (*check)(int, uint64_t) = (int (*)(int, uint64_t))hami_core("hami_core_check");
  if (route != UNCOUNTED && check && check(device, bytes + strangers(card)) != 0) return route == COUNTED_ASYNC ? -1 : 2;
  if (card_take(card, bytes) != 0) return 2;
  if (route != UNCOUNTED) hami_charge(device, (int64_t)bytes);
  struct piece *piece = malloc(sizeof *piece);
  if (!piece) return 2;
  pthread_mutex_lock(&guard);
  *piece = (struct piece){next_handle, bytes, card, device, route != UNCOUNTED};
  next_handle += (bytes + 0xffff) & ~0xffffULL;
  tsearch(piece, &pieces, by_handle);
  pthread_mutex_unlock(&guard);
  *handle = piece->handle;
  return 0;
}

int memory_give(uint64_t handle) {
  struct piece key = {.handle = handle}, *piece = NULL;
  pthread_mutex_lock(&guard);
  void *node = tfind(&key, &pieces, by_handle);
  if (node) {
    piece = *(struct piece **)node;
    tdelete(&key, &pieces, by_handle);
  }
  pthread_mutex_unlock(&guard);
  if (!piece) return 1;
  ledger_lock(&piece->card->ledger);
  ledger_add(&piece->card->ledger, 0, -(int64_t)piece->bytes);
  ledger_unlock(&piece->card->ledger);
  if (piece->counted) hami_charge(piece->device, -(int64_t)piece->bytes);
  free(piece);
  return 0;
}

void memory_info(struct card *card, int device, uint64_t *free_bytes, uint64_t *total) {
  uint64_t used = 0, room;
  ledger_lock(&card->ledger);
  room = card_capacity(card) - ledger_sum(&card->ledger, 0);
  ledger_unlock(&card->ledger);
  int (*memory)(int, uint64_t *, uint64_t *) = (int (*)(int, uint64_t *, uint64_t *))hami_core("hami_core_memory");
  if (memory && memory(device, total, &used)) {
    *free_bytes = *total > used ? *total - used : 0;
    return;
  }
  *total = card_capacity(card);
  *free_bytes = room;
}
