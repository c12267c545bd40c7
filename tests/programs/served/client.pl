# What the drivers DBD::mysql and DBD::MariaDB read. @ARGV: the name of the driver, the socket.
use strict;
use warnings;
use DBI;

my ($driver, $socket) = @ARGV;
my $name = lc $driver;
my $client = DBI->connect("dbi:$driver:${name}_socket=$socket;database=performance_schema", "me", "", {RaiseError => 1, PrintError => 0});
my $statement = $client->prepare("select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = ? and NAME like ?", {"${name}_server_prepare" => 1});
$statement->execute(1, "%");
print "prepared: @{$statement->fetchrow_arrayref}\n";
my $row = $client->selectrow_hashref("select version(), Max(THREAD_ID) from threads");
print "titles: ", join(" ", reverse sort keys %$row), "\n";
eval { $client->do("drop table threads") };
print "error: ", $client->err, " ", $client->state, "\n";
print "key: ", join(" ", $client->primary_key(undef, "performance_schema", "threads")), "\n";
print "columns: ", scalar(@{$client->column_info(undef, "performance_schema", "threads", "%")->fetchall_arrayref}), "\n";
print "state: ", ($client->{"${name}_stat"} =~ /^(Uptime: )/)[0], "\n" if $name eq "mysql";
