// run/loader/modules.h: leads the calls of a program that was there first.
#pragma once

namespace perfschema::run {

// Binds the calls of all objects of the program to the replacements, or back to where they led. What is loaded later is bound at the next
// dlsym(). REQUIRES: g_came_late. THREADS: any, but none that holds a lock which the dynamic linker or its callers may want.
void BindProgram(bool is_here);

}  // namespace perfschema::run
