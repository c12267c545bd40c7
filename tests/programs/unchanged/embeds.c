/* Loads CPython when it already runs, and runs a script in it: embeds LIBRARY SCRIPT. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (library == NULL) return 2;
  void (*initialize)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
  int (*run)(const char*) = (int (*)(const char*))dlsym(library, "PyRun_SimpleString");
  int (*finalize)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
  if (initialize == NULL || run == NULL || finalize == NULL) return 2;
  initialize();
  const int failed = run(argv[2]) != 0;
  return finalize() != 0 || failed; /* it writes what has been printed */
}
