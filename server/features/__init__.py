"""What the language server offers: one protocol feature a file, registered in the table of `lsp.py`."""
