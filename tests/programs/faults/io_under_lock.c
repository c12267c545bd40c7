// Four threads share a journal. Each record is written and synced while the lock of the journal is held; mended, after it.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static int journal, records, mended;
static void save(int bytes) {
  static const char text[4096] = "record";
  for (int done = 0; done < bytes; done += 4096) {
    if (write(journal, text, 4096) < 0) _exit(1);
  }
  fsync(journal);
}
static void* work(void* unused) {
  for (int i = 0; i < 30; i++) {
    pthread_mutex_lock(&journal_lock);  // FAULT
    records++;
    if (!mended) save(65536);
    pthread_mutex_unlock(&journal_lock);
  }
  return unused;
}
int main(int argc, char** argv) {
  mended = argc > 1 && argv[1][0] == 'm';
  journal = open("journal.log", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  if (mended) save(120 * 65536);
  return 0;
}
