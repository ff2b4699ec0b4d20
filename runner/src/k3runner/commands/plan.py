"""`k3-eval plan`: what a run would do on this machine, before it does it."""

from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "plan"]

HELP: Final = f"""Show what a run would do here: cells, boots in order, gates and the plan's digest.

Nothing is started. Two runs can be compared when their plan digests are equal.

\b
Example:
  k3-eval plan --tier smoke
  k3-eval plan --tier smoke --json > plan.json
  k3-eval plan --tier standard --subject kimi-k3-upstream --node their-node.json

With --deployment only that deployment of the subject is planned, and every verdict of such a plan
says that it is about it alone.

A node file is the `environment.json` of a bundle: it plans for that machine instead of this one.

{exit_help(ExitCode.PASS, ExitCode.USAGE)}
"""


def plan(
    *,
    tier: flags.Tier = "smoke",
    subject: flags.Subject = None,
    engine_url: flags.EngineUrl = None,
    node: flags.Node = None,
    prompts: flags.Prompts = None,
    trace: flags.Trace = None,
    deployment: flags.Deployments = None,
    as_json: flags.Json = False,
) -> None:
    """Show the plan."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3bundle.canonical import canonical_json  # noqa: PLC0415
    from k3runner.commands.plan_table import plan_table  # noqa: PLC0415
    from k3runner.node_facts import load_node_facts, read_node_facts  # noqa: PLC0415
    from k3runner.plan import Pairing, build_plan  # noqa: PLC0415
    from k3runner.plan_cost import plan_cost  # noqa: PLC0415
    from k3runner.subjects import load_subject  # noqa: PLC0415
    from k3runner.tiers.own_files import load_tier_with  # noqa: PLC0415

    pairing: Pairing = "paired" if engine_url is None else "single"
    facts = read_node_facts() if node is None else load_node_facts(node)
    loaded = load_tier_with(tier, prompts, trace)
    definition = load_subject(subject or loaded.subject)
    found = build_plan(loaded, definition, facts, pairing, deployment or ())
    if as_json:
        typer.echo(canonical_json(found).decode())
    else:
        typer.echo(plan_table(found, plan_cost(found, definition.guess)))
