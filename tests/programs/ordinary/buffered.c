// A file is written and read in small pieces through buffers.
#include <stdio.h>
int main(void) {
  FILE* file = fopen("buffered.txt", "w+");
  for (int i = 0; i < 200000; i++) fprintf(file, "%d\n", i);
  rewind(file);
  int found = 0;
  for (char line[16]; fgets(line, sizeof line, file) != NULL;) found++;
  return fclose(file) != 0 || found != 200000;
}
