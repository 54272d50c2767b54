import pytest

from tests.docs.markdown import ROOT, anchors, documents, links

DOCUMENTS = documents()


def _name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_every_relative_link_leads_somewhere(document):
    broken = []
    for link in links(document):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or not target.is_relative_to(ROOT):
            broken.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            broken.append(f"{link}: no such heading")
    assert not broken


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
            waiting += [target for target in targets if target in DOCUMENTS]
    assert [_name(page) for page in DOCUMENTS if page not in reached] == []
