"""Declares the rules about locks, for which threads queue."""

from __future__ import annotations

from pfs._process.findings.rule import Rule, at

__all__ = ["RULES_OF_LOCKS"]

_UNDER = """
select q.p, u.thing, u.others, u.ops, u.n, q.place, q.threads, q.whole * q.scale stake
from under u join queue q using (p, object)
where u.what = '{what}' and u.turns >= :turns * q.waits and u.dt between :low * q.dt and :high * q.dt and q.threads > 1
order by stake desc, others"""

RULES_OF_LOCKS = (
    Rule(
        "deadlock",
        "select p, count(*) n, place, max(dt) stake from circle group by p order by stake desc",
        "{n} threads wait for each other{at}",
        "Take the locks in one order everywhere.",
        ("deadlock",),
        "Each thread holds a lock that another one of them waits for. None will go on.",
        "`pfs show PID blocked` names the threads, the locks and both lines of each.",
        covers=("lock_held", "io_under_lock", "sleeps"),
    ),
    Rule(
        "starved",
        """
select s.p, place, max(dt) stake, iif(name like 'wait/synch/rwlock/%', '; readers take turns', '; another one keeps it') why
from stuck s where kind = 'lock' and dt > :queued * (select wall from run)
  and (name like 'wait/synch/rwlock/%' or holder <> thread)  -- some lock a lock twice, to wait for a signal
group by s.p order by stake desc""",
        "A thread waits for a lock{at} and does not get it{why}",
        "Hold it for less; let a writer that waits go first.",
        ("starved",),
        "A thread waits for a lock for most of the run and has not got it. A read-write lock of the C library prefers readers: "
        "while one of them has the lock, others get it, too, and a writer waits for a moment without any.",
        "`pfs show PID blocked` names the lock and who holds it. A lock that prefers writers: `pthread_rwlockattr_setkind_np`.",
        covers=("sleeps",),
    ),
    Rule(
        "io_under_lock",
        _UNDER.format(what="io"),
        "{thing:f}{others:o}: {n:n} calls ({ops}) under the lock that {threads} threads wait for{at}",
        "Do it after the unlock, or let one thread do it.",
        ("io_under_lock", "own_files"),
        "A thread reads, writes or syncs a file or a socket while it holds a lock, and others wait for the lock meanwhile.",
        "`pfs show PID blocked` names the lock, its holder and its line. In `events_waits_history_long`, the calls lie inside "
        "the waits of other threads.",
        is_bound=True,
        covers=("fsync_each", "lock_held", "tiny_io"),
    ),
    Rule(
        "statement_under_lock",
        _UNDER.format(what="statement"),
        "{thing:q}{others:o}: {n:n} times under the lock that {threads} threads wait for{at}",
        "Give each thread a connection, or hold the lock for less.",
        ("statement_under_lock",),
        "A thread runs statements of a database while it holds a lock, and others wait for the lock meanwhile.",
        "`pfs show PID blocked` names the holder. `events_statements_history_long` has the statements and their times.",
        is_bound=True,
        covers=("lock_held", "io_under_lock", "gil"),
    ),
    Rule(
        "hot_lock",
        """
select q.p, t.n, q.threads, q.place, iif(t.kind = 'lock', 'taken', 'waited for') what, min(t.dt, q.whole * q.scale) stake
from total t join queue q using (p, name), run
where q.threads > 1 and iif(t.kind = 'lock', t.n > :hot * busy / 1e12 and t.dt < t.n * :held, t.n > :hot_waits * busy / 1e12)
union all  -- the history has lost its waits
select p, n, 2, place, 'taken', dt from total join run r
where kind = 'lock' and n > :hot * r.busy / 1e12 and dt between :queued * r.wall and n * :held and kept < :kept * dt
order by stake desc""",
        "A lock is {what} {n:n} times by {threads} threads or more{at}",
        "Add up in each thread, or take it once for many.",
        ("hot_lock",),
        "Threads hold a lock for nanoseconds, but so often that they wait for each other, and its cache line moves between "
        "processors. The time is that of the waits; mending saves the calls, too.",
        "`events_waits_summary_global_by_event_name` has COUNT_STAR of the lock: more than 300,000 in a second.",
        covers=("lock_held",),
    ),
    Rule(
        "lock_held",
        """
with does as (  -- the longest, of each lock
  select u.p, u.object, u.what, u.place doing, u.n, max(u.dt) dt from under u join queue q using (p, object)
  where u.what not in ('io', 'statement') and u.turns >= :turns * q.waits and u.dt between :low * q.dt and :high * q.dt
  group by u.p, u.object)
select q.p, threads || ' threads' who, doing, q.place, q.whole * scale stake,
  '; its holder ' || coalesce(what, iif(computes > :computes, 'computes', 'computes or waits')) does
from queue q left join does using (p, object) join total t using (p, name)
where scale < 1 / :kept and threads > 1 and (  -- a thread that takes it again at once lets the others wait once
  waits >= 5 or does.n >= 5 or (t.n >= :many and q.whole > :queued * (select wall from run)))
and not exists (
  select 1 from under u where u.p = q.p and u.object = q.object and u.what in ('io', 'statement')
  and u.turns >= :turns * q.waits and u.dt > :low * q.dt)
union all  -- the history has lost its waits
select p, 'Threads', null, place, dt, '' from total t join run r on dt > :queued * r.wall
where kind = 'lock' and kept < :kept * dt
order by stake desc""",
        "{who} queue for a lock{at}{does}{doing}",
        "Do it before the lock is taken; hold it to store the result.",
        ("lock_held", "sleep_under_lock", "bystander", "semaphore", "critical", "written_outside", "phases"),
        "Threads wait for a lock, and its holder computes meanwhile, or waits for something that is no I/O: it sleeps, or it "
        "waits for a process or another lock. What pfs does not record counts as computing.",
        "`pfs show PID blocked` names the holder and the line at which it took the lock. `perf` or `py-spy` shows what it "
        "computes.",
        is_bound=True,
    ),
    Rule(
        "task_lock",
        """
with scaled as (
  select t.p, max(1, sent.n * 1.0 / count(*)) more, max(1, sent.dt * 1.0 / sum(t.dt)) scale
  from task t join sent on sent.p = t.p and sent.name = 'statement/asyncio/lock' where t.name = 'lock' group by t.p),
w as (
  select p, lock, count(*) seen, round(count(*) * max(more)) n, covered(t0, t1) dt, max(scale) scale
  from task join scaled using (p) where name = 'lock' group by p, lock),
h as (select p, lock, held_at, sum(dt) dt from task where name = 'held' group by p, lock, held_at),
held as (select p, lock, held_at doing, max(dt), sum(dt) held from h group by p, lock)
select *, dt * scale stake, iif(doing is null, '', '; its holder awaits') does, (
  select place from task t where t.p = w.p and t.lock = w.lock and t.name = 'lock' group by place order by sum(dt) desc) place
from w left join held using (p, lock)
where n >= :tasks and coalesce(held > :low * dt, dt > seen * :task)  -- if it lets others run only, the lock is free soon
order by stake desc""",
        "Tasks wait {n:n} times for a lock{at}{does}{doing}",
        "Await it before the lock is taken; hold it to store the result.",
        ("task_lock",),
        "Tasks of asyncio wait for an `asyncio.Lock`, and the task that has it awaits something else meanwhile: an answer, a "
        "file, a pause. So only one of them goes on at a time.",
        "`events_statements_summary_by_digest`: `asyncio.Lock app:12` has the waits, by the line that first waits, and "
        "`asyncio.Lock app:12 held at app.py:40` what its holder awaits.",
        is_bound=True,
    ),
    Rule(
        "gil",
        """
with t as (
  select p, thread, sum(iif(kind = 'gil', dt, 0)) gil, sum(iif(kind = 'gil', 0, dt)) other, max(t1) - min(t0) span
  from wait group by p, thread),
asks as (  -- SQLite computes without the GIL
  select p, thread, sum(dt) dt from statement where name like 'statement/sqlite%' group by p, thread),
busy as (
  select t.* from t left join asks using (p, thread)
  where gil > :gil * span and other < :little * span and span > :lasting * (select wall from run)
    and coalesce(asks.dt, 0) < :asks * (span - gil))
select p, count(distinct thread) threads, sum(dt * scale) dt, null place,
  covered(t0, t1) * max(scale) * (1 - 1.0 / min(count(distinct thread), :processors)) stake
from busy join wait using (p, thread) where kind = 'gil'
group by p having threads > 1 order by stake desc""",
        "{threads} threads compute in Python, one at a time: they waited {dt:t} for the GIL",
        "Compute in processes, or without the GIL, if processors are free.",
        ("gil",),
        "One thread of a Python process computes at a time. The others wait for the GIL. The time assumes that the computing "
        "spreads over as many processors as there are threads, if the machine has them and they are free. Without the GIL, "
        "threads may wait for objects that they share instead: run the program under python3.14t, and look for "
        "[shared_object](#shared_object).",
        "The report has `the GIL of Python` among the classes of waits, and the threads wait for little else.",
    ),
    Rule(
        "shared_object",
        f"""
with o as (
  select p, object, count(distinct thread) threads, round(sum(more)) n, covered(t0, t1) * max(scale) stake
  from wait where kind = 'object' group by p, object)
select *, iif(threads > 1, threads || ' threads wait', 'A thread waits') who, (
    select object_waited_for(name) from wait w where w.p = o.p and w.object = o.object group by name order by sum(dt) desc) what,
  {at("o", "w.object = o.object and w.kind = 'object'")} place
from o where n >= :objects or stake > :queued * (select wall from run)
order by stake desc""",
        "{who} {n:n} times for {what}{at}",
        "Give each thread its own, and add them up at the end.",
        ("shared_object",),
        "A Python without the GIL locks a dict, a list or another object while a thread changes it, and others wait. Where all "
        "threads change one object, they run one at a time, as with the [GIL](#gil). `classes`: threads make classes, or set "
        "their attributes. Do that before the threads start.",
        "The report has `mutex/python/object-TYPE` or `two-objects-TYPE` among its locks. [Is it worth going "
        "free-threaded?](../howto/free_threaded.md) shows both builds of Python.",
        is_bound=True,
    ),
    Rule(
        "gc_pauses",
        f"""
with c as (select * from wait where kind = 'pause' and name like '%-gc'),
s as (  -- the thread that was stopped most often
  select p, thread, round(sum(more)) n from c where name like '%/stopped-by-%' group by p, thread)
select p, covered(t0, t1) * max(scale) stake, coalesce((select max(n) from s where s.p = c.p), 1) n,
  {at("c", "w.name like '%/stop-the-world-gc'", "count(*)")} place
from c group by p order by stake desc""",
        "Python stops its threads {n:n} times to collect garbage{at}",
        "Collect seldom: not in a loop, and with a larger gc.set_threshold().",
        ("gc_pauses",),
        "A Python without the GIL stops all threads while one of them collects garbage: it looks at all objects. The line calls "
        "`gc.collect()`, or makes objects until Python collects. `gc.freeze()` leaves objects out that stay.",
        "The report has `cond/python/stopped-by-gc` among its conditions: COUNT_STAR has a wait for each thread and pause.",
    ),
)
