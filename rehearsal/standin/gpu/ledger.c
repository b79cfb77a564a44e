#include "ledger.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER 256
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

static off_t at(int slot) { return HEADER + (off_t)slot * (off_t)sizeof(struct ledger_entry); }

static int record(int fd, int command, short type, off_t start, struct flock *out) {
  struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
  int rc = fcntl(fd, command, &lock);
  if (out) *out = lock;
  return rc;
}

/* The holder of a slot other than this process: 1 when there is one. */
static int held(struct ledger *ledger, int slot, int *pid) {
  struct flock lock;
  if (record(ledger->fd, F_GETLK, F_WRLCK, at(slot), &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  if (pid) *pid = lock.l_pid > 0 ? lock.l_pid : 0;
  return 1;
}

void ledger_lock(struct ledger *ledger) {
  pthread_mutex_lock(&threads);
  record(ledger->fd, F_SETLKW, F_WRLCK, 0, NULL);
}

void ledger_unlock(struct ledger *ledger) {
  record(ledger->fd, F_SETLK, F_UNLCK, 0, NULL);
  pthread_mutex_unlock(&threads);
}

int ledger_open(struct ledger *ledger, const char *path) {
  if (ledger->owner == getpid()) return 0;
  ledger->fd = open(path, O_RDWR | O_CLOEXEC);
  if (ledger->fd < 0) {
    ledger->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (ledger->fd < 0) return -1;
    fchmod(ledger->fd, 0666); /* whatever the umask: any user's processes count */
  }
  ledger->owner = getpid();
  ledger->slot = -1;
  return 0;
}

/* A reader needs no slot, so one is taken at the first allocation. */
static int own_slot(struct ledger *ledger) {
  if (ledger->slot >= 0) return 0;
  for (int slot = 0; slot < LEDGER_SLOTS; slot++) {
    if (held(ledger, slot, NULL) || record(ledger->fd, F_SETLK, F_WRLCK, at(slot), NULL) != 0) continue;
    struct ledger_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.pid = getpid();
    if (readlink("/proc/self/exe", entry.name, sizeof entry.name - 1) < 0) entry.name[0] = 0;
    if (pwrite(ledger->fd, &entry, sizeof entry, at(slot)) != sizeof entry) return -1;
    ledger->slot = slot;
    return 0;
  }
  return -1;
}

void ledger_each(struct ledger *ledger, int device, void (*each)(void *, int, const char *, uint64_t), void *data) {
  struct ledger_entry entry;
  for (int slot = 0; slot < LEDGER_SLOTS; slot++) {
    int pid = getpid();
    if (pread(ledger->fd, &entry, sizeof entry, at(slot)) != sizeof entry) break;
    if (entry.pid && entry.bytes[device] && (slot == ledger->slot || held(ledger, slot, &pid)))
      each(data, pid, entry.name, entry.bytes[device]);
  }
}

static void total(void *data, int pid, const char *name, uint64_t bytes) {
  (void)pid, (void)name;
  *(uint64_t *)data += bytes;
}

uint64_t ledger_sum(struct ledger *ledger, int device) {
  uint64_t sum = 0;
  ledger_each(ledger, device, total, &sum);
  return sum;
}

void ledger_add(struct ledger *ledger, int device, int64_t bytes) {
  struct ledger_entry entry;
  if (own_slot(ledger) != 0 || pread(ledger->fd, &entry, sizeof entry, at(ledger->slot)) != sizeof entry) return;
  entry.bytes[device] += (uint64_t)bytes;
  if (pwrite(ledger->fd, &entry, sizeof entry, at(ledger->slot)) != sizeof entry) return;
}

void ledger_header(struct ledger *ledger, uint64_t numbers[LEDGER_DEVICES], int write_them) {
  size_t size = LEDGER_DEVICES * sizeof *numbers;
  if (write_them ? pwrite(ledger->fd, numbers, size, 8) != (ssize_t)size : pread(ledger->fd, numbers, size, 8) != (ssize_t)size)
    memset(numbers, 0, size);
}
