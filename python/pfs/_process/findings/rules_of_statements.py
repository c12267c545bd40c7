"""Declares the rules about statements: what a program asks of a database, and how often."""

from __future__ import annotations

from pfs._process.findings.rule import Rule

__all__ = ["RULES_OF_STATEMENTS"]

_ENDS = "('BEGIN', 'COMMIT', 'END', 'COMMIT WORK')"  # of transactions

RULES_OF_STATEMENTS = (
    Rule(
        "n_plus_one",
        f"""
with gap as (
  select p, text, avg(min(next - t1, :around)) each from (
    select p, text, t1, lead(t0) over h next, lead(text) over h following
    from statement where text is not null window h as (partition by p, thread order by t0))
  where following = text group by p, text),
looped as (select d.p, d.text, d.n, d.rows, d.dt + d.n * coalesce(gap.each, 0) dt from digest d left join gap using (p, text)),
nested as (
  select c.p, c.text, coalesce(x.text, 'request') parent, max(c.place) place,
    count(*) * 1.0 / count(distinct c.thread || ':' || c.nest) each
  from statement c left join statement x on x.p = c.p and x.thread = c.thread and x.event = c.nest
  where c.nest is not null and c.text not in {_ENDS} and c.text not like 'INSERT%'
  group by 1, 2, 3 having each >= :each),
told as (
  select *, row_number() over (partition by p, thread order by t0, event) number,
    count(*) over (partition by p, text) * 5 <= count(*) over (partition by p) is_rare, count(*) over (partition by p, text) seen
  from statement where text is not null),
following as (
  select *, max(iif(rows >= :each and is_rare, number, null)) over (
    partition by p, thread order by number rows between unbounded preceding and 1 preceding) first
  from told),
looked_up as (
  select b.p, b.text, a.text parent, max(b.place) place, count(*) n, max(b.seen) seen
  from following b join told a on a.p = b.p and a.thread = b.thread and a.number = b.first
  where b.text like 'SELECT%WHERE%' and a.text like 'SELECT%' and a.text <> b.text
  group by b.p, b.thread, b.text, b.first having count(*) between 0.95 * a.rows and 1.05 * a.rows)
select p, text thing, parent, place, cast(each as int) each, l.n n, l.dt * (1 - 1 / each) stake
from nested join looped l using (p, text)
union all
select p, text, max(parent), max(r.place), sum(r.n) / count(*), l.n,
  l.dt * sum(r.n) / max(seen) * (1 - count(*) * 1.0 / sum(r.n))
from looked_up r join looped l using (p, text) group by p, text having sum(r.n) >= :looked_up
union all
select b.p, b.text, a.text, (select max(place) from statement s where s.p = b.p and s.text = b.text), b.n / a.n, b.n,
  b.dt * (1 - a.n * 1.0 / b.n)
from digest a join looped b using (p)
where a.text <> b.text and b.text like 'SELECT%WHERE%' and a.text like 'SELECT%' and b.n >= :looked_up and b.n >= 5 * a.n
  and a.rows between 0.95 * b.n and 1.05 * b.n and b.rows <= 2 * b.n
order by stake desc""",
        "{thing:q}: {n:n} times{at}, {each} for each {parent:q}",
        "Ask once, with a join or with IN (...).",
        ("n_plus_one",),
        "A statement runs once for each row of another one. The time contains what the program does between two of them, 0.3 ms "
        "at most: it makes an object of the row, and the next statement.",
        "`events_statements_summary_by_digest`: COUNT_STAR of the one is SUM_ROWS_SENT of the other.",
        covers=("searched", "tiny_io"),
    ),
    Rule(
        "round_trips",
        """
with c as (
  select p, text, place, t1, dt, lead(t0) over h next, lead(text) over h following from statement
  where text is not null and (name like 'statement/redis-py/%' or name like 'statement/pymongo/%') and nest is null
  window h as (partition by p, thread order by t0, event)),
looped as (  -- those of a pipeline run at once
  select p, text, count(*) seen, sum(following is text and next between t1 and t1 + :around) again,
    avg(iif(following is text and next between t1 and t1 + :around, next - t1, null)) gap
  from c group by p, text)
select d.p, d.text thing, d.n n, (select place from c where c.p = d.p and c.text = d.text
    group by place order by is_of_user(p, place) desc, count(*) desc) place,
  (d.dt + d.n * gap) * again / seen stake
from looped join digest d using (p, text)
where d.n >= :commands and again > :looped * seen and not exists (  -- each request or task of a server asks for itself
  select 1 from sent where sent.p = d.p and (name like 'statement/http/%' or name like 'statement/celery/%'))
order by stake desc""",
        "{thing:q}: {n:n} times{at}, each sent after the answer to the last one",
        "Send them in a pipeline, or many in one command (MGET, insert_many).",
        ("round_trips",),
        "The same command goes to the server again and again, and each waits for the answer to the one before. A pipeline sends "
        "them together. The time contains what the program does between two of them, 0.3 ms at most.",
        "`events_statements_summary_by_digest`: COUNT_STAR and SUM_TIMER_WAIT of the command. The history has them one by one.",
        covers=("tiny_io",),
    ),
    Rule(
        "commit_each",
        """
with ends as (
  select * from digest where text in ('COMMIT', 'END', 'COMMIT WORK') and n >= :many),
change as (  -- those between the first commit and the last one: before them many rows may have been loaded at once
  select d.p, d.text, e.text ends,
    d.n * iif(d.last > d.first, (min(d.last, e.last) - max(d.first, e.first)) * 1.0 / (d.last - d.first), 1) n
  from digest d join ends e using (p)
  where d.last >= e.first and d.first <= e.last
    and (d.text like 'INSERT%' or d.text like 'UPDATE%' or d.text like 'DELETE%' or d.text like 'REPLACE%')),
changes as (select p, ends, sum(n) n, max(n) most, text from change group by p, ends)
select e.p, cast(round(x.n) as int) changes, x.text thing, e.dt * (1 - 1.0 / e.n) stake,
  coalesce(
    (select max(place) from statement s where s.p = e.p and s.text = e.text),
    (select place from wait w where w.p = e.p and op = 'sync' and name like 'wait/io/file/libsqlite3/%'
      group by place order by count(*) desc limit 1),
    (select place from total t where t.p = e.p and t.name like 'wait/io/file/libsqlite3/%' order by dt desc limit 1)) place
from ends e join changes x on x.p = e.p and x.ends = e.text where x.n <= 2 * e.n
union all
select w.p, max(count(distinct w.nest), (select max(n) from digest d where d.p = w.p and d.text = max(s.text))), max(s.text),
  sum(w.dt * w.scale), s.place
from wait w join statement s on s.p = w.p and s.thread = w.thread and s.event = w.nest
where w.op = 'sync' and (s.text like 'INSERT%' or s.text like 'UPDATE%' or s.text like 'DELETE%')
group by w.p having count(distinct w.nest) >= :many
order by stake desc""",
        "{thing:q}: {changes:n} changes, each committed alone{at}",
        "Put many changes into one transaction.",
        ("commit_each", "commit_each_later"),
        "Each change of a database is committed alone, and the database syncs its files at each commit.",
        "`events_statements_summary_by_digest` has about as many rows of COMMIT as of INSERT. `file_summary_by_instance` has the "
        "syncs as COUNT_MISC of the database's file.",
        covers=("fsync_each", "searched", "io_under_lock", "n_plus_one"),
    ),
    Rule(
        "prepared_again",
        f"""
with s as (  -- SQLite's preparing has no text: that of the next statement
  select p, name, place, name like '%/prepare' makes, dt,
    coalesce(text, lead(text) over (partition by p, thread order by t0, event)) text
  from statement),
sums as (
  select p, name, sent.n * 1.0 / count(*) more, sent.dt * 1.0 / sum(s.dt) scale from s join sent using (p, name)
  where makes group by p, name having sum(s.dt) > 0),
again as (
  select p, text thing, sum(makes) * max(more) n, sum(iif(makes, dt, 0)) * max(scale) stake
  from s left join sums using (p, name) where text not in {_ENDS} group by p, text
  having n >= :many and sum(makes) * 2 >= sum(not makes))
select *, (select place from s where s.p = again.p and s.text = thing and makes
  group by place order by is_of_user(p, place) desc, count(*) desc) place
from again
order by stake desc""",
        "{thing:q}: prepared {n:n} times{at}",
        "Prepare it once and bind its values, or give it many rows.",
        ("prepared_again",),
        "A statement is prepared for each execution or for every second one, often because its values are part of its text. The "
        "database parses and plans it each time.",
        "`events_statements_summary_global_by_event_name` has about as many `prepare` as executions.",
    ),
)
