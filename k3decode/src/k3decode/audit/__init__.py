"""Race audit: can a kernel read memory that an earlier kernel or another GPU may still write?

One way through the folder: `sass_*` or `ptx_*` (text to instructions) -> `program` (the few terms
the audit needs) -> `flow`, `dominance` (paths) -> `value`, `dataflow` (where addresses come from)
-> `paths`, `waits` -> `rules` (findings) -> `report`. `declaration` says what memory is static.
Only `disassembler` and `__main__` touch files or processes.
"""
