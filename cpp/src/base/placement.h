// base/placement.h: what every process runs and stores to lies together.
//
// Under `pfs run` each program that a shell starts pays for the start of the library, and each fork for the child's handlers. The first
// instruction of a range of 64 KiB of code costs a page fault, and so does the first store to a page: some microseconds each.
#pragma once

// Marks a function that every process runs at its start, or every child after fork().
#define PFS_IN_EVERY_PROCESS __attribute__((section(".text.startup.pfs")))
// Marks a variable that every process sets then. It lies with those that the dynamic linker relocates, and not among the zeros.
#define PFS_SET_IN_EVERY_PROCESS __attribute__((section(".data.pfs")))
