"""Bad input on Spark, each as `tickscope show` ends: refused by the name of what is wrong, or the same figures."""

import json
import shutil
import subprocess

import lossy_run
import pyarrow
import pyarrow.parquet as parquet
import pytest
from test_python_spark import needs_spark, opened, spark, table_of  # noqa: F401
from tickscope import TickscopeError


def rewritten(run, schema="1", column=None):
    """Writes the segment of one point anew: of another schema, or with a column more."""
    (file,) = run.glob("stamps/*/point=sent/part-*.parquet")
    table = parquet.read_table(file)
    if column is not None:
        table = table.append_column(column, pyarrow.array([None] * len(table), "int32"))
    parquet.write_table(table.replace_schema_metadata({"tickscope.schema": schema}), file, compression="zstd")


def of_schema(number):
    def change(run):
        manifest = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(manifest | {"schema": number}))

    return change


BAD = {
    "a run of a later schema": (of_schema(3), "run.json: expected schema 2 or older, found 3"),
    "a segment of a later schema": (
        lambda run: rewritten(run, "3"),
        "segment of relay.sent to be readable, found: .*part-00000000.parquet: .*schema 2 or older, found 3",
    ),
    "a segment with a column that no version has": (
        lambda run: rewritten(run, column="mine"),
        "segment of relay.sent to be readable, found: .*part-00000000.parquet: .*found a column 'mine'",
    ),
    "a node without a clock map": (
        lambda run: shutil.rmtree(run / "brackets/reference=client.tsc/domain=relay.tsc"),
        "relay.received is not related to the reference",
    ),
    "a manifest that is cut": (lambda run: (run / "run.json").write_text('{"schema": 1'), "run.json: .*complete JSON"),
    "a run without its stamps": (lambda run: shutil.rmtree(run / "stamps"), "expected a point that was stamped"),
}


@needs_spark
@pytest.mark.parametrize("name", BAD)
def test_what_show_refuses_is_refused_on_spark_by_the_name_of_what_is_wrong(tickscope, spark, tmp_path, name):
    change, says = BAD[name]
    run = lossy_run.make(tmp_path / "run")
    change(run)
    shown = subprocess.run([tickscope, "show", run], capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    with pytest.raises(TickscopeError, match=says):
        opened(run, connection=spark, engine="spark").stages()


@needs_spark
def test_segments_of_two_schemas_in_one_run_give_the_table_that_show_gives(tickscope, spark, tmp_path):  # noqa: F811
    run = lossy_run.make(tmp_path / "run")
    rewritten(run, "2")
    assert subprocess.run([tickscope, "show", run], capture_output=True, check=False).returncode == 0
    found = opened(run, connection=spark, engine="spark").stages()
    assert [tuple(row) for row in found.collect()] == table_of(opened(run))
