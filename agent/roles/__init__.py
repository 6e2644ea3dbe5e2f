"""What a language model is asked to do: each role makes one kind of request and reads one kind of answer."""
