"""Each command, program and file in the pages is run by a test, or says why not.

`RUN` has a row for each block of the pages for people: what begins so is run by this test, or isn't
since. Of a kind whose blocks a test takes all there is one row. A block without a row fails here,
as does a row without its block or its test. Beside that every command line must be one that the
commands take, and every file of settings one that its reader takes.
"""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import click
import pytest
import yaml
from command_lines import Unfinished, commands_of, is_ours, made, parsed
from doc_blocks import ROOT, Block, blocks, guides, prose

from distributary.ingest.cli.main import cli
from distributary.ingest.runtime import load_settings
from distributary.jobs.session.job_names import MODULES
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC
from distributary.pipeline.subscriptions import owned_names, permission, policy_table

SHOWN = "shows what a command says"
DRAWN = "is a picture"
#: A block that changes the machine, starts a cluster or takes hours isn't run; its parts are
#: checked.
SAME = "the same is done by "
#: The blocks that are read here.
READ = "tests/test_doc_blocks.py::test_settings_are_what_their_reader_takes"
SHELL = "tests/ingest/cli/test_guide_commands.py::"
CONNECT = "tests/jobs/views/test_spark_connect.py::"
SPARK = "tests/jobs/views/test_guide_spark.py::"
CLIENTS = "tests/clients/test_guide.py::"
ENGINES = "tests/jobs/tables/test_engines.py::test_other_engines_read_the_same"
MANAGEMENT = "tests/ingest/management/test_guide_management.py::"
SECURITY = (
    "tests/ingest/security/test_guide_security.py::test_five_minutes_lead_to_a_secured_gateway"
)
PACKAGES = "tests/deploy/test_packages.py::"
EXAMPLES = "tests/examples/test_examples.py::"
DEPLOY = "tests/deploy/test_deploy_files.py::"
#: Page -> how a block begins, or `kind:` for all of a kind -> the test that takes it from the page
#: and runs it, or why none does.
RUN = {
    "README.md": {
        "make demo": f"{SAME}tests/examples/test_demo.py::test_all_numbers_agree",
        "336,776 published": SHOWN,
        "make run": f"{SAME}each test with a gateway",
        ".venv/bin/distributary serve": (
            f"{SAME}tests/ingest/gateway/test_standby.py"
            "::test_a_standby_serves_when_the_owner_is_killed"
        ),
        ".venv/bin/distributary consume": f"{SHELL}test_the_readme",
        "import asyncio": f"{CLIENTS}test_the_program_of_the_readme",
        ".venv/bin/distributary jobs materialize": f"{SPARK}test_the_readme_up_to_its_tables",
        "from distributary import": f"{SPARK}test_the_readme_up_to_its_tables",
        ".venv/bin/distributary jobs audit": f"{SAME}{SPARK}test_each_block_does_what_it_says",
        ".venv/bin/distributary info": f"{SHELL}test_the_readme",
        ".venv/bin/distributary backup": f"{SHELL}test_the_readme",
        "make help": "names the targets, which the Makefile has; each takes minutes",
    },
    "docs/architecture.md": {
        "producers": DRAWN,
        "pipeline/": "tests/test_architecture.py::test_the_picture_is_of_this_house",
    },
    "docs/durability.md": {"distributary verify": f"{SHELL}test_whether_a_home_is_sound"},
    "docs/fuzzing.md": {
        "make fuzz": "takes minutes to hours",
        "round 0 has found": SHOWN,
        ".venv/bin/python -m tests.fuzz": (
            f"{SAME}tests/fuzz/test_fuzz_harness.py::test_a_transcript_is_a_file_and_back"
        ),
        "make bench": "takes an hour",
    },
    "docs/guides/audit.md": {
        "distributary jobs audit": (
            f"{SAME}tests/pipeline/transforms/audit/test_audit_faults.py"
            "::test_the_command_says_what_and_by_its_exit_code_whether"
        ),
        "ok ": SHOWN,
        "python:": ENGINES,
    },
    "docs/guides/backup.md": {
        "distributary backup": f"{SHELL}test_the_guide_to_backups",
        "0 3": f"{SHELL}test_the_guide_to_backups",
    },
    "docs/guides/clients.md": {
        "java:": f"{CLIENTS}test_the_program_for_jms",
        "javascript:": f"{CLIENTS}test_the_program_for_rhea",
        "python:": f"{CLIENTS}test_the_program_for_proton",
        "go:": f"{CLIENTS}test_the_program_for_go",
        "distributary publish": f"{SHELL}test_the_guide_to_clients",
    },
    "docs/guides/console.md": {
        "pip install": (
            f"{SAME}{PACKAGES}test_an_installation_without_a_compiler, and by each test of the "
            "console"
        ),
        "distributary console --home /mnt": (
            f"{SAME}tests/ingest/console/test_console_failover.py"
            "::test_operations_go_on_at_the_standby"
        ),
    },
    "docs/guides/deploy.md": {
        "distributary doctor": f"{SHELL}test_before_the_first_start",
        "make dist": f"{SAME}{PACKAGES}test_one_file_from_anywhere",
        "python3 -m venv": f"needs a systemd; {SAME}{DEPLOY}test_systemd_takes_the_unit",
        "podman": f"needs containers; {SAME}{DEPLOY}test_compose_takes_its_file, as far as it goes",
        "kubectl": f"needs a cluster; {SAME}{DEPLOY}test_kubernetes_takes_the_manifests",
    },
    "docs/guides/destinations.md": {
        "python:": f"{CLIENTS}test_the_programs_that_ask_and_answer",
    },
    "docs/guides/management.md": {
        "sh:": f"{MANAGEMENT}test_each_command_does_what_it_says",
        "distributary subscription rewind": f"{SAME}{SPARK}test_each_block_does_what_it_says",
        "distributary subscription create global/united": (
            f"{SAME}tests/jobs/views/test_backfill.py::test_the_commands_say_the_same"
        ),
        "python:": f"{MANAGEMENT}test_the_program_prints_what_it_says",
    },
    "docs/guides/monitoring.md": {
        "distributary top": f"{SHELL}test_watching",
        "distributary 127.0.0.1": SHOWN,
        "toml:": READ,
        "yaml:": "tests/test_doc_blocks.py::test_yaml_can_be_read",
    },
    "docs/guides/policies.md": {
        "policies file": (
            "tests/pipeline/subscriptions/test_guide_policies.py"
            "::test_the_mistake_in_the_guide_is_told_so"
        ),
        "toml:": READ,
    },
    "docs/guides/python.md": {
        "python:": "tests/client/test_python_guide.py::test_a_program_does_what_it_says",
        'connect("amqp': (
            f"{SAME}tests/client/test_client_connection.py::test_every_way_to_log_in"
        ),
    },
    "docs/guides/security.md": {
        "sh:": SECURITY,
        "python:": SECURITY,
        "distributary serve": SECURITY,
        "distributary user": (
            f"{SAME}tests/ingest/security/test_users.py"
            "::test_a_user_that_was_added_can_log_in_both_ways"
        ),
        "toml:": READ,
    },
    "docs/guides/selectors.md": {
        "java:": f"{CLIENTS}test_the_selectors_of_the_guide",
        "filters": f"{CLIENTS}test_the_selectors_of_the_guide",
        "from distributary": ENGINES,
        "from pyspark": ENGINES,
        "+--": SHOWN,
    },
    "docs/guides/spark.md": {
        "sh:": f"{SPARK}test_each_block_does_what_it_says",
        "python:": f"{SPARK}test_each_block_does_what_it_says",
        "distributary jobs prepare": (
            f"{SAME}tests/jobs/session/test_class_archive.py::"
            "test_a_session_begins_with_what_was_prepared"
        ),
        "console:": (f"{SAME}tests/jobs/cli/test_cluster.py::test_a_cluster_makes_the_same_tables"),
    },
    "docs/guides/spark-connect.md": {
        "pip install": f"installs; {SAME}{CONNECT}test_tables_and_views_have_the_same_rows",
        "console:": (
            f"the script isn't in PyPI's package; {SAME}{CONNECT}"
            "test_a_session_that_is_there_is_taken"
        ),
    },
    "docs/guides/catalogs.md": {
        "console:": (
            f"{SAME}tests/jobs/tables/test_engines.py::test_a_catalog_has_the_tables_and_views"
        ),
        "sql:": "dbt's own words, for a project of dbt",
    },
    "docs/guides/other-engines.md": {
        "sh:": "installs from an index",
        "python:": "tests/jobs/tables/test_engines.py::test_recipes_of_the_page",
    },
    "docs/guides/spark-sink.md": {
        "python:": "tests/jobs/publishing/test_topic_sink.py::test_the_page_of_the_sink",
        "toml:": READ,
    },
    "docs/guides/spark-source.md": {
        "python:": "tests/jobs/subscription/test_subscriber.py::test_the_page_of_the_source",
    },
    "docs/guides/schemas.md": {
        "pip install": "installs from an index",
        "distributary schema set": (
            f"{SAME}tests/ingest/cli/test_schema_commands.py"
            "::test_a_schema_from_its_first_version_to_its_end"
        ),
        "{": (
            f"{SAME}tests/ingest/cli/test_schema_commands.py"
            "::test_a_schema_from_its_first_version_to_its_end"
        ),
    },
    "docs/guides/transactions-over-logs.md": {
        "distributary transaction": (
            f"{SAME}tests/crash/test_shared_moments.py"
            "::test_users_end_what_logs_decide_by_force_alone"
        ),
    },
    "docs/guides/typed-tables.md": {
        "sql:": f"{SAME}tests/jobs/views/test_notebooks.py::test_typed_tables",
        "python:": (
            "tests/pipeline/transforms/past/test_topic_as_of.py"
            "::test_another_type_is_text_from_then_on"
        ),
    },
    "docs/guides/xa.md": {
        "Connection connection": (
            f"{SAME}tests/jms/test_xa.py::test_an_order_is_taken_as_a_whole_or_not_at_all"
        ),
        "distributary transaction": (
            f"{SAME}tests/ingest/transactions/test_prepared.py"
            "::test_the_command_lists_and_ends_them"
        ),
    },
    "docs/guides/traces.md": {
        "pip install": "installs, and starts a collector, which is no package of Python's",
        "python:": f"{CLIENTS}test_the_context_of_the_guide_to_traces",
        "send orders": SHOWN,
        "toml:": READ,
    },
    "docs/guides/upgrade.md": {
        "distributary upgrade": f"{SHELL}test_before_a_new_version",
    },
    "docs/limits.md": {"messages that": SHOWN, "the gateway": SHOWN},
    "docs/guides/partitions.md": {
        "distributary log": f"{SHELL}test_a_hot_topic_is_partitioned",
    },
    "docs/logs.md": {
        "distributary log": f"{SHELL}test_a_home_becomes_a_lake",
        "main ": f"{SHELL}test_a_home_becomes_a_lake",
        "python:": "tests/jobs/views/test_lake_views.py::test_the_program_of_the_guide",
        "distributary serve": (
            f"{SAME}tests/ingest/gateway/test_lake_serve.py"
            "::test_two_gateways_serve_two_logs_of_one_home"
        ),
        "toml:": READ,
    },
    "docs/object-stores.md": {
        "toml:": READ,
        "distributary serve": (
            f"the bucket isn't there; {SAME}tests/ingest/commit/objects/test_object_home.py"
            "::test_all_of_a_home_is_there_after_a_kill"
        ),
    },
    "docs/tables.md": {"sql:": ENGINES, "python:": ENGINES},
    "docs/views.md": {
        "sql:": ENGINES,
        "from distributary import session, stuck_summary": (
            "tests/jobs/views/test_stuck_live.py::test_a_gateway_says_why"
        ),
        "from": ENGINES,
    },
    "examples/go/README.md": {"go run": f"{SAME}{EXAMPLES}test_an_example"},
    "examples/java/README.md": {"mvn package": f"{SAME}{EXAMPLES}test_an_example, without Maven"},
    "examples/xa/README.md": {
        "mvn package": (
            f"{SAME}tests/jms/test_xa.py::test_an_order_is_taken_as_a_whole_or_not_at_all, "
            "without Maven"
        ),
    },
    "examples/node/README.md": {"npm ci": f"{SAME}{EXAMPLES}test_an_example"},
    "examples/python/README.md": {"pip install": f"{SAME}{EXAMPLES}test_an_example"},
    "examples/spark/README.md": {"pip install": f"{SAME}{EXAMPLES}test_the_spark_jobs"},
    "examples/spring-boot/README.md": {
        "mvn package": f"{SAME}{EXAMPLES}test_an_example, without Maven"
    },
    "examples/observability/README.md": {
        "distributary serve": f"Prometheus is no package of Python's; {SAME}the guides' tests",
        "otelcol": "the collector is no package of Python's",
    },
}
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


def by_of(block: Block) -> str | None:
    """The table's word on a block: by the longest beginning that fits, else by its kind."""
    rows = RUN.get(block.page, {})
    fits = [said for said in rows if not said.endswith(":") and block.first.startswith(said)]
    if fits:
        return rows[max(fits, key=len)]
    return rows.get(f"{block.kind}:") if block.kind else None


def all_blocks() -> list[Block]:
    return [block for page in guides() for block in blocks(page)]


def test_each_block_is_run_or_says_why_not() -> None:
    """A new one needs a row; its test takes the block from the page, so that it can't differ."""
    found = all_blocks()
    missing = [f"{one.page}:{one.line}: {one.first}" for one in found if by_of(one) is None]
    assert not missing, "\n".join(["in RUN there is no row for", *missing])
    assert by_of(Block("README.md", "python", "import nothing", 1)) is None


def test_each_row_is_of_a_block_and_of_a_test() -> None:
    """Rows of blocks that are gone, and tests that are gone or don't open the page."""
    found = all_blocks()
    wrong: list[str] = []
    for page, rows in RUN.items():
        for said, by in rows.items():
            if not any(
                one.page == page
                and (one.kind == said[:-1] if said.endswith(":") else one.first.startswith(said))
                for one in found
            ):
                wrong.append(f"{page}: no block {said!r}")
            for file, test in TEST.findall(by):
                text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
                if f"def {test}(" not in text:
                    wrong.append(f"{page}: no test {file}::{test}")
                elif TEST.fullmatch(by) and Path(page).name not in text and by != READ:
                    wrong.append(f"{page}: {file} doesn't open it")
            if not by:
                wrong.append(f"{page}: {said!r} says nothing")
    assert not wrong, "\n".join(wrong)


#: Kinds that are typed into a shell; what is indented is typed where it begins with a command.
TYPED = {"sh", "console", ""}
COMMAND = re.compile(r"(?:[\w./-]*/)?(?:distributary|make|pip|printf)\b(?! 127)")


def test_each_command_line_can_be_meant() -> None:
    """Commands, options, values, numbers of arguments; targets and variables of the Makefile."""
    wrong: list[str] = []
    count = 0
    for block in all_blocks():
        if block.kind not in TYPED or (not block.kind and not COMMAND.match(block.first)):
            continue
        for command in commands_of(block.text):
            count += 1
            place = f"{block.page}:{block.line}: {' '.join(command)}"
            try:
                if is_ours(command):
                    parsed(command[1:])
                elif command[0] == "make" and (lacks := made(command[1:])):
                    wrong.append(f"{place}: no {lacks} in the Makefile")
            except click.UsageError as error:
                wrong.append(f"{place}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)
    assert count > 80


def test_each_command_in_a_sentence_can_be_meant() -> None:
    """A sentence may leave out what must follow."""
    wrong: list[str] = []
    count = 0
    for page in guides():
        for span in re.findall(r"`(distributary [^`]+)`", prose(page)):
            for command in filter(is_ours, commands_of(span)):
                count += 1
                try:
                    parsed(command[1:])
                except Unfinished:
                    continue
                except click.UsageError as error:
                    wrong.append(f"{page}: {span}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)
    assert count > 30


@pytest.mark.parametrize(
    "line",
    [
        "distributary serv",
        "distributary serve --hom x",
        "distributary top --sort size",
        "distributary queue show",
        "distributary queue show a b",
        "distributary jobs",
        "distributary jobs materialise --home x",
        "distributary publish orders --priority high",
    ],
)
def test_a_line_that_can_not_be_meant_is_seen(line: str) -> None:
    [command] = commands_of(line)
    with pytest.raises(click.UsageError):
        parsed(command[1:])
    assert made(["tset"]) == "tset"


def helps() -> list[tuple[str, str]]:
    """Each command with what its `--help` says."""
    found: list[tuple[str, str]] = []

    def add(name: str, command: click.Command) -> None:
        text = f"{command.help}\n{command.epilog}"
        found.append((name, re.sub(r"\\\n\s*", "", text)))
        if name != "jobs" and isinstance(command, click.Group):
            context = click.Context(command)
            for inner in command.list_commands(context):
                inside = command.get_command(context, inner)
                assert inside is not None
                add(f"{name} {inner}".strip(), inside)

    add("", cli)
    for job, module in MODULES.items():
        add(f"jobs {job}", import_module(module).command)
    return found


def test_each_example_of_a_help_can_be_meant() -> None:
    """As the lines of the pages; `...` stands for more words."""
    wrong: list[str] = []
    count = 0
    for name, text in helps():
        for line in re.findall(r"^ +(distributary (?!\.\.\.)[^`\n]+)$", text, re.MULTILINE):
            for command in commands_of(line):
                if not is_ours(command) or "..." in command:
                    continue
                count += 1
                try:
                    parsed(command[1:])
                except click.UsageError as error:
                    wrong.append(f"{name}: {line}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)
    assert count > 40


def read(text: str, folder: Path) -> None:
    """Take it as the gateway takes such a file. Raises InvalidRequest."""
    tree = tomllib.loads(text)
    keys = {key for value in tree.values() if isinstance(value, dict) for key in value}
    if tree.keys() & {"subscription", "topic"} and all(isinstance(x, list) for x in tree.values()):
        policy_table.parse(tree, DEFAULT, DEFAULT_TOPIC)
    elif keys & {"publish", "consume", "create", "manage"}:
        permission.parse(tree)
    elif keys & {"client_ids", "subscriptions"}:
        owned_names.parse(tree)
    else:
        file = folder / "gateway.toml"
        file.write_text(text)
        load_settings.load(file, {})


def test_settings_are_what_their_reader_takes(tmp_path: Path) -> None:
    """Settings, policies, permissions and client ids, each by its own reader."""
    found = [block for page in guides() for block in blocks(page, "toml")]
    assert len(found) > 12
    for block in found:
        try:
            read(block.text, tmp_path)
        except InvalidRequest as error:
            pytest.fail(f"{block.page}:{block.line}: {error}")
    for text in (
        "[http]\nlisen = 1",
        '[[topic]]\nmatch = "a"\nlock = 1',
        "[a]\npublish = 1",
        "[a]\nclient_ids = 1",
    ):
        with pytest.raises(InvalidRequest):
            read(text, tmp_path)


def test_yaml_can_be_read() -> None:
    """Lines for Prometheus and Kubernetes."""
    found = [yaml.safe_load(block.text) for page in guides() for block in blocks(page, "yaml")]
    assert all(isinstance(one, dict) for one in found)
    assert {key for one in found for key in one} >= {"livenessProbe", "scrape_configs"}
