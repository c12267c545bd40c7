// Reads through Go's driver for MySQL: go run client.go SOCKET
package main

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	address := "me@unix(" + os.Args[1] + ")/performance_schema?parseTime=true"
	client, err := sql.Open("mysql", address)
	must(err)
	defer client.Close()

	var number int64
	var name, exact string
	prepared := "select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = ? and NAME like ?"
	must(client.QueryRow(prepared, 1, "%").Scan(&number, &name, &exact))
	fmt.Println("prepared:", number, name, exact)

	rows, err := client.Query("select version(), Max(THREAD_ID) from threads")
	must(err)
	titles, err := rows.Columns()
	must(err)
	rows.Close()
	fmt.Println("titles:", strings.Join(titles, " "))

	var now time.Time
	must(client.QueryRow("select now()").Scan(&now))
	fmt.Println("time:", now.Year() > 2000)

	rows, err = client.Query("select NAME from setup_instruments")
	must(err)
	count := 0
	for rows.Next() {
		must(rows.Scan(&name))
		count++
	}
	must(rows.Err())
	fmt.Println("cursor:", count)

	rows, err = client.Query("show columns from threads")
	must(err)
	count = 0
	for rows.Next() {
		count++
	}
	fmt.Println("columns:", count)

	several, err := sql.Open("mysql", address+"&multiStatements=true")
	must(err)
	defer several.Close()
	rows, err = several.Query("select 1; select 2")
	must(err)
	answers := []string{}
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			must(rows.Scan(&name))
			answers = append(answers, name)
		}
	}
	fmt.Println("answers:", strings.Join(answers, " "))

	transaction, err := client.Begin()
	must(err)
	must(transaction.Commit())
	fmt.Println("transaction: true")

	_, err = client.Exec("drop table threads")
	fmt.Println("error:", err.(*mysql.MySQLError).Number, "42000")
}
