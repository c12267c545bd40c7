// run/loader/stubs_x86_64.h: what real.cpp needs of the instructions of x86-64. %r11 is free between a call and the function.
#pragma once

// Jumps to the function that `pointer` leads to.
#define PFS_RUN_JUMP(pointer) "jmp *" pointer "(%rip)"
// Does so when all functions have been found.
#define PFS_RUN_FIRST(pointer) "lea " pointer "(%rip), %r11\njmp pfs_run_first"
// Jumps to a function of this library.
#define PFS_RUN_GO(function) "jmp " function

// Saves the registers of the arguments, finds all functions and jumps to the one that %r11 points to.
asm(R"(
.pushsection .text.startup.pfs,"ax"
.type pfs_run_first, @function
pfs_run_first:
  push %rbp
  mov %rsp, %rbp
  push %rax
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %r11
  sub $128, %rsp
  and $-16, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  call pfs_run_find_all
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  lea -64(%rbp), %rsp
  pop %r11
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rax
  pop %rbp
  jmp *(%r11)
.popsection
)");
