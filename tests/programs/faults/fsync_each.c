// Each record of a journal is synced; mended, all of them together.
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int mended = argc > 1 && argv[1][0] == 'm';
  int journal = open("records.log", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (int i = 0; i < 100; i++) {
    if (write(journal, "one record of the journal\n", 26) < 0) return 1;
    if (!mended) fsync(journal);  // FAULT
  }
  fsync(journal);
  return close(journal);
}
