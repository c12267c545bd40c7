// A file is written in pieces of 8 bytes; mended, of 64 KiB.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  static char text[65536];
  memset(text, 'x', sizeof text);
  size_t piece = argc > 1 && argv[1][0] == 'm' ? sizeof text : 8;
  int file = open("pieces.txt", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (size_t done = 0; done < 200000 * 8; done += piece) {
    if (write(file, text, piece) < 0) return 1;  // FAULT
  }
  return close(file);
}
