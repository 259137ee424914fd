"""What the extension of the book sets: links to the repository where its address is told, and none otherwise."""

import json
from types import SimpleNamespace

import pytest
from sphinx.errors import ConfigError

from dpnotes.lab import sphinxext

GIVEN = {"repository_url": "", "navbar_persistent": []}


def options(monkeypatch, address):
    monkeypatch.setenv("DPNOTES_REPOSITORY", address)
    config = SimpleNamespace(html_theme_options=dict(GIVEN))
    sphinxext.link_repository(None, config)
    return config.html_theme_options


def test_without_an_address_there_are_no_links(monkeypatch):
    assert options(monkeypatch, "") == GIVEN


@pytest.mark.parametrize(
    ("address", "url", "branch", "provider"),
    [
        ("https://github.com/owner/name", "https://github.com/owner/name", "main", "github"),
        ("https://github.com/owner/name.git", "https://github.com/owner/name", "main", "github"),
        ("https://git.example.org/owner/name/@release/1", "https://git.example.org/owner/name", "release/1", "gitlab"),
    ],
)
def test_an_address_brings_links_and_a_launch_button(monkeypatch, address, url, branch, provider):
    found = options(monkeypatch, address)
    assert found["navbar_persistent"] == []
    assert [found[f"repository_{name}"] for name in ("url", "branch", "provider")] == [url, branch, provider]
    assert found["use_repository_button"]
    assert found["launch_buttons"]["binderhub_url"].startswith("https://")


@pytest.mark.parametrize("address", ["github.com/owner/name", "https://github.com/owner", "git@host:owner/name", "x"])
def test_what_is_no_address_is_refused(monkeypatch, address):
    with pytest.raises(ConfigError, match="DPNOTES_REPOSITORY must be https://HOST/OWNER/NAME"):
        options(monkeypatch, address)


def test_no_address_is_in_the_tree(repository):
    """The same sources are built anywhere; who publishes them tells the address."""
    container = json.loads((repository / ".devcontainer" / "devcontainer.json").read_text())
    assert "make setup" in container["postCreateCommand"]
    assert "dpnotes" in container["name"]
    binder = (repository / ".binder" / "requirements.txt").read_text()
    assert "-e .[book,lab]" in binder
    for name in ("_config.yml", ".devcontainer/devcontainer.json", ".binder/requirements.txt", "README.md"):
        assert "github.com/" not in (repository / name).read_text()
