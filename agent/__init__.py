"""From a contract to a validated version of a program: `stitching.py` is the run, `transforms/` what the rules propose, `invention/` and
`implementing/` what a language model does, `journal.py` and `units.py` the record and the parts that a user chooses among."""
