import pytest

from k3runner.scrub import Identities, Scrubber

IDENTITIES = Identities(
    home="/home/alice",
    user="alice",
    host="node-17",
    places={"/home/alice/models/k3": "<model>", "/data/run": "<run>"},
)
TOKEN = "hf_" + "a1B2" * 8 + "xy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"token={TOKEN}", "token=<hf-token>"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer <credential>"),
        ("connect 10.0.3.7:29500", "connect <address>:29500"),
        ("fe80::1ff:fe23:4567:890a up", "<address> up"),
        ("mac 0a:1b:2c:3d:4e:5f", "mac <address>"),
        ("cache in /home/alice/.cache", "cache in <home>/.cache"),
        ("model /home/alice/models/k3/config.json", "model <model>/config.json"),
        ("/home/bob/x and /Users/carol/y", "<home>/x and <home>/y"),
        ("rank 0 on node-17 by alice", "rank 0 on <host> by <user>"),
        ("GPU-12345678-1234-1234-1234-1234567890ab busy", "<gpu> busy"),
        ("key AKIAABCDEFGHIJKLMNOP", "key <aws-key>"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = <secret>"),
        ("ghp_" + "x" * 36, "<github-token>"),
        ("https://me:hunter22@example.org/x", "https://<credential>@example.org/x"),
        (
            "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nb",
            "a\n<private-key>\nb",
        ),
    ],
)
def test_b55_scrub_replaces(text: str, expected: str) -> None:
    assert Scrubber(IDENTITIES).scrub(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "listening on 127.0.0.1:8000 and 0.0.0.0",
        "version 0.32.0, torch 2.13.0+cpu, 1.2.3",
        "time 07:18:28.163 took 3.5 s",
        "api_key: None, malice and aliceblue stay",
        "sha256 0123456789abcdef0123456789abcdef",
        "Route: /v1/completions, Methods: POST",
    ],
)
def test_scrub_leaves_ordinary_text_alone(text: str) -> None:
    assert Scrubber(IDENTITIES).scrub(text) == text


def test_scrub_user_name_that_is_a_common_word_is_kept() -> None:
    identities = Identities(home="/root", user="root", host="ab", places={})
    assert Scrubber(identities).scrub("root mean square ab") == "root mean square ab"


def test_report_counts_and_names_also_rules_that_found_nothing() -> None:
    scrubber = Scrubber(IDENTITIES)
    scrubber.scrub(f"{TOKEN} {TOKEN}")
    counts = {rule.name: rule.replaced for rule in scrubber.report().rules}
    assert counts["Hugging Face token"] == 2
    assert counts["AWS key"] == 0
