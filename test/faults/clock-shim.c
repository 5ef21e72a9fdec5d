/* Shifts the wall clock of one process: LD_PRELOAD, SHIFTED_CLOCK_FILE=FILE with one struct shift.
 * And fills its disk: write() to a regular file fails with ENOSPC while disk_full is set.
 * now = real + offset + (real - since) * rate / 10^6, in microseconds. The monotonic clocks stay as they are. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift { volatile int64_t offset_us, rate_ppm, since_us, disk_full; };
static struct shift none, *shift;

static void find_shift(void) {
  if (shift) return;
  const char *path = getenv("SHIFTED_CLOCK_FILE");
  int file = path ? open(path, O_RDONLY) : -1;
  void *map = file < 0 ? MAP_FAILED : mmap(0, sizeof none, PROT_READ, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  shift = map == MAP_FAILED ? &none : map;
}

static int64_t now_us(void) {
  struct timespec real;
  find_shift();
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
  int64_t us = (int64_t)real.tv_sec * 1000000 + real.tv_nsec / 1000;
  return us + shift->offset_us + (shift->rate_ppm ? (us - shift->since_us) * shift->rate_ppm / 1000000 : 0);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, id, at);
  int64_t us = now_us();
  at->tv_sec = us / 1000000;
  at->tv_nsec = us % 1000000 * 1000;
  return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  int64_t us = now_us();
  (void)zone;
  at->tv_sec = us / 1000000;
  at->tv_usec = us % 1000000;
  return 0;
}

time_t time(time_t *at) {
  time_t seconds = now_us() / 1000000;
  if (at) *at = seconds;
  return seconds;
}

ssize_t write(int file, const void *bytes, size_t count) {
  struct stat about;
  find_shift();
  if (shift->disk_full && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_write, file, bytes, count);
}
