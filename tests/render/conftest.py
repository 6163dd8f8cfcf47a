"""The two reports that the tests of pages read: each takes seconds, and is made once."""

from __future__ import annotations

import pytest
import reports

from colltool.analysis.report import Report


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Everything on it."""
    return reports.page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def page(report: Report) -> str:
    """Its text, made on the second day of 1970."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "86400")
        return report.to_html()


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every text tries to be markup."""
    return reports.hostile(tmp_path_factory.mktemp("hostile")).to_html()
