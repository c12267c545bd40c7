"""Adds up what the workers of a Ray job have counted, on all nodes, with workers that ended or died."""

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

import pfs

FOLDER = "/dev/shm/pfs-my-job"  # on each node, and of this job alone
ray.init(runtime_env={"env_vars": {"PFS_DIR": FOLDER, "PFS_KEEP": "1"}})


# The job. It stands for yours.
@ray.remote
def work(turns):
    lock = pfs.Lock("app/LOCK_work")
    for _ in range(turns):
        with lock:
            pass


ray.get([work.remote(100) for _ in range(8)])

# The sums.
snapshots = ray.remote(num_cpus=0)(lambda: [pfs.attach(path).snapshot() for path in pfs.processes(FOLDER)["PATH"]])
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
found = ray.get([snapshots.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes])
merged = pfs.Snapshot.merge([snapshot for node in found for snapshot in node])
print(merged.sql("select EVENT_NAME, COUNT_STAR from events_waits_summary_global_by_event_name where COUNT_STAR > 0"))
