"""Flags that several commands share, with their help, so that one flag means one thing."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Bundle",
    "Commit",
    "Deployments",
    "EnginePython",
    "EngineUrl",
    "Events",
    "GithubAccount",
    "GithubActions",
    "Json",
    "Key",
    "Model",
    "Node",
    "Plain",
    "Prompts",
    "PullRequest",
    "Registry",
    "Repository",
    "Runs",
    "Subject",
    "SubmissionOrBundle",
    "Tier",
    "TokenFile",
    "Trace",
    "Wanted",
]

Repository = Annotated[
    str, typer.Option(metavar="OWNER/NAME", help="Repository of the pull request.")
]
PullRequest = Annotated[str, typer.Option(metavar="N", help="Number of the pull request.")]
Commit = Annotated[
    str,
    typer.Option(metavar="SHA", help="Full SHA, 40 hex digits, of the commit under evaluation."),
]
Tier = Annotated[str, typer.Option(metavar="NAME", help="Tier of the standard evaluation.")]
Subject = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE", help="What is evaluated: a shipped subject or a TOML file."),
]
Deployments = Annotated[
    list[str] | None,
    typer.Option(
        "--deployment",
        metavar="NAME",
        help="Plan this deployment of the subject only; may be given several times.",
    ),
]
EnginePython = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Python of the engine's environment [K3EVAL_ENGINE_PYTHON]."),
]
EngineUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Evaluate a server that already runs; nothing is compared."),
]
Model = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the model [K3EVAL_MODEL].")
]
Node = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Plan for the machine that this file describes.")
]
Prompts = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Prompts for serving cells, as JSON lines."),
]
Trace = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Trace, as JSON lines, that one more serving cell replays."),
]
Runs = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of run folders [K3EVAL_RUNS].")
]
Key = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="SSH key that signs, or the .pub of one in the agent [K3EVAL_KEY]."
    ),
]
Registry = Annotated[
    str | None, typer.Option(metavar="URL", help="Registry's address [K3EVAL_REGISTRY].")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File with an API token of the registry [K3EVAL_TOKEN]."),
]
GithubAccount = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="GitHub account that publishes the key that signed."),
]
GithubActions = Annotated[
    bool,
    typer.Option(
        "--github-actions", help="Let GitHub say which workflow sends this; in Actions only."
    ),
]
SubmissionOrBundle = Annotated[
    str, typer.Argument(metavar="ID|BUNDLE", help="Id of a submission, or its bundle's file.")
]
Wanted = Annotated[str, typer.Argument(metavar="ID", help="Id of a thing on the board.")]
Events = Annotated[
    bool, typer.Option("--events", help="Print every event as a JSON line on stdout.")
]
Plain = Annotated[bool, typer.Option("--plain", help="One line per event, also on a terminal.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON on stdout.")]
Bundle = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A sealed bundle (.k3b).")]
