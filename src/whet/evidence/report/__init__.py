"""`whet report`: runs as one self-contained HTML file, or as JSON, CSV and Markdown."""

from whet.evidence.report.page import render_report

__all__ = ["render_report"]
