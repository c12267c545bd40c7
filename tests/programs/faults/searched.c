// 300 files are sought in 60 folders, of which the last has them; mended, in that one.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm', found = 0;
  char name[64];
  for (int folder = 0; folder < 60; folder++) {
    snprintf(name, sizeof name, "folder%d", folder);
    mkdir(name, 0755);
  }
  for (int file = 0; file < 300; file++) {
    snprintf(name, sizeof name, "folder59/part%d.h", file);
    close(open(name, O_CREAT | O_WRONLY, 0644));
    for (int folder = mended ? 59 : 0; folder < 60; folder++) {
      snprintf(name, sizeof name, "folder%d/part%d.h", folder, file);
      int descriptor = open(name, O_RDONLY);  // FAULT
      if (descriptor < 0) continue;
      found++;
      close(descriptor);
    }
  }
  return found != 300;
}
