"""Counts the instructions that ``pfs run`` adds to a call that waits: by callgrind, between 1,000 and 2,000 calls that end at once.

    python -m lab.wait_price
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from pfs._process.run.launch import environment

CALLS = {
    "usleep": "usleep(0)",
    "waitpid": "waitpid(-1, 0, 0)",
    "sigtimedwait": "sigtimedwait(&set, 0, &soon)",
    "semop": "semop(sem, &up, 1), semop(sem, &down, 1)",
    "mq_receive": "mq_receive(queue, text, 8, 0)",
    "aio_suspend": "aio_suspend(list, 1, &soon)",
    "msync": "msync(page, 4096, MS_SYNC)",
    "flock": "flock(file, LOCK_SH)",
    "eventfd: write, read": "write(event, &one, 8), read(event, &one, 8)",
    "getaddrinfo": 'freeaddrinfo((getaddrinfo("127.0.0.1", "80", &hints, &found), found))',
    "futex by syscall": "syscall(SYS_futex, &word, 0, 1, 0, 0, 0)",
    "GOMP_barrier of one": "GOMP_barrier()",
}
SOURCE = """
#define _GNU_SOURCE
#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
void GOMP_barrier(void);
int main(int argc, char** argv) {
  sigset_t set;
  sigfillset(&set);
  const struct timespec soon = {0, 1};
  struct sembuf up = {0, 1, 0}, down = {0, -1, 0};
  struct mq_attr size = {0, 1, 8, 0};
  struct aiocb none = {0};
  const struct aiocb* const list[] = {&none};
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = 0;
  const int sem = semget(IPC_PRIVATE, 1, 0600), event = eventfd(0, 0), file = open(argv[0], O_RDONLY);
  const mqd_t queue = mq_open("/pfs-price", O_RDWR | O_CREAT | O_NONBLOCK, 0600, &size);
  mq_unlink("/pfs-price");
  char text[8];
  long one = 1;
  int word = 0;
  void* const page = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
  for (int i = atoi(argv[1]); i > 0; --i) switch (atoi(argv[2])) {
CASES
  }
  return semctl(sem, 0, IPC_RMID);
}
"""


def instructions(command: list[str], env: dict[str, str]) -> int:
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], env=env, capture_output=True, text=True, check=True
    )
    (collected,) = re.findall(r"Collected : (\d+)", done.stderr)
    return int(collected)


def main() -> None:
    print("| call | instructions, plain | more with `pfs run` |\n| --- | --: | --: |")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        program, source = f"{folder}/waits", Path(folder, "waits.c")
        cases = "\n".join(f"case {number}: {call}; break;" for number, call in enumerate(CALLS.values()))
        source.write_text(SOURCE.replace("CASES", cases))
        subprocess.run(["cc", "-O2", "-w", "-o", program, source, "-fopenmp"], check=True)
        given = environment(folder)
        for number, name in enumerate(CALLS):
            counts = []
            for env in (dict(os.environ), os.environ | given):
                once, twice = (instructions([program, str(calls), str(number)], env) for calls in (1000, 2000))
                counts.append((twice - once) / 1000)
            print(f"| {name} | {counts[0]:,.0f} | {counts[1] - counts[0]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
