# What the driver mysql2 reads. ARGV: socket.
require "mysql2"

how = { socket: ARGV[0], username: "me", database: "performance_schema" }
client = Mysql2::Client.new(**how)
row = client.prepare("select THREAD_ID, NAME, 1.5 as exact from threads where THREAD_ID = ? and NAME like ?").execute(1, "%").first
puts "prepared: #{row["THREAD_ID"]} #{row["NAME"]} #{row["exact"].to_s("F")}"
row = client.query("select version(), Max(THREAD_ID) from threads").first
puts "titles: #{row.keys.join(" ")}"
puts "time: #{client.query("select now() as moment").first["moment"].class == Time}"
begin
  client.query("drop table threads")
rescue Mysql2::Error => error
  puts "error: #{error.error_number} #{error.sql_state}"
end
several = Mysql2::Client.new(**how, flags: Mysql2::Client::MULTI_STATEMENTS)
found = [several.query("select 1 as a; select 2 as a").first["a"]]
found << several.store_result.first["a"] while several.next_result
puts "answers: #{found.join(" ")}"
