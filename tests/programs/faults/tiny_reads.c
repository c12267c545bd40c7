// A file is read one byte at a time; mended, in blocks of 64 KiB.
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char** argv) {
  static char text[65536];
  size_t piece = argc > 1 && argv[1][0] == 'm' ? sizeof text : 1;
  int file = open("bytes.txt", O_CREAT | O_TRUNC | O_RDWR, 0644);
  for (int i = 0; i < 4; i++) {
    if (write(file, text, sizeof text) < 0) return 1;
  }
  lseek(file, 0, SEEK_SET);
  while (read(file, text, piece) > 0) {  // FAULT
  }
  return close(file);
}
