// run/stubs_aarch64.h: the symbols of each replaced function on arm64 (real.cpp). A tail call by x16 or x17 keeps all arguments: the linker
// itself may change these two registers between a call and the function.
#pragma once

#define PFS_RUN_JUMPS(name)                            \
  asm(".pushsection .text.pfs_real,\"ax\"\n"           \
      ".globl __wrap_" #name                           \
      "\n"                                             \
      ".hidden __wrap_" #name                          \
      "\n"                                             \
      ".type __wrap_" #name                            \
      ", %function\n"                                  \
      "__wrap_" #name ": adrp x16, pfs_real_" #name    \
      "\n"                                             \
      "ldr x16, [x16, #:lo12:pfs_real_" #name          \
      "]\n"                                            \
      "br x16\n"                                       \
      ".globl pfs_first_" #name                        \
      "\n"                                             \
      ".hidden pfs_first_" #name                       \
      "\n"                                             \
      ".type pfs_first_" #name                         \
      ", %function\n"                                  \
      "pfs_first_" #name ": adrp x17, pfs_real_" #name \
      "\n"                                             \
      "add x17, x17, #:lo12:pfs_real_" #name           \
      "\n"                                             \
      "b pfs_run_first\n"                              \
      ".popsection\n");

// Saves the registers of the arguments, finds all functions and jumps to the one that x17 points to.
asm(R"(
.pushsection .text.pfs_real,"ax"
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
