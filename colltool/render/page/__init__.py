"""A report as one page of HTML that needs nothing else: no script, no font, no file and no network."""

from colltool.render.page.page import check_page, report_page

__all__ = ["check_page", "report_page"]
