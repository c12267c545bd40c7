// Passwords in texts of statements: which are masked, and that all other texts stay as they are.
#include "base/secrets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace perfschema {
namespace {

// Returns the text as a statement shows it.
std::string Shown(std::string_view text, size_t limit = 4096) {
  std::string out(limit, '#');
  const size_t masked = MayHaveSecret(text) ? CutTextWithoutSecrets(text, limit, out.data()) : 0;
  out.resize(masked != 0 ? masked : CutText(text, limit, out.data()));
  return out;
}

// Each password is p4ss, or has it inside.
constexpr std::pair<std::string_view, std::string_view> kMasked[] = {
    {"CREATE USER 'bob'@'%' IDENTIFIED BY 'p4ss'", "CREATE USER 'bob'@'%' IDENTIFIED BY <secret>"},
    {"create user bob identified by \"p4ss\" comment 'x'", "create user bob identified by <secret> comment <secret>"},
    {"CREATE USER IF NOT EXISTS a@b IDENTIFIED WITH 'caching_sha2_password' BY 'p4''ss'",
     "CREATE USER IF NOT EXISTS a@b IDENTIFIED WITH 'caching_sha2_password' BY <secret>"},
    {"ALTER USER a IDENTIFIED WITH mysql_native_password AS 0xp4ss REPLACE 'old'",
     "ALTER USER a IDENTIFIED WITH mysql_native_password AS <secret> REPLACE <secret>"},
    {"ALTER USER USER() IDENTIFIED BY 'p4\\'ss'", "ALTER USER USER() IDENTIFIED BY <secret>"},
    {"/* app */ alter role \"bob\" with login password 'p4ss' valid until '2030-01-01'",
     "/* app */ alter role \"bob\" with login password <secret> valid until '2030-01-01'"},
    {"ALTER ROLE bob ENCRYPTED PASSWORD E'p4ss'", "ALTER ROLE bob ENCRYPTED PASSWORD E<secret>"},
    {"ALTER ROLE bob PASSWORD $x$p4ss$x$", "ALTER ROLE bob PASSWORD <secret>"},
    {"CREATE LOGIN bob WITH PASSWORD = N'p4ss'", "CREATE LOGIN bob WITH PASSWORD = N<secret>"},
    {"CREATE OR REPLACE USER bob IDENTIFIED BY 'p4ss'", "CREATE OR REPLACE USER bob IDENTIFIED BY <secret>"},
    {"SET PASSWORD = 'p4ss'", "SET PASSWORD = <secret>"},
    {"SET PASSWORD FOR 'bob'@'%' = PASSWORD('p4ss')", "SET PASSWORD FOR 'bob'@'%' = PASSWORD(<secret>)"},
    {"set s3_secret_access_key='p4ss'", "set s3_secret_access_key=<secret>"},
    {"GRANT ALL ON *.* TO 'bob'@'h' IDENTIFIED BY 'p4ss' WITH GRANT OPTION",
     "GRANT ALL ON *.* TO 'bob'@'h' IDENTIFIED BY <secret> WITH GRANT OPTION"},
    {"CREATE USER MAPPING FOR bob SERVER s OPTIONS (user 'bob', password 'p4ss')",
     "CREATE USER MAPPING FOR bob SERVER s OPTIONS (user 'bob', password <secret>)"},
    {"ALTER SERVER s OPTIONS (SET password 'p4ss')", "ALTER SERVER s OPTIONS (SET password <secret>)"},
    {"CREATE SUBSCRIPTION s CONNECTION 'host=h password=p4ss' PUBLICATION p", "CREATE SUBSCRIPTION s CONNECTION <secret> PUBLICATION p"},
    {"CHANGE MASTER TO MASTER_USER='u', MASTER_PASSWORD='p4ss', MASTER_LOG_FILE='f'",
     "CHANGE MASTER TO MASTER_USER='u', MASTER_PASSWORD=<secret>, MASTER_LOG_FILE='f'"},
    {"CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'p4ss'", "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = <secret>"},
    {"START REPLICA USER='u' PASSWORD='p4ss'", "START REPLICA USER='u' PASSWORD=<secret>"},
    {"CLONE INSTANCE FROM 'u'@'h':3306 IDENTIFIED BY 'p4ss'", "CLONE INSTANCE FROM 'u'@'h':3306 IDENTIFIED BY <secret>"},
    {"PRAGMA key = 'p4ss'", "PRAGMA key = <secret>"},
    {"ATTACH DATABASE 'f.db' AS f KEY 'p4ss'", "ATTACH DATABASE 'f.db' AS f KEY <secret>"},
    {"CREATE SECRET s (TYPE s3, SECRET 'p4ss')", "CREATE SECRET s (TYPE s3, SECRET <secret>)"},
    {"BEGIN; ALTER ROLE bob PASSWORD 'p4ss'; SELECT 'x'", "BEGIN; ALTER ROLE bob PASSWORD <secret>; SELECT 'x'"},
    {"CREATE TABLE t (password text DEFAULT 'x'); CREATE USER u PASSWORD 'p4ss'",
     "CREATE TABLE t (password text DEFAULT 'x'); CREATE USER u PASSWORD <secret>"},
    {"CREATE USER 'a' /*!50706 IDENTIFIED BY 'p4ss' */", "CREATE USER 'a' /*!50706 IDENTIFIED BY <secret> */"},
    {"CREATE USER a IDENTIFIED BY 'p4ss", "CREATE USER a IDENTIFIED BY <secret>"},
    // Redis, as pfs run writes it and as a program may.
    {"AUTH 'p4ss'", "AUTH <secret>"},
    {"AUTH 'default','p4ss'", "AUTH <secret>,<secret>"},
    {"auth p4ss", "auth <secret>"},
    {"HELLO '3','AUTH','bob','p4ss','SETNAME','x'", "HELLO '3','AUTH',<secret>,<secret>,'SETNAME','x'"},
    {"CONFIG 'set','maxmemory','1','requirepass','p4ss'", "CONFIG 'set','maxmemory','1','requirepass',<secret>"},
    {"CONFIG 'SET','masterauth','p4ss'", "CONFIG 'SET','masterauth',<secret>"},
    {"ACL 'setuser','bob','on','>p4ss','~*','#p4ss'", "ACL 'setuser','bob','on',<secret>,'~*',<secret>"},
    {"MIGRATE 'h','6379','','0','5000','AUTH','p4ss','KEYS','a'", "MIGRATE 'h','6379','','0','5000','AUTH',<secret>,'KEYS','a'"},
    {"MIGRATE 'h','6379','k','0','5000','AUTH2','bob','p4ss'", "MIGRATE 'h','6379','k','0','5000','AUTH2',<secret>,<secret>"},
    {"SENTINEL 'set','m','auth-pass','p4ss'", "SENTINEL 'set','m','auth-pass',<secret>"},
    // Requests.
    {"GET /orders/7 '?name=x&token=p4ss&page=2'", "GET /orders/7 '?name=x&token=<secret>&page=2'"},
    {"GET http://bob:p4ss@host/path", "GET http://bob:<secret>@host/path"},
    {"https://p4ss@host/x?api_key=p4ss", "https://<secret>@host/x?api_key=<secret>"},
    {"/login?password=p4ss", "/login?password=<secret>"},
    {"DELETE /a;b?access_token=p4ss", "DELETE /a;b?access_token=<secret>"},
};

TEST(Secrets, are_masked) {
  for (const auto& [text, shown] : kMasked) {
    EXPECT_EQ(Shown(text), shown);
    EXPECT_TRUE(HasSecret(text)) << text;
    EXPECT_EQ(Shown(text).find("p4"), std::string::npos) << text;
  }
}

TEST(Secrets, other_texts_stay) {
  for (const std::string_view text : {"",
                                      "x",
                                      "SELECT password FROM users WHERE password = 'x'",
                                      "SET NAMES 'utf8'",
                                      "SET password_encryption = 'scram'",
                                      "BEGIN",
                                      "START TRANSACTION",
                                      "CREATE TABLE t (password text DEFAULT 'x', secret int)",
                                      "CREATE TABLE user_x AS SELECT 'password', 'x'",
                                      "ALTER TABLE t ADD c text DEFAULT 'x' COMMENT 'password'",
                                      "GRANT SELECT ON t TO 'bob'@'%'",
                                      "PRAGMA journal_mode = 'wal'",
                                      "ATTACH 'a.db' AS a",
                                      "GET 'key'",
                                      "GET /a/b '?page=2&sort=name'",
                                      "DELETE FROM t WHERE url = 'http://a:b@c'",
                                      "CONFIG 'GET','requirepass'",
                                      "ACL 'WHOAMI'",
                                      "HELLO '3'",
                                      "hello world",
                                      "(SELECT 1)",
                                      "/* auth */ select 'x'",
                                      "-- auth 'x'\nselect 1",
                                      "CREATE USER bob",
                                      "INSERT INTO t VALUES ('identified by')",
                                      "DROP USER 'bob'@'%'; SELECT 'x'"}) {
    EXPECT_EQ(Shown(text), text);
    EXPECT_FALSE(HasSecret(text)) << text;
  }
}

// A text is cut as CutText() cuts it, and a secret is never cut into.
TEST(Secrets, are_masked_before_the_text_is_cut) {
  const std::string text = "CREATE USER 'b\xc3\xa9' IDENTIFIED BY 'p4ssp4ssp4ssp4ss' COMMENT `x`";
  const std::string whole = "CREATE USER 'b\xc3\xa9' IDENTIFIED BY <secret> COMMENT `x`";
  for (size_t limit = 1; limit < text.size() + 8; ++limit) {
    std::string expected(limit, '#');
    expected.resize(CutText(whole, limit, expected.data()));
    EXPECT_EQ(Shown(text, limit), expected) << limit;
  }
}

// Damaged texts: each beginning of each text is read, and shows nothing of a password.
TEST(Secrets, beginnings_of_texts_show_none) {
  for (const auto& [text, shown] : kMasked) {
    for (size_t bytes = 0; bytes <= text.size(); ++bytes) {
      const std::string masked = Shown(text.substr(0, bytes));
      // The beginning of a parameter of a URL is one only with its '='.
      EXPECT_TRUE(masked.find("p4s") == std::string::npos || text.find("://") != std::string_view::npos) << text.substr(0, bytes);
    }
  }
}

}  // namespace
}  // namespace perfschema
