"""Order preservation and conserved quantities between two versions of a program."""
