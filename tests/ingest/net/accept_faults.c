/* LD_PRELOAD for a test: the first accepts of a process fail, one with each number of ACCEPT_ERRNOS
 * (commas between them), and take nobody from the queue; all later ones are the system's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

static const char *left;

static int failing(void) {
  if (!left && !(left = getenv("ACCEPT_ERRNOS"))) left = "";
  if (!*left) return 0;
  char *end;
  errno = (int)strtol(left, &end, 10);
  left = *end ? end + 1 : end;
  return 1;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *size, int flags) {
  static int (*real)(int, struct sockaddr *, socklen_t *, int);
  if (!real) real = dlsym(RTLD_NEXT, "accept4");
  return failing() ? -1 : real(fd, addr, size, flags);
}

int accept(int fd, struct sockaddr *addr, socklen_t *size) { return accept4(fd, addr, size, 0); }
