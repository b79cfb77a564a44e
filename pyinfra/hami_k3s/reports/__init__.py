"""Verdicts in, text and files out. The five words of `isolation.verdict` are the same in every form."""
