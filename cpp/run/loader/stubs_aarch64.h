// run/loader/stubs_aarch64.h: what real.cpp needs of the instructions of arm64. The linker itself may change x16 and x17 between a call and
// the function.
#pragma once

// Jumps to the function that `pointer` leads to.
#define PFS_RUN_JUMP(pointer) "adrp x16, " pointer "\nldr x16, [x16, #:lo12:" pointer "]\nbr x16"
// Does so when all functions have been found.
#define PFS_RUN_FIRST(pointer) "adrp x17, " pointer "\nadd x17, x17, #:lo12:" pointer "\nb pfs_run_first"
// Jumps to a function of this library.
#define PFS_RUN_GO(function) "b " function

// Saves the registers of the arguments, finds all functions and jumps to the one that x17 points to.
asm(R"(
.pushsection .text.startup.pfs,"ax"
.type pfs_run_first, %function
pfs_run_first:
  stp x29, x30, [sp, #-16]!
  mov x29, sp
  stp x0, x1, [sp, #-16]!
  stp x2, x3, [sp, #-16]!
  stp x4, x5, [sp, #-16]!
  stp x6, x7, [sp, #-16]!
  stp x8, x17, [sp, #-16]!
  stp q0, q1, [sp, #-32]!
  stp q2, q3, [sp, #-32]!
  stp q4, q5, [sp, #-32]!
  stp q6, q7, [sp, #-32]!
  bl pfs_run_find_all
  ldp q6, q7, [sp], #32
  ldp q4, q5, [sp], #32
  ldp q2, q3, [sp], #32
  ldp q0, q1, [sp], #32
  ldp x8, x17, [sp], #16
  ldp x6, x7, [sp], #16
  ldp x4, x5, [sp], #16
  ldp x2, x3, [sp], #16
  ldp x0, x1, [sp], #16
  ldp x29, x30, [sp], #16
  ldr x16, [x17]
  br x16
.popsection
)");
