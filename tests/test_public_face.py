"""`import distributary`: each of its names is what it says, and none costs before it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_place import Place

import distributary

#: What a gateway and a command line that asks for nothing of Spark's never load.
HEAVY = ("pyspark", "pandas", "matplotlib", "delta", "jgo", "pyarrow", "deltalake", "proton")


@pytest.mark.parametrize("module", ["distributary", "distributary.ingest.cli.main"])
def test_an_import_is_light(module: str) -> None:
    """The command line answers at once, and a gateway has no Spark."""
    program = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert said.stdout == "[]\n", said.stderr


def test_the_client_needs_neither_gateway_nor_tables_nor_spark() -> None:
    """It is imported by applications that have nothing else of this."""
    not_needed = (*HEAVY[:-1], "click", "rich", "structlog", "prometheus_client", "obstore")
    program = (
        "import sys, distributary.client\n"
        f"print([name for name in {not_needed} if name in sys.modules])\n"
        "ours = [name for name in sys.modules if name.startswith('distributary.')]\n"
        "rooms = {'.'.join(name.split('.')[1:3]) for name in ours}\n"
        "print(sorted(room for room in rooms if room[:4] in ('inge', 'jobs') and '.' in room))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    rooms = ["ingest.native", "ingest.runtime", "ingest.security"]
    assert said.stdout == f"[]\n{rooms}\n", said.stderr


def test_types_and_values_are_the_same() -> None:
    """A type checker sees the same names as an import that asks for them."""
    tree = ast.parse(Path(distributary.__file__).read_text())
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == distributary.__all__
    assert set(distributary.__all__) <= set(dir(distributary))
    for name, (module, inside) in seen.items():
        assert getattr(distributary, name) is getattr(import_module(module), inside)


def test_another_name_is_none() -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="no attribute 'pendings'"):
        _ = distributary.pendings
    with pytest.raises(ImportError):
        from distributary import pendings  # noqa: F401, PLC0415


def test_the_names_work(spark: SparkSession, once: Place) -> None:
    """On a small home: four of ten messages settled, two of them given back."""
    home, all_of_it = str(once.home.root), distributary.tables(spark, str(once.home.root))
    name = "global/dispatchers"
    assert distributary.session() is spark
    owed = {row.sequence for row in distributary.pending(spark, home, name).collect()}
    assert owed == {2, 3, 5, 7, 8, 9}
    then = distributary.pending_as_of(spark, home, name).collect()
    assert {row.sequence for row in then} == owed
    [state] = distributary.state(spark, home, name).collect()
    assert state.subscription == name
    assert not distributary.backlog(all_of_it).isEmpty()
    assert not distributary.consumers(all_of_it).isEmpty()
    assert distributary.stuck(spark, home, name).count() == len(owed)
    assert not distributary.stuck_summary(spark, home, name).isEmpty()
    distributary.register(spark, home)
    assert spark.table("messages").count() == 10
    distributary.register_source(spark)
    with pytest.raises(Exception, match="subscription"):
        spark.read.format("subscription").load()
