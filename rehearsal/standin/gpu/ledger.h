/* Who holds how much of a card: one file a card (or a container), one slot a process.
 *
 * A slot lives exactly as long as the POSIX record lock its process holds on it, so an entry of a process that was
 * killed counts no more, and it works from any pid namespace: F_GETLK also translates the holder's pid. */
#ifndef REHEARSAL_LEDGER_H
#define REHEARSAL_LEDGER_H

#include <stdint.h>
#include <sys/types.h>

#define LEDGER_DEVICES 16
#define LEDGER_SLOTS 512

struct ledger_entry {
  int32_t pid;
  char name[124];
  uint64_t bytes[LEDGER_DEVICES];
};

struct ledger {
  int fd, slot;
  pid_t owner; /* a forked child does not own its parent's slot */
};

/* 0, or -1 when the file cannot be used. The file is made when it is not there. */
int ledger_open(struct ledger *ledger, const char *path);
void ledger_lock(struct ledger *ledger);
void ledger_unlock(struct ledger *ledger);
/* With the lock held. `each` sees every living holder; its pid is 0 when it is not visible from here. */
uint64_t ledger_sum(struct ledger *ledger, int device);
void ledger_each(struct ledger *ledger, int device, void (*each)(void *, int, const char *, uint64_t), void *data);
void ledger_add(struct ledger *ledger, int device, int64_t bytes);
/* The file's header, LEDGER_DEVICES numbers for whoever opens the file first (HAMi-core keeps its limits there). */
void ledger_header(struct ledger *ledger, uint64_t numbers[LEDGER_DEVICES], int write_them);

#endif
