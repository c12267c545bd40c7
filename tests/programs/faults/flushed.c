// Each line of a log is flushed; mended, the stream writes when its buffer is full.
#include <stdio.h>
int main(int argc, char** argv) {
  const int mended = argc > 1 && argv[1][0] == 'm';
  FILE* log = fopen("lines.log", "w");
  for (int i = 0; i < 60000; i++) {
    fprintf(log, "%d\n", i);
    if (!mended) fflush(log);  // FAULT
  }
  return fclose(log);
}
