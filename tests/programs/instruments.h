/* An instrument of each family, for programs that use all of them. Include <perfschema/pfs.h> first. */
#ifndef INSTRUMENTS_H
#define INSTRUMENTS_H

static pfs_key_t key_lock, key_tree, key_cond, key_file, key_socket, key_stage, key_statement, key_memory;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_rwlock_info_t rwlocks[] = {{&key_tree, "tree", 0, NULL}};
static pfs_cond_info_t conds[] = {{&key_cond, "cond", 0, NULL}};
static pfs_file_info_t files[] = {{&key_file, "file", 0, NULL}};
static pfs_socket_info_t sockets[] = {{&key_socket, "socket", 0, NULL}};
static pfs_stage_info_t stages[] = {{&key_stage, "stage", 0, NULL}};
static pfs_statement_info_t statements[] = {{&key_statement, "statement", 0, NULL}};
static pfs_memory_info_t blocks[] = {{&key_memory, "block", 0, NULL}};

static void register_instruments(const char* component) {
  pfs_register_mutex(component, mutexes, 1);
  pfs_register_rwlock(component, rwlocks, 1);
  pfs_register_cond(component, conds, 1);
  pfs_register_file(component, files, 1);
  pfs_register_socket(component, sockets, 1);
  pfs_register_stage(component, stages, 1);
  pfs_register_statement(component, statements, 1);
  pfs_register_memory(component, blocks, 1);
}

#endif /* INSTRUMENTS_H */
