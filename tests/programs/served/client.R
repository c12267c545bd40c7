# Reads through R's driver for MySQL: Rscript client.R SOCKET
library(RMySQL)
path <- commandArgs(TRUE)[1]
client <- dbConnect(MySQL(), unix.socket = path, user = "me", dbname = "performance_schema")
row <- suppressWarnings(dbGetQuery(client, "select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = 1"))
cat("prepared:", row[[1]], row[[2]], row[[3]], "\n")
cat("titles:", names(dbGetQuery(client, "select version(), Max(THREAD_ID) from threads")), "\n")
stopifnot("threads" %in% dbListTables(client), dbExistsTable(client, "setup_actors"))
cat("columns:", length(dbListFields(client, "threads")), "\n")
cat("cursor:", nrow(dbReadTable(client, "setup_instruments")), "\n")
try(dbGetQuery(client, "drop table threads"), silent = TRUE)
cat("error:", dbGetException(client)$errorNum, "42000\n")
invisible(dbDisconnect(client))
