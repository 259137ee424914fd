"""The privacy statement: nothing is lost or changed on its way, forged ones are
refused, the page shows it all.
"""

import hashlib
import html
import itertools
import json
import re

import pypdf
import pytest

from dpnotes import _chromium
from dpnotes._extras import install_command
from dpnotes.accounting import (
    PrivacyStatement,
    approximate,
    bagging,
    compose,
    dp_sgd,
    gaussian,
    gnmax,
    laplace,
    pure,
    statement,
    subsampled,
)
from dpnotes.accounting._profile import ADJACENCIES, IMPLIED
from dpnotes.accounting._statement import NOISE, PROTECTED, TOLD
from tests.accounting.test_profiles import PROFILES

# one record for another, as one removed and one added
EXCHANGED = gaussian(sigma=2.0).for_adjacency("replace-one")
# several seconds for mu, twice
SLOW = ("dp_sgd", "subsampled", "composition", "loss_perturbation")
EXTREMES = {
    "nothing": lambda: approximate(0.0, 1.0),
    "all": lambda: approximate(0.0, 0.0),
    "hardly any noise": lambda: gaussian(sigma=1e-3),
    "much noise": lambda: pure(1e-12),
    "refuted": lambda: pure(1.0).with_(status="refuted", remark="a search found worse"),
    "conjecture": lambda: gaussian(sigma=1.0).with_(status="conjecture"),
    "for the other adjacency": (
        lambda: gaussian(sigma=2.0, adjacency="zero-out").for_adjacency("replace-one")
    ),
    "unicode": (
        lambda: pure(1.0).with_(
            assumption="Zeile ≤ 1 € — 行は短い 🙂", source="\u202eevil\u202c"
        )
    ),
    "markup": (
        lambda: pure(1.0).with_(
            remark="<script>alert(1)</script>&amp;</style>", source="\"'><b>"
        )
    ),
    "unprintable": lambda: pure(1.0).with_(remark="a\x00b\ud800c\u2028d\ne"),
    "long": (
        lambda: pure(1.0).with_(
            assumption="all of this holds, and more; " * 700, source="x" * 5000
        )
    ),
}
CASES = {
    name: make
    for name, make in {**PROFILES, **EXTREMES}.items()
    if not name.startswith(SLOW)
}
ONE_LINE = "Some words, as many as one line holds."


def forged(stated, *, sign=True, **changes):
    """JSON of a statement with other values at some places, or none, and a digest that
    fits.
    """
    content = stated.content
    for place, value in changes.items():
        *names, last = place.split(".")
        part = content
        for name in names:
            part = part[int(name)] if name.isdigit() else part[name]
        part[last] = value
        if value is None:
            del part[last]
    if sign:
        rest = {name: value for name, value in content.items() if name != "digest"}
        text = json.dumps(rest, indent=2) + "\n"
        content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(content)


def visible(page):
    """Text of a page."""
    return html.unescape(
        re.sub(r"<[^>]+>", "", page.partition("</style>\n<section")[2])
    )


@pytest.fixture(scope="module")
def stated():
    return statement(
        gaussian(sigma=4.0), delta=1e-5, epsilon=0.5, declared={"name": "heights"}
    )


@pytest.mark.parametrize("name", CASES)
def test_every_profile_has_a_statement_that_comes_back_byte_for_byte(name):
    profile = CASES[name]()
    made = statement(profile, delta=1e-6, n_public=True)
    text = made.to_json()
    again = PrivacyStatement.from_json(text)
    assert (again.to_json(), again.to_html(), again) == (text, made.to_html(), made)
    assert text.isascii()
    content = made.content
    pairs = content["guarantee"]["pairs"] + content["guarantee"]["asked"]
    assert all(
        p["epsilon"] == profile.epsilon(p["delta"])
        for p in pairs
        if p["epsilon"] != "infinity"
    )
    assert content["guarantee"]["profile"] == json.loads(json.dumps(profile.to_dict()))
    page = made.to_html()
    page.encode("utf-8")
    assert page.count("<section") == page.count("</section") == 1
    assert not re.findall(
        r"<script|<b>|src=|href=|url\(|@import", page.replace("<b>Digest</b>", "")
    )
    shown = visible(page)
    for word in filter(
        str.isprintable,
        (profile.assumption, profile.source, profile.remark, profile.mechanism),
    ):
        assert word in shown
    made.verify()


def test_levels_on_the_page_are_rounded_up(stated):
    shown = re.findall(
        r"epsilon ([\d.]+) at delta ([\d.e-]+)", visible(stated.to_html())
    )
    # those asked for, and the five less the one without an epsilon
    assert len(shown) == 6
    exact = stated.content["guarantee"]["asked"] + stated.content["guarantee"]["pairs"]
    exact = [pair for pair in exact if pair["epsilon"] != "infinity"]
    for (epsilon, delta), pair in zip(shown, exact, strict=True):
        assert pair["epsilon"] <= float(epsilon) <= pair["epsilon"] * 1.001
        assert pair["delta"] <= float(delta) <= pair["delta"] * 1.001
    assert "1.001e-05" not in str(shown)  # a short number stays


@pytest.mark.parametrize(
    ("place", "value", "wrong"),
    [
        ("guarantee.pairs.3.epsilon", 0.5, "delta=1e-05"),
        ("guarantee.pairs", [{"epsilon": 1e4, "delta": 0.0}], "delta=0"),
        ("guarantee.mu", 0.2, "mu"),
        ("guarantee.advantage", 0.0, "advantage"),
        ("guarantee.profile.advantage", 0.0, "advantage"),
        ("guarantee.profile.parameters.sigma", 3.0, "delta=1e-05"),
        ("guarantee.profile.parameters.sensitivity", None, "parameters"),
        ("guarantee.profile.parameters.group_ of 9, epsilon 0", 1, "parameters"),
        ("not_protected", ["nothing"], "not_protected"),
        ("form", None, "form"),
        ("form", "dpnotes-privacy-statement-1", "form"),
        ("protection.records", "known to all", "records"),
        ("protection.unit", "up to 5 records together", "unit"),
        ("implementation.noise", NOISE["exact"], "noise"),
    ],
)
def test_a_forger_who_signs_is_found_by_computing_again(stated, place, value, wrong):
    accepted = PrivacyStatement.from_json(forged(stated, **{place: value}))
    with pytest.raises(ValueError, match=f"got other values of .*{wrong}"):
        accepted.verify()


def test_the_page_shows_no_entry_of_a_profile_that_nothing_checks(stated):
    changes = {f"guarantee.profile.{name}": "0 at delta 0" for name in ("<b>", "level")}
    made = PrivacyStatement.from_json(forged(stated, **changes))
    made.verify()
    for page in (made.to_html(), made._repr_html_(), str(made)):
        assert "<b>" not in page.replace("<b>Digest</b>", "")
        assert "0 at delta 0" not in page


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("mechanism", "statement"),
        ("mechanism", "no_mechanism"),
        ("mechanism", "subsampled"),
        ("parameters.colour", 3.0),
        ("parameters", "none"),
        ("parameters.sigma", 10**400),
        ("advantage", None),
    ],
)
def test_what_describes_no_profile_is_refused(stated, place, value):
    made = forged(stated, **{f"guarantee.profile.{place}": value})
    refused = r"must describe a profile|must be the name of a constructor"
    with pytest.raises(ValueError, match=refused):
        PrivacyStatement.from_json(made).verify()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("audit", None),
        ("guarantee.mu", "inf and more"),
        ("guarantee.mu", True),
        ("guarantee.mu", 10**400),
        ("guarantee.pairs.3.delta", "nan"),
        ("guarantee.pairs", {"epsilon": 1.0}),
        ("guarantee.profile.status", "per-instance"),
        ("release.name", None),
        ("not_protected", [3]),
    ],
)
def test_what_has_no_page_is_refused(stated, place, value):
    with pytest.raises(ValueError, match="must be the JSON of a statement"):
        PrivacyStatement.from_json(forged(stated, **{place: value}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 100_000,
        "\ud800",
        "null",
    ],
)
def test_what_is_no_statement_is_refused(text):
    with pytest.raises(ValueError, match="json must be the JSON of a statement"):
        PrivacyStatement.from_json(text)


def test_white_space_does_not_matter_and_any_change_is_refused(stated):
    assert PrivacyStatement.from_json(json.dumps(stated.content)) == stated
    changed = forged(stated, sign=False, **{"guarantee.mu": 0.1})
    for text in (json.dumps(stated.content, sort_keys=True), changed):
        with pytest.raises(ValueError, match="must have the digest of its content"):
            PrivacyStatement.from_json(text)


def test_it_is_frozen_and_its_content_a_copy(stated):
    with pytest.raises(AttributeError):
        stated.json = "{}"
    stated.content["guarantee"]["mu"] = 0.0
    assert stated.content["guarantee"]["mu"] == 0.25
    assert len({stated, PrivacyStatement.from_json(stated.to_json())}) == 1


@pytest.mark.parametrize(
    ("profile", "unit"),
    [
        (gaussian(sigma=2.0).group(3), "up to 3 records together"),
        (gaussian(sigma=2.0).group(2).compose(5).group(3), "up to 6 records together"),
        (
            gaussian(sigma=2.0, adjacency="zero-out").for_adjacency("replace-one"),
            "one record",
        ),
        (
            gaussian(sigma=2.0, adjacency="zero-out")
            .group(3)
            .for_adjacency("replace-one"),
            "up to 3 records together",
        ),
        (
            compose(gaussian(sigma=2.0).group(2), laplace(scale=1.0)),
            "one record, or more in the parts that have a group",
        ),
        # a part whose group of two is one exchange
        (compose(EXCHANGED, laplace(scale=1.0, adjacency="replace-one")), "one record"),
        # emptied by an exchange, or by an assumption that needs none
        (EXCHANGED.for_adjacency("zero-out", assumed=True), "one record"),
        (
            gaussian(sigma=2.0).group(2).for_adjacency("zero-out", assumed=True),
            "up to 2 records together",
        ),
        # two records are not in the sample as often as one
        (subsampled(gaussian(sigma=2.0).group(2), sample_rate=0.1), "one record"),
        (subsampled(EXCHANGED, n=100, subsample=10), "one record"),
    ],
)
def test_the_unit_counts_groups(profile, unit):
    stated = statement(profile)
    assert stated.content["protection"]["unit"] == unit
    stated.verify()


@pytest.mark.parametrize("first", ADJACENCIES)
@pytest.mark.parametrize("path", list(itertools.product(IMPLIED, repeat=3)))
def test_no_path_of_conversions_gains_a_record(first, path):
    """The page counts at most as many records as fit into those that the constructor
    was told of, however they are converted.
    """
    profile = gaussian(sigma=2.0, adjacency=first)
    known = {pair for pair, (_, condition) in IMPLIED.items() if not condition}
    for given, to in path:
        if profile.adjacency == given:
            profile = profile.for_adjacency(to, assumed=True)
            known.add((given, to))
    # fewest records of the first adjacency that make up one of each other
    fewest = {first: 1}
    for _ in ADJACENCIES:
        for given, to in known & {pair for pair in IMPLIED if pair[0] in fewest}:
            costs = fewest[given] * IMPLIED[given, to][0]
            fewest[to] = min(costs, fewest.get(to, costs))
    told = statement(profile).content["protection"]["unit"]
    size = int((re.findall(r"\d+", told) or ["1"])[0])
    assert size * fewest[profile.adjacency] <= profile.parameters.get("group", 1)


def test_private_votes_are_not_stated():
    told = gnmax(sigma=20.0, counts=[[90, 5, 5]])
    mixed = compose(told, gaussian(sigma=1.0)).with_(status="refuted")
    for profile in (told, told.with_(status="proved"), mixed, told.compose(2)):
        with pytest.raises(
            ValueError, match="profile must not depend on private records"
        ) as caught:
            statement(profile)
        assert "90" not in str(caught.value)


def test_a_number_of_records_that_is_protected_is_not_stated():
    profile = bagging(n=1234, subsample=10)
    refused = "the number of records, which adjacency='add-remove' protects"
    for each in (profile, compose(profile, gaussian(sigma=1.0)), profile.compose(3)):
        with pytest.raises(ValueError, match=refused) as caught:
            statement(each)
        assert "1234" not in str(caught.value)
    public = statement(bagging(n=1234, subsample=10, adjacency="zero-out"))
    for made in (public, statement(profile, n_public=True)):
        told = made.content["protection"]
        assert told["records"] == "public"
        assert told["unprotected"] == ["the number of records"]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_number_of_records_follows_from_the_adjacency_and_not_from_words(adjacency):
    profile = gaussian(sigma=1.0, adjacency=adjacency)
    for words in ("", "n=60 is public", "there are 60 records"):
        made = statement(profile.with_(assumption=words)).content["protection"]
        hidden = adjacency == "add-remove"
        assert made["records"] == (PROTECTED if hidden else "public")
        assert made["unprotected"] == ([] if hidden else ["the number of records"])


def test_a_profile_is_not_stated_for_an_adjacency_that_it_does_not_imply(stated):
    changes = {
        "guarantee.profile.parameters.adjacency": "add-remove",
        "guarantee.profile.adjacency": "replace-one",
        "protection.adjacency": "replace-one",
    }
    with pytest.raises(ValueError, match="does not follow from 'add-remove'"):
        PrivacyStatement.from_json(forged(stated, **changes)).verify()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"profile": "pure"}, TypeError, "profile must be a PrivacyProfile, got str"),
        (
            {"declared": {"nmae": "x"}},
            ValueError,
            "a name in declared must be one of 'name', 'method', 'released'",
        ),
        (
            {"declared": {"name": 3}},
            TypeError,
            r"declared\['name'\] must be text, got int",
        ),
        ({"delta": 2.0}, ValueError, r"delta must be in \[0, 1\], got delta=2.0"),
        ({"epsilon": [-1.0]}, ValueError, "epsilon must be >= 0, got epsilon=-1.0"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        statement(**{"profile": pure(1.0), **arguments})


@pytest.mark.parametrize(
    ("profile", "warning"),
    [
        (pure(1.0).with_(status="refuted"), "This guarantee is refuted"),
        (approximate(0.0, 1.0), "There is no guarantee"),
        (pure(1.0).with_(implementation="reproducible"), "The noise came from a seed"),
        (pure(1.0).with_(status="assumption"), "if what it assumes holds"),
        (pure(1.0).with_(status="conjecture"), "if a conjecture holds"),
        (pure(1.0), r"has at most 0.2719 % true positives\."),
        (pure(1.0, adjacency="replace-one"), "whether one record was exchanged"),
    ],
)
def test_the_page_begins_with_what_matters(profile, warning):
    lead = re.findall(r'<p class="lead.*?</p>', statement(profile).to_html())
    assert re.search(warning, " ".join(lead))


def test_files(stated, tmp_path):
    for kind, text in ((".json", stated.to_json()), (".HTML", stated.to_html())):
        assert stated.save(tmp_path / f"a{kind}").read_bytes().decode() == text
    with pytest.raises(
        ValueError, match=r"the ending of path must be one of '.json', '.html', '.pdf'"
    ):
        stated.save(tmp_path / "a.docx")
    assert stated._repr_html_() in stated.to_html()
    printed = str(stated)
    assert stated.content["digest"] in printed
    assert "<" not in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_a_missing_browser_is_named(stated, tmp_path, monkeypatch):
    monkeypatch.setattr(_chromium, "program", lambda: str(tmp_path / "no-browser"))
    with pytest.raises(
        RuntimeError, match="a PDF needs Chromium or Chrome, none could be started"
    ):
        stated.save(tmp_path / "a.pdf")
    monkeypatch.setattr(_chromium, "find_spec", lambda name: None)
    with pytest.raises(
        RuntimeError,
        match=re.escape(f"{install_command('pdf')} (not installed: playwright)"),
    ):
        stated.save(tmp_path / "a.pdf")


@pytest.mark.needs("browser")
def test_it_is_one_sheet_of_paper_and_nothing_is_wider_than_a_phone(tmp_path):
    told = dict.fromkeys(TOLD, ONE_LINE)
    profile = dp_sgd(
        noise_multiplier=1.0, sample_rate=0.01, steps=10, adjacency="zero-out"
    )
    full = statement(
        profile.with_(remark="words " * 60, assumption="words " * 60),
        delta=[1e-5, 1e-6],
        declared=told,
    )
    (sheet,) = pypdf.PdfReader(full.save(tmp_path / "a.pdf")).pages
    assert [round(float(side)) for side in sheet.mediabox[2:]] == [595, 842]
    assert full.content["digest"] in "".join(sheet.extract_text().split())
    long = statement(EXTREMES["long"]())
    # nothing is cut
    assert len(pypdf.PdfReader(long.save(tmp_path / "b.pdf")).pages) > 1
    with _chromium.browser() as opened:
        for made in (full, long):
            tab = opened.new_page(viewport={"width": 360, "height": 800})
            tab.set_content(made.to_html())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 360
