"""The analysis process of the language server: a child that analyses, and the server's side of the conversation with it.

`analyses.py` asks it and keeps what it answered, `process.py` is the child, `messages.py` what they say to each other,
`inbox.py` the child's queue, `placing.py` turns an Analysis into the plain values of `facts.py`, with
`describing.py` for operations and `lives.py` for names; `fixing.py` makes all fixes of a file.
"""
