"""What a finding is, and what rules share: races, waits, wording, fixes. The rules themselves are in `analysis/rules`."""
