"""Verdicts in, text and files out. The five words of `isolation.verdict` are the same in every form."""

from hami_k3s.reports.json_report import SCHEMA_VERSION, report_directory, write
from hami_k3s.reports.terminal import render, summary

__all__ = ["SCHEMA_VERSION", "render", "report_directory", "summary", "write"]
