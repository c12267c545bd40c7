// Tells whoever joins it that the memory for the library is another of its open files: FILE, which it may only read.
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { kDescriptor = 7 };  // word of the Mail of cpp/bindings/call_in_process.cpp
static const uint64_t kMagic = 0x6a6f696e2d706673;

static volatile uint64_t* FindMail(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[4096], name[4096];
  uint64_t begin, end, last = 0;
  volatile uint64_t* found = NULL;
  while (found == NULL && fgets(line, sizeof line, maps) != NULL) {
    name[0] = 0;
    if (sscanf(line, "%lx-%lx rw-p %*s %*s %*s %4095s", &begin, &end, name) < 2 || strstr(line, "rw-p") == NULL) continue;
    const int is_of_object = name[0] == '/' || begin == last;
    last = name[0] == '/' ? end : 0;
    for (uint64_t at = begin; is_of_object && found == NULL && at < end; at += 16) {
      if (*(volatile uint64_t*)at == kMagic) found = (volatile uint64_t*)at;
    }
  }
  fclose(maps);
  return found;
}

static void* Wait(void* unused) {
  for (;;) sleep(1);
  return unused;
}

int main(int count, char** arguments) {
  const int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;
  pthread_t thread;
  if (file < 0 || pthread_create(&thread, NULL, Wait, NULL) != 0) return 1;
  if (nice(-20) == -1) fputs("the joiner may be faster\n", stderr);
  puts("ready");
  fflush(stdout);
  volatile uint64_t* mail = NULL;
  while (mail == NULL) mail = FindMail();
  for (;;) mail[kDescriptor] = (uint64_t)file;
}
