"""Declares from where on something is a fault. Times are picoseconds."""

from __future__ import annotations

__all__ = ["LEAST", "LIMITS", "MOST", "SHARE"]

SHARE = 0.05  # of the time in which threads did something: a finding below is not shown
LEAST = 5_000_000_000  # picoseconds: likewise
MOST = 3  # findings

LIMITS = {
    "many": 20,  # this often is no accident
    "seen": 8,  # of these in the history: what it has of many files once is no sign that one of them has many
    "connections": 50,  # more than a pool has
    "calls": 5_000,  # calls that are too small
    "small": 256,  # bytes
    "at_hand": 20e6,  # picoseconds: bytes that a socket had already
    "one_way": 20,  # messages in one direction for each in the other
    "called": 150_000,  # picoseconds: a shorter call took its bytes from a buffer, or put them there
    "block": 65_536,  # bytes of a good buffer
    "absent": 2,  # ENOENT
    "in_progress": 115,  # EINPROGRESS: a connection that is made without waiting
    "no_network": 101,  # ENETUNREACH,
    "timed_out": 110,  # ETIMEDOUT,
    "refused": 111,  # ECONNREFUSED,
    "no_host": 113,  # and EHOSTUNREACH: a server does not answer
    "misses": 1_000,  # files that are not there: a compiler looks for 500
    "again": 0.3,  # of the calls of stat are for the file of the call before
    "threads": 200,
    "thread": 15e6,  # picoseconds: to make one and to end it
    "short": 2e9,  # how long a thread runs that has one task: half of them; a busy machine lets some wait
    "short_child": 100e9,  # likewise a process, on a busy machine: half of them
    "queued": 0.25,  # of the wall time
    "tasks": 5,  # waits of tasks for a lock,
    "task": 5e9,  # which is held for this time, if nobody knows what its holder awaits
    "kept": 0.2,  # of the waits for a lock; the history has too few of them below
    "children": 4,
    "long_child": 10e9,
    "overlap": 2_000,  # microseconds: two processes run together,
    "apart": 0.25e-6,  # or this part of the picoseconds of the second one: clocks of a busy machine are read late
    "hot": 300_000,  # locks a second,
    "hot_waits": 20_000,  # and waits, where a lock that is free makes no event
    "all_wait": 0.02,  # of the waits for a semaphore: more is a queue of work
    "at_once": 0.1,  # of a wait: threads that leave a barrier
    "held": 5e6,  # a lock that is held for a shorter time is hot
    "turns": 0.4,  # of the waits for a lock end in the call that the holder is blamed for
    "by_chance": 0.15,  # of the waits for a lock end after a call of a bystander
    "low": 0.35,  # of the time in which threads wait: the calls under the lock,
    "high": 1.3,  # and more is the work of bystanders
    "known": 0.5,  # of that time the holder must be known, to say what it does
    "by_the_way": 0.05,  # of the calls under a lock: a file or statement with less is not counted
    "computes": 0.5,  # of that time without a call
    "ack_low": 35e9,  # a delayed acknowledgment takes 40 ms
    "ack_high": 60e9,
    "acks": 5,
    "objects": 5,  # waits for one object of Python; a longer time than `queued` may be one wait
    "gil": 0.3,  # of the time of a thread
    "asks": 0.5,  # of the rest of its time: it is no thread that computes in Python
    "little": 0.3,  # likewise all other waits
    "lasting": 0.15,  # of the wall time
    "each": 10,  # statements for each of another one
    "commands": 500,  # commands, each sent after the answer to the one before,
    "looped": 0.8,  # as most of them are
    "looked_up": 50,  # rows, one by one
    "around": 300e6,  # picoseconds in which a program takes a row and asks the next statement, or uses a new connection
    "empty": 10_000,  # polls that found nothing, and tries to lock that failed
    "in_vain": 0.9,  # of the reads at a place
    "poll": 300_000,  # picoseconds of such a poll
    "try": 15_000,  # of such a try
    "waits": 0.6,  # of a worker's time
    "idle": 0.1,
    "sleeps": 8,
    "soon": 1e9,  # a pause after something that failed begins within this time
    "names": 3,
}
