// Each line of a log is appended to a file that is opened for it; mended, the file stays open.
#include <stdio.h>
int main(int argc, char** argv) {
  (void)argv;
  FILE* kept = argc > 1 ? fopen("lines.log", "w") : NULL;
  for (int i = 0; i < 4000; i++) {
    FILE* log = kept != NULL ? kept : fopen("lines.log", "a");  // FAULT
    if (log == NULL) return 1;
    fprintf(log, "line %d\n", i);
    if (kept == NULL) fclose(log);
  }
  return kept != NULL && fclose(kept) != 0;
}
