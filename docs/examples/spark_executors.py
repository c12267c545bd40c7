"""Adds up what the Python workers of a Spark job have counted, on all hosts, with workers that ended or died."""

import socket

import pyarrow
from pyspark.sql import SparkSession

import pfs

FOLDER = "/dev/shm/pfs-my-job"  # on each host, and of this job alone
spark = SparkSession.builder.config("spark.executorEnv.PFS_DIR", FOLDER).config("spark.executorEnv.PFS_KEEP", "1").getOrCreate()


# The job. It stands for yours.
def work(turns):
    lock = pfs.Lock("app/LOCK_work")
    for _ in range(turns):
        with lock:
            pass


spark.sparkContext.parallelize([100] * 8, 8).foreach(work)


# The sums. Nothing says on which host a task runs, so there are many. A host that answers several times counts once.
def snapshots(_):
    yield socket.gethostname(), [pfs.attach(path).snapshot() for path in pfs.processes(FOLDER)["PATH"]]


hosts = dict(spark.sparkContext.parallelize(range(16), 16).mapPartitions(snapshots).collect())
merged = pfs.Snapshot.merge([snapshot for host in hosts.values() for snapshot in host])
waits = merged.sql("select EVENT_NAME, COUNT_STAR::bigint as TURNS from events_waits_summary_global_by_event_name")  # no unsigned
spark.createDataFrame(pyarrow.table(waits)).filter("TURNS > 0").show(truncate=False)
