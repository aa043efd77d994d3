"""Findings of axe-core on a page."""

from pathlib import Path

from playwright.sync_api import Page

from tests.e2e.browsing import expect_soon

AXE = Path(__file__).with_name("axe") / "axe.min.js"
_SERIOUS = """() => axe.run(document, {resultTypes: ['violations']}).then(({violations}) =>
    violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
        .flatMap(({id, nodes}) => nodes.map(node => {
            const {message} = [...node.any, ...node.all, ...node.none][0] ?? {}
            return `${id}: ${node.html.slice(0, 120)} ${message}`
        })))"""


def serious_findings(page: Page) -> list[str]:
    """Return the elements of a page with a serious or critical finding."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    findings: list[str] = page.evaluate(_SERIOUS)
    return findings


def expect_no_serious_findings(page: Page) -> None:
    """Wait until there is none: colours change over some frames, and drawings appear late."""
    expect_soon(page, lambda: serious_findings(page), lambda findings: findings == [])
