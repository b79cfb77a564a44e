"""The pure logic of the proof: what to measure (plan), what was measured (evidence), what it means (claims).

Nothing here does I/O or imports pyinfra. The order of a run:

1. measure the node; the pods are only worth starting if `unmet("co-resident", evidence)` is empty;
2. `plan()` the slices, run the pods, measure them;
3. `judge()` the whole evidence: one `Verdict` per claim, in the order of the lab.
"""
