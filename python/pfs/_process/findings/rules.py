"""Declares the rules: what `pfs.findings` finds."""

from __future__ import annotations

from pfs._process.findings.rule import Rule, at
from pfs._process.findings.rules_of_locks import RULES_OF_LOCKS
from pfs._process.findings.rules_of_statements import RULES_OF_STATEMENTS

__all__ = ["RULES"]

RULES = (
    *RULES_OF_LOCKS,
    *RULES_OF_STATEMENTS,
    Rule(
        "connect_each",
        f"""
with o as (
  select *, lead(t0) over (partition by p, thread, object order by t0, event) next
  from wait where kind = 'socket' and name not like '%/udp'),
c as (
  select p, name, sum(op = 'connect') connects, sum(op = 'send') sends, max(scale) scale, max(more) more, max(file) peer,
    sum(iif(op in ('connect', 'close', 'shutdown', 'create'), dt, 0)
      + iif(op in ('connect', 'create'), coalesce(max(0, min(next - t1, :around)), 0), 0)) opening
  from o group by p, name)
select p, peer thing, connects * more n, opening * scale stake,
  {at("c", "w.name = c.name", "sum(w.op = 'connect')")} place
from c where connects * more >= :connections and connects >= :many
  and sends between 0.5 * connects and 6 * connects order by stake desc""",
        "{n:n} connections are opened{at}, each for a few messages; opening and closing",
        "Keep one connection, or a pool.",
        ("connect_each",),
        "The program opens a connection for each request. Both ends pay for it, and so do TLS and logins. The time contains what "
        "the program does until the first message, 0.3 ms at most.",
        "`events_waits_history_long` has about as many rows of OPERATION `connect` as of `send`.",
    ),
    Rule(
        "retries",
        """
with refused as (  -- by connect(), or by the option SO_ERROR of a socket that connects without waiting
  select p, failed from call where (op = 'connect' and error <> :in_progress)
    or (op = 'opt' and error in (:timed_out, :refused, :no_host, :no_network))),
o as (
  select p, thread, name, op, place, t1, dt, more, lead(op) over (partition by p, thread, object order by t0, event) next
  from wait where kind = 'socket' and op <> 'opt' and name not like '%/udp'),
failed as (
  select * from o where op = 'connect' and next = 'close'),
all_failed as (select p, sum(failed) n from refused group by p having n > 0)
select p, all_failed.n n, (
    select place from failed x where x.p = failed.p group by place order by is_of_user(p, place) desc, count(*) desc) place,
  (select count(*) * max(more) from o where o.p = failed.p and op = 'connect') tried,
  all_failed.n * avg(dt + coalesce((
    select sum(dt) from wait w where w.p = failed.p and w.thread = failed.thread and w.kind = 'sleep'
    and w.t0 between failed.t1 and failed.t1 + :soon), 0)) stake
from failed join all_failed using (p) group by p having n >= :many and n >= 0.2 * tried order by stake desc""",
        "{n:n} of {tried:n} connections fail{at}; the pauses after them count",
        "Remember what does not answer, and ask the good server first.",
        ("retries", "refused"),
        "The program connects again and again to something that refuses it, often with a pause.",
        "`call_sites`: COUNT_FAILED of OPERATION `connect` or `opt`, with ERRNO and place.",
        covers=("connect_each", "sleeps"),
    ),
    Rule(
        "tiny_io",
        f"""
with f as (
  select p, name, reads n, read_bytes * 1.0 / reads size, read_dt dt, 'read' op, 'reads' what from file where reads >= :calls
  union all
  select p, name, writes, write_bytes * 1.0 / writes, write_dt, 'write', 'writes' from file where writes >= :calls)
select p, name thing, n, size, what, dt * (1 - size / :block) stake,
  {at("f", "w.file = f.name and w.op = f.op")} place
from f where size < :small and name not like 'pipe:%' and name not like 'anon_inode:%' and (
  select avg(w.dt > :called and w.waited_for) from wait w where w.p = f.p and w.file = f.name and w.op = f.op) > 0.5
union all  -- a stream of bytes that are there already; a request waits for its answer
select p, coalesce(max(file), 'a socket'), count(*) * max(more), avg(bytes), iif(op = 'recv', 'reads', 'writes'),
  sum(iif(dt < :at_hand, dt, 0)) * max(scale) * (1 - avg(bytes) / :block),
  {at("wait", "w.object = wait.object and w.op = wait.op")}
from wait where kind = 'socket' and op in ('recv', 'send') and name not like '%/udp' and bytes > 0
group by p, object, op having count(*) >= :many and count(*) * max(more) >= :calls and sum(bytes) > 0 and avg(bytes) < :small
  and avg(dt < :at_hand) > 0.5 and count(*) > :one_way * (
    select count(*) from wait o where o.p = wait.p and o.object = wait.object and o.op in ('recv', 'send') and o.op <> wait.op)
union all  -- a stream of C that is flushed for each piece
select f.p, f.name, flushes, f.write_bytes / flushes, 'flushes', dt * (1 - f.write_bytes / flushes / :block),
  {at("f", "w.file = f.name and w.op = 'flush'")}
from file f join (
  select p, file, count(*) * max(more) flushes, sum(dt) * max(scale) dt
  from wait where op = 'flush' and waited_for group by p, file having avg(dt > :called) > 0.5) x on x.p = f.p and x.file = f.name
where flushes >= :calls and f.write_bytes < :small * flushes
order by stake desc""",
        "{thing:f}: {n:n} {what} of {size:.0f} bytes{at}",
        "Use a buffer of 64 KiB, and flush it seldom.",
        ("tiny_io", "tiny_reads", "tiny_stream", "flushed"),
        "A file or a socket is read or written in many small calls, or flushed for each. Each is a system call of a microsecond "
        "or less, of which pfs adds some.",
        "`file_summary_by_instance`: SUM_NUMBER_OF_BYTES_READ / COUNT_READ, likewise for WRITE.",
    ),
    Rule(
        "busy_poll",
        """
select p, place, sum(empty) n, sum(max(dt, empty * :poll)) stake, iif(kind = 'idle', 'polls with the timeout 0', 'reads') what
from call c
where kind = 'idle' or (  -- who reads until nothing is left finds nothing once for each event
  op in ('recv', 'read') and (
    select avg(coalesce(w.bytes, 0) = 0) from wait w where w.p = c.p and w.op = c.op and w.place = c.place) > :in_vain)
group by p, place, op having n >= :empty order by stake desc""",
        "{n:n} {what} find nothing{at}",
        "Poll with a timeout, or with -1: the system wakes the thread up.",
        ("busy_poll", "busy_reads"),
        "A thread asks again and again whether something has happened, and keeps a processor busy: by polls, or by reads of "
        "what does not block. The time is 0.3 µs a poll, as such polls are not timed.",
        "`call_sites`: COUNT_EMPTY of the place.",
        of="processor",
        covers=("sleeps", "tiny_io"),
    ),
    Rule(
        "try_lock_loop",
        """
select p, place, sum(failed + empty) n, sum(max(dt, (failed + empty) * :try)) stake from call
where op like 'try%' group by p, place having n >= :empty order by stake desc""",
        "{n:n} tries to lock fail{at}",
        "Wait for the lock.",
        ("try_lock_loop",),
        "A thread tries again and again to take a lock that another thread holds, and keeps a processor busy. The time is 15 ns "
        "a try, as such tries are not timed.",
        "`call_sites`: COUNT_FAILED and COUNT_EMPTY of the place, OPERATION `try_lock`.",
        of="processor",
        covers=("sleeps",),
    ),
    Rule(
        "tiny_messages",
        f"""
with m as (
  select p, pid, parent, sum(reads + writes) n, sum(reads) reads, sum(writes) writes, sum(read_bytes + write_bytes) bytes,
    sum(read_dt + write_dt) dt
  from file join process using (p) where kind = 'pipe' group by p),
a as (
  -- of those that write most, the one that answers least; it may be the parent
  select (select p from m order by writes desc, reads, parent in (select pid from m)) p,
    sum(n) n, sum(bytes) * 1.0 / sum(n) size, count(*) processes, max(dt) stake
  from m
  where (select avg(w.dt > :called) from wait w where w.p = m.p and w.name like '%/pipe' and w.op in ('read', 'write')) > 0.5)
select *, coalesce(
  {at("a", "w.name like '%/pipe' and op = 'write' and is_of_user(p, place)")},
  -- a thread of the library writes: its user waits for the answers, at a lock of Python
  {at("a", "w.name like 'wait/synch/cond/python/%' and thread = 1 and is_of_user(p, place)", "count(*)")},
  (select place from wait w join m using (p) where w.name like '%/pipe' and op = 'read' and is_of_user(p, place)
    group by w.p, place order by count(*) desc),
  {at("a", "w.name like '%/pipe' and op = 'write'")}) place
from a where n >= :calls and size < :small and processes > 1""",
        "{processes} processes exchange {n:n} messages of {size:.0f} bytes through pipes{at}",
        "Send many in one message (chunksize).",
        ("tiny_messages", "pool_messages", "queue_messages"),
        "Processes send each other small messages through pipes, and wake each other up for each.",
        "`file_summary_by_event_name` of the pipes: bytes / (COUNT_READ + COUNT_WRITE).",
    ),
    Rule(
        "delayed_ack",
        f"""
with o as (
  select *, lag(op) over h before, lag(op, 2) over h first
  from wait where name like 'wait/io/socket/%tcp' and op in ('send', 'recv')
  window h as (partition by p, thread, object order by t0)),
late as (select * from o where op = 'recv' and first = 'send' and dt between :ack_low and :ack_high)
select p, count(*) n, sum(dt) stake,
  {at("late", "w.op = 'recv' and w.object in (select object from late x where x.p = w.p)")} place
from late group by p having n >= :acks order by stake desc""",
        "{n:n} answers take 40 ms{at}: a request or an answer is sent in two writes",
        "Write it at once, or set TCP_NODELAY.",
        ("delayed_ack", "delayed_answer"),
        "Nagle's algorithm holds the second write back until the first is acknowledged, and the other end delays that by 40 ms.",
        "`events_waits_history_long`: two `send`, or a `send` and a `recv`, and then a `recv` of 40 ms on one object.",
        covers=("pool_too_small",),
    ),
    Rule(
        "fsync_each",
        f"""
select p, file thing, sum(op = 'sync') * max(more) n, sum(op = 'write') * max(more) writes,
  sum(case when op = 'sync' then dt end) * max(scale) stake,
  {at("wait", "w.file = wait.file and w.op = 'sync'")} place
from wait where kind = 'file' and file is not null and waited_for group by p, file
having n >= :many and sum(op = 'sync') >= :seen and writes <= 4 * n
order by stake desc""",
        "{thing:f} is synced {n:n} times for {writes:n} writes{at}",
        "Sync once for many records.",
        ("fsync_each",),
        "Each record is forced to the disk alone. A disk does that some hundred to some ten thousand times a second.",
        "`events_waits_history_long`: OPERATION `sync` and `write` of the file.",
        covers=("tiny_io",),
    ),
    Rule(
        "reopened",
        f"""
select p, file thing, iif(sum(op = 'write') > 0, 'written', 'read') what, sum(op = 'open') * max(more) n,
  sum(dt) * max(scale) stake,
  {at("wait", "w.file = wait.file", "sum(w.op = 'open')")} place
from wait where kind = 'file' and file is not null and waited_for and file not in imported
group by p, file having n >= 1.5 * :many and sum(op = 'open') >= :seen and sum(op in ('read', 'write')) >= sum(op = 'open')
  and sum(op = 'write') <= 4 * sum(op = 'open')
order by stake desc""",
        "{thing:f} is opened and {what} {n:n} times{at}",
        "Open it once, and keep it open or what it says.",
        ("reopened", "appended"),
        "A file is opened for each record that is written, or it does not change and is read again and again. The time is that "
        "of the calls; parsing comes on top.",
        "`file_summary_by_instance`: COUNT_READ and COUNT_WRITE of the file. `events_waits_history_long`: OPERATION `open`.",
        covers=("tiny_io",),
    ),
    Rule(
        "searched",
        """
with named as (
  select p, place, op, file, rtrim(file, replace(file, '/', '')) folder from wait where kind = 'file' and file is not null),
missed as (select * from call where kind = 'file' and error = :absent),
again as (
  select p, op, place made, sum(failed) n, max(dt), thing, sum(dt) stake from missed m
  where failed >= :many and coalesce((  -- each folder, and each name, again and again
    select max(count(distinct folder), count(distinct substr(file, length(folder) + 1))) * 2 <= count(*) from named w
    where w.p = m.p and w.place is m.place and w.op = m.op having count(*) >= :seen), 1)
  group by p, op, place having n >= :misses)
select *, (  -- of calls that an interpreter makes, some have the user's place
  select place from missed m where m.p = again.p and m.op = again.op and (made = place or not is_of_user(p, made))
  order by is_of_user(p, place) desc, failed desc) place
from again order by stake desc""",
        "{n:n} calls look for files that are not there{at}, such as {thing}",
        "Put the folder that has them first; remember misses.",
        ("searched", "templates"),
        "The program opens or asks for files that do not exist: a search path whose last folder is the right one. A file that is "
        "looked for once in each of many folders, such as .gitignore, is not searched.",
        "`call_sites`: ERRNO 2 of `open` and `stat`, with the first name. `strace -c` counts the errors.",
    ),
    Rule(
        "stat_again",
        f"""
with o as (
  select p, thread, op, file, place, dt, scale, more, waited_for, lag(op) over h before, lag(file) over h file_before
  from wait where kind = 'file' window h as (partition by p, thread order by t0, event)),
s as (
  select *, before = 'stat' and file = file_before again from o
  where op = 'stat' and file is not null and waited_for and file not in imported)
select p, round(sum(more)) n, count(*) * 1.0 / sum(not again) each, max(file) thing,
  sum(iif(again, dt * scale, 0)) stake, {at("s", "w.op = 'stat'", "count(*)")} place
from s group by p having sum(iif(again, more, 0)) >= :misses and sum(again) >= :again * count(*) order by stake desc""",
        "{n:n} calls of stat{at}, {each:.1f} for each file such as {thing:f}",
        "Ask once for each file and keep the answer; os.scandir() keeps it.",
        ("stat_again",),
        "The program asks for the type, the size and the time of a file one after the other, and each is a call of stat. One "
        "call has all of them. One call for each file is no fault.",
        "`events_waits_history_long`: OPERATION `stat` has the same OBJECT_NAME again and again. `strace -e %stat` shows them.",
    ),
    Rule(
        "thread_each",
        f"""
with j as (
  select p, coalesce(max(iif(kind = 'start', n, null)), sum(n)) n, sum(dt) dt, sum(iif(kind = 'join', dt, 0)) joins
  from (select p, kind, sum(n) n, sum(dt) dt from total where kind in ('join', 'start') group by p, kind) group by p)
select p, n, dt stake, {at("j", "w.kind in ('join', 'start')")} place
from j where n >= :threads
  and coalesce((select avg(dt < :short) from wait w where w.p = j.p and w.kind = 'join') > 0.5, joins < n * :short)
union all  -- nobody joins them
select p, max(n) n, max(n) * :thread, name
from thread where name like 'thread/%/code+%' and not exists (select 1 from j where j.p = thread.p and j.n >= :threads)
group by p, name having max(n) >= :threads and sum(dt) < max(n) * :short
order by stake desc""",
        "{n:n} threads are started{at}, each for a moment",
        "Keep a pool of threads.",
        ("thread_each", "thread_each_message", "detached"),
        "A thread is made for each task and lives for less than 2 ms. To make and to join it takes longer than many tasks. Of "
        "threads that nobody joins, the place is their function, and the time 15 µs for each.",
        "The report has the place of the joins under `Other waits`, with their count.",
    ),
    Rule(
        "process_each",
        f"""
with c as (  -- to start a process may be a wait of its own
  select p, cast(round(sum(n * coalesce(
    (select avg(op <> 'create') from wait w where w.p = total.p and w.name = total.name), 1))) as int) n, sum(dt) dt
  from total where kind = 'child' group by p having n >= :many),
k as (  -- a shell forks itself before it starts a program
  select x.p, k.command, k.span from process k join process x on k.parent = x.pid and k.command <> x.command)
select p, n, {at("c", "w.kind = 'child'")} place,
  (select command from k where k.p = c.p group by 1 order by count(*) desc) thing,
  dt * coalesce((
    select sum(iif(w.dt < :short_child, w.dt, 0)) * 1.0 / sum(w.dt) from wait w where w.p = c.p and w.kind = 'child'), 1)
  + coalesce((select sum(dt) from wait w
    where w.p = c.p and (w.kind = 'idle' or w.name like '%/pipe') and w.dt < :short_child), 0) stake
from c where coalesce((select avg(span < :short_child) from k where k.p = c.p) > 0.5, stake < n * :short_child)
order by stake desc""",
        "{n:n} processes{program} are started{at}, each for a moment",
        "Do it in the program, or start one process for many.",
        ("process_each", "shell_each"),
        "A process is started for each task and lives for some milliseconds. Its start takes most of that. pfs adds about 2 ms "
        "to each. Waits of 100 ms and more are not in the time.",
        "The report names the number of processes in its first line. `pfs ps --tree` shows them while they run.",
        covers=("sleeps", "child_wait"),
    ),
    Rule(
        "child_wait",
        f"""
with k as (
  select parent, command, began, span, began + span / 1e6 ended, task(command) program from process),
s as (
  select *, max(ended) over (partition by parent, program order by began rows between unbounded preceding and 1 preceding) before
  from k),
c as (
  select x.p, x.pid, x.began, program thing, count(*) n, sum(s.span) dt, max(s.span) longest,
    max(coalesce(before > s.began + max(:overlap, :apart * s.span), 0)) together
  from s join process x on x.pid = s.parent and (s.command <> x.command or x.command not glob '*sh *')  -- a shell forks itself
  group by x.p, program)
select *, {at("c", "w.kind = 'child'")} place, max(dt, coalesce((  -- a process is waited for before and after pfs sees it
  select sum(w.dt * w.scale) from wait w where w.p = c.p and w.kind = 'child' and w.op is not 'create' and exists (
    select 1 from k where k.parent = c.pid and k.program = c.thing
    and c.began + w.t0 / 1e6 < k.ended and c.began + w.t1 / 1e6 > k.began)), 0)) - longest stake
from c where n between :children and :many and not together and dt > n * :long_child order by stake desc""",
        "{n:n} processes of {thing:f} run one after the other{at}",
        "Start them together, as many as there are processors.",
        ("child_wait",),
        "The program starts a process, waits for its end, and starts the next one of the same program, script or subcommand. All "
        "of them together take as long as the longest of them, or longer if there are fewer processors.",
        "The report has the place under `Other waits`. `pfs ps --tree` shows one child at a time.",
        is_bound=True,
    ),
    Rule(
        "pool_too_small",
        f"""
with t as (
  select p, thread,
    sum(case when kind = 'socket' and name not like '%/accepted' then dt end) * 1.0 io,
    coalesce(sum(case when kind in ('work', 'cond', 'join', 'idle', 'accept') then dt end), 0) idle, max(t1) - min(t0) span,
    sum(kind = 'socket' and op = 'recv' and name not like '%/accepted' and dt > 1e9) n
  from wait group by p, thread)
select p, count(*) threads, max(span) stake, cast(avg(io / span) * 100 as int) percent,
  {at("t", "w.kind = 'socket' and w.op = 'recv'")} place
from t where n >= 8 and io > :waits * span and idle < :idle * span and span > 0.3 * (select wall from run)
group by p having threads between 2 and 16 order by stake desc""",
        "{threads} workers wait for answers {percent} % of their time{at} and always have work",
        "Use more workers, or asyncio: the processors are idle.",
        ("pool_too_small",),
        "All workers of a pool wait for a network and are never without work, so tasks wait for a worker.",
        "`events_waits_summary_by_thread_by_event_name`: the workers' time is in a socket, and nearly none in conditions.",
        covers=("connect_each", "sleeps"),
    ),
    Rule(
        "slow_names",
        f"""
select p, sum(n) n, sum(dt) stake, {at("t", "w.kind = 'resolve'")} place
from total t where kind = 'resolve' group by p having n >= :names order by stake desc""",
        "{n:n} host names are looked up{at}",
        "Keep the address or the connection; ask the resolver why it is slow.",
        ("slow_names",),
        "The program waits for the resolver: a slow or dead name server, or the same name again and again.",
        "The report has the place under `Other waits`. `getent hosts NAME` shows how long a name takes.",
        covers=("connect_each",),
    ),
    Rule(
        "file_lock",
        """
with f as (
  select p, file, place, sum(dt * scale) dt, sum(more) n from wait where kind = 'file' and op = 'lock' group by p, file)
select p, file thing, count(*) processes, round(sum(n)) n, max(dt), place, (
  select covered((began - first) * 1000000 + t0, (began - first) * 1000000 + t1) * max(scale)
  from wait w join process using (p), (select min(began) first from process)
  where kind = 'file' and op = 'lock' and w.file = f.file) stake
from f group by file having processes > 1 order by stake desc""",
        "{processes} processes wait for the lock of {thing:f}{at}",
        "Hold it for less, or give each process a file.",
        ("file_lock",),
        "Processes lock one file (`flock`, `lockf`, `fcntl`) and hold the lock while they work.",
        "`events_waits_history_long`: OPERATION `lock`. `lslocks` shows the holder now.",
        is_bound=True,
        covers=("sleeps", "child_wait"),
    ),
    Rule(
        "sleeps",
        """
select p, count(*) n, place, sum(dt) stake from wait join process k using (p)
where kind = 'sleep' and thread = 1 and not exists (select 1 from process x where x.pid = k.parent and x.command = k.command)
group by p, place having n >= :sleeps order by stake desc""",
        "The first thread sleeps {n:n} times{at}",
        "Wait for the event itself: a condition, a pipe, a timeout of poll.",
        ("sleeps",),
        "The program sleeps for a while and looks again, instead of being woken up. A worker that was forked is not looked for: "
        "its sleep may stand for work.",
        "The report has the place under `Other waits`.",
    ),
)
