"""A real workload on sqlite3 through pfs.dbapi: the tables say what the script itself has counted."""

from __future__ import annotations

from tests.python._programs.fresh_process import fresh_process


@fresh_process(options="performance_schema_digests_size=1000")
def test_workload_agrees_with_what_the_script_counts() -> None:
    """55 and more statements, 20,000 executions: digests, names, rows, errors, transactions and histograms, all exact."""
    import pfs
    from tests.bench.sqlite_workload import Workload

    workload = Workload(seed=4)
    workload.run(executions=20_000)
    assert workload.executions >= 20_000
    assert len(workload.counted) >= 50
    workload.compare()
    assert not {name: value for name, value in pfs.status.items() if name.endswith("_lost") and value}
