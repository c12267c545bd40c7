/* What the files of the program share. See program.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

extern pfs_key_t key_lock, key_beside, key_file, key_socket, key_stage, key_statement, key_memory;

enum { FEW = 64 }; /* descriptors: a limit below */

void say(const char* format, ...); /* a line for the test to compare */

/* leaving.c: steps that a signal handler may leave with siglongjmp, and are then done again. */
void nest(long times);
void locks(long times), events(long times), send_bytes(long bytes), file(long bytes);
void with_jumps(void (*step)(long), long number);
void start_timer(long jumps);
void stop_timer(void);
extern int has_stray; /* a descriptor may be open that the text does not tell of */

/* beside.c: threads that go on working until the process ends. */
void start_beside(long count);
void await_beside(void);
void forget_beside(void); /* in a child */
