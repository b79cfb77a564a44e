"""Verdicts in, text and files out. The five words of `isolation.verdict` are the same in every form."""

from hami_k3s.reports.document import SCHEMA_VERSION, file_name
from hami_k3s.reports.run import Run, report_directory, run_directory
from hami_k3s.reports.terminal import render, summary

__all__ = ["SCHEMA_VERSION", "Run", "file_name", "render", "report_directory", "run_directory", "summary"]
