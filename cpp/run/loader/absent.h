// run/loader/absent.h: functions of database clients that the program does not have.
//
// This library has such functions without a version, because each client has versions of its own. The dynamic linker binds a weak
// reference to one of them also where no client is. So weak references of the objects that are there are made null before the program
// begins. A call that comes in another way fails as that of a client would.
#pragma once

namespace perfschema::run {

// What the names of a client's functions begin with.
inline constexpr const char *kOfSqlite = "sqlite3_", *kOfLibpq = "PQ", *kOfMysql = "mysql_";

}  // namespace perfschema::run
